//! Three replicas: one follows a catalog, all serve it.

use super::{Shared, replicas, until, until_all_at, until_at};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::{ask, get};
use crate::support::image::{Built, Image};
use crate::support::postgres::{self, Postgres};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const HOLDER: &str = "SELECT r.name FROM leases l JOIN replicas r ON r.id = l.holder";

fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

fn entity_tag(replica: &mut Almanac, coding: &str) -> (String, Vec<u8>) {
    let address = replica.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    let reply = ask(address, "GET", path, &[("Accept-Encoding", coding)], b"").unwrap();
    assert_eq!(reply.status, 200);
    (reply.header("etag").unwrap().to_owned(), reply.body)
}

/// The digest of the catalog's image, once it is not this one.
fn other_image(replica: &mut Almanac, before: &str) -> String {
    let mut digest = String::new();
    until("another image", || {
        let image = replica.until_pullable("a");
        image
            .header("docker-content-digest")
            .unwrap()
            .clone_into(&mut digest);
        digest != before
    });
    digest
}

#[test]
fn one_replica_follows_a_catalog_and_all_serve_it() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 3);
    until_all_at(&mut replicas, "a", &first.digest());
    // Each layer is pulled once, for all of them; by another holder once more.
    let holders = shared.postgres.ask("SELECT epoch FROM leases");
    let holders: usize = holders.parse().unwrap();
    let pulled = upstream.lines();
    let blobs = pulled.iter().filter(|line| line.contains("/blobs/"));
    let mut blobs: Vec<&String> = blobs.collect();
    let all = blobs.len();
    blobs.sort();
    blobs.dedup();
    assert!(all <= blobs.len() * holders, "{pulled:#?}");

    // All answers are the same, byte for byte, whoever gives them.
    let mut image = String::new();
    for replica in &mut replicas {
        image = other_image(replica, "");
    }
    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut replicas, "a", &second.digest());
    for coding in ["identity", "gzip", "zstd"] {
        let mut answers = replicas.iter_mut().map(|it| entity_tag(it, coding));
        let answer = answers.next().unwrap();
        assert!(answers.all(|other| other == answer), "{coding}");
    }
    // A cache in front asks each time.
    for replica in &mut replicas {
        let address = replica.program.address("http");
        for path in ["all", "metas?package=second"] {
            let path = format!("/catalogs/a/api/v1/{path}");
            let reply = get(address, &path).unwrap();
            assert_eq!(reply.header("cache-control"), Some("no-cache"), "{path}");
            let tag = [("If-None-Match", reply.header("etag").unwrap())];
            let again = ask(address, "GET", &path, &tag, b"").unwrap();
            assert_eq!(again.status, 304);
            assert_eq!(again.header("cache-control"), Some("no-cache"), "{path}");
        }
    }
    let text = Catalog::one("second").text(Format::JsonLines);
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text);
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
    }
    // The image of the second revision comes to all of them, with one digest.
    let digests: Vec<String> = replicas
        .iter_mut()
        .map(|it| other_image(it, &image))
        .collect();
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
    let ids: Vec<_> = replicas
        .iter_mut()
        .map(|replica| replica.status("a")["revision"]["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn another_replica_follows_when_the_holder_is_killed() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 3);
    until_all_at(&mut replicas, "a", &first.digest());

    let holder = shared.postgres.ask(HOLDER);
    let epoch = shared.postgres.ask("SELECT epoch FROM leases");
    let mut dead = replicas.swap_remove(holder.parse().unwrap());
    dead.program.kill9();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    assert_ne!(shared.postgres.ask("SELECT epoch FROM leases"), epoch);

    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut replicas, "a", &second.digest());

    // It comes back with what it has, and catches up.
    dead.program.restart();
    until_at(&mut dead, "a", &second.digest());
    // A clean stop gives the lease back at once.
    for replica in &mut replicas {
        replica.stop();
    }
    shared.postgres.until(HOLDER, &holder);
}

#[test]
fn a_holder_that_was_stopped_publishes_nothing_when_it_goes_on() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());

    let holder = shared.postgres.ask(HOLDER);
    let mut stopped = replicas.swap_remove(holder.parse().unwrap());
    stopped.program.signal("STOP");
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut replicas, "a", &second.digest());
    let epoch = || -> u64 {
        let found = shared.postgres.ask("SELECT max(epoch) FROM generations");
        found.parse().unwrap()
    };
    let before = epoch();

    stopped.program.signal("CONT");
    until_at(&mut stopped, "a", &second.digest());
    let third = image_of("third");
    upstream.push(REPOSITORY, "latest", &third);
    until_all_at(&mut replicas, "a", &third.digest());
    until_at(&mut stopped, "a", &third.digest());
    // Only the epochs of holders, in their order.
    let order = "SELECT count(*) FROM generations a JOIN generations b USING (track)
                 WHERE a.number < b.number AND a.epoch > b.epoch";
    assert_eq!(shared.postgres.ask(order), "0");
    assert!(epoch() >= before);
}

#[test]
fn what_is_served_stays_while_the_database_and_the_objects_are_away() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::of(Postgres::alone()), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());

    // A pass fails where it shares, and the revision of before stays.
    shared.objects.lie(|lies| lies.gone = true);
    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until("a failure of the holder", || {
        let mut results = replicas
            .iter_mut()
            .map(|replica| replica.status("a")["last_result"].take());
        results.any(|result| result["stage"] == "share" && result["reason"] == "objects")
    });
    for replica in &mut replicas {
        assert_eq!(
            replica.all("a").text(),
            Catalog::one("first").text(Format::JsonLines)
        );
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());

    shared.postgres.kill9();
    for replica in &mut replicas {
        replica
            .program
            .wait_for_log("the warning", |log| log.contains("no word to the fleet"));
        assert_eq!(
            replica.all("a").text(),
            Catalog::one("second").text(Format::JsonLines)
        );
    }
    // A start with what is stored, while nothing answers.
    shared.objects.lie(|lies| lies.gone = true);
    replicas[0].program.kill9();
    replicas[0].program.restart();
    until_at(&mut replicas[0], "a", &second.digest());
    shared.objects.behave();
    shared.postgres.restart();
    let third = image_of("third");
    upstream.push(REPOSITORY, "latest", &third);
    until_all_at(&mut replicas, "a", &third.digest());
}

#[test]
fn a_signal_to_one_replica_makes_the_holder_retry() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    // Nothing is there yet, and the tries come further and further apart.
    let config = catalog("a", &upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    let mut holder = 0;
    until("a failure of the holder", || {
        let failing = |replica: &mut Almanac| replica.status("a")["failures"] != 0;
        holder = usize::from(failing(&mut replicas[1]));
        failing(&mut replicas[holder])
    });
    // A signal gets lost where the holder begins a try.
    until("another try", || {
        replicas[1 - holder].program.signal("HUP");
        let log = replicas[holder].program.log();
        log.contains("a retry was requested")
    });
}
