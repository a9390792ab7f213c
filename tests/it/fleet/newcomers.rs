//! Replicas that join with an empty folder, while the others have what the bucket has lost.

use std::fs;
use std::time::Duration;

use super::{
    Following, HOLDER, REPOSITORY, Shared, push, replicas, status_of, until, until_all_at, until_at,
};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::http::get;
use crate::support::postgres;
use crate::support::receiver::Receiver;
use crate::support::upstream::Upstream;

/// Catalogs of one source.
fn many(upstream: &Upstream) -> String {
    let source = upstream.reference(REPOSITORY, "latest");
    let more = ["b", "c", "d"].map(|name| catalog(name, &source));
    format!("{}{}", following(&source), more.concat())
}

/// It would follow a catalog without its bytes, so nobody would upload them.
#[test]
fn a_replica_without_a_catalog_is_not_given_it_and_the_others_upload_what_is_lost() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = many(&upstream);
    let mut whole = replicas(&shared, &config, 1);
    for name in ["a", "b", "c", "d"] {
        until_all_at(&mut whole, name, &first.digest());
    }
    // No pass brings it again.
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    shared.objects.remove(|key| key.contains("sha256/"));
    let follows = || {
        shared.postgres.ask(
            "SELECT count(*) FROM leases l JOIN replicas r ON r.id = l.holder WHERE r.name = 'new'",
        ) != "0"
    };
    let [id, secret] = super::credentials();
    let settings = format!("{}{config}", shared.settings());
    let mut new = Almanac::start_with(&settings, &[id, secret, ("HOSTNAME", "new")]);
    until("the catalogs", || {
        // First: it may get a lease as soon as it is whole.
        let is_holder = follows();
        let is_there = |name: &str| {
            let path = format!("/catalogs/{name}/api/v1/all");
            let reply = get(new.program.address("http"), &path);
            reply.is_ok_and(|reply| reply.status == 200)
        };
        let all = ["a", "b", "c", "d"].map(is_there);
        let is_whole = all == [true; 4];
        assert!(
            is_whole || !is_holder,
            "the new replica follows what it lacks"
        );
        is_whole
    });
    let lost = "SELECT count(*) FROM objects WHERE state = 'lost'";
    shared.postgres.until(lost, "0");
    // Then it gets its share.
    until("its share", follows);
    drop(whole);
    until_at(&mut new, "a", &first.digest());
}

/// Four catalogs over three replicas: none is left without one, and none changes hands for
/// nothing.
#[test]
fn catalogs_are_spread_evenly_over_the_replicas() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = many(&upstream);
    let mut all = replicas(&shared, &config, 2);
    let spread = "SELECT string_agg(n::text, ' ' ORDER BY n) FROM (
                    SELECT (SELECT count(*) FROM leases l WHERE l.holder = r.id) AS n
                    FROM replicas r) AS spread";
    shared.postgres.until(spread, "2 2");
    for name in ["a", "b", "c", "d"] {
        until_all_at(&mut all, name, &first.digest());
    }
    all.push(shared.replica(&config));
    shared.postgres.until(spread, "1 1 2");
    let epochs = || {
        let epochs = "SELECT string_agg(epoch::text, ' ' ORDER BY track) FROM leases";
        shared.postgres.ask(epochs)
    };
    let before = epochs();
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(epochs(), before);
    // Whoever follows a catalog now publishes it.
    let second = push(&upstream, "second");
    for name in ["a", "b", "c", "d"] {
        until_all_at(&mut all, name, &second.digest());
    }
}

/// The holder uploads what it has, and another replica the rest.
#[test]
fn outlines_that_the_holder_lacks_come_from_another_replica() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut both,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_all_at(&mut both, "a", &second.digest());
    let third = push(&upstream, "third");
    until_all_at(&mut both, "a", &third.digest());
    let changes = |replica: &mut Almanac| {
        let reply = replica.http("/catalogs/a/api/v1/revisions");
        let revisions: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let items = revisions["items"].as_array().cloned().unwrap_or_default();
        let told = items.iter().filter(|one| one["changes"].is_u64());
        (items.len(), told.count())
    };
    for replica in &mut both {
        until("the history", || changes(replica) == (3, 2));
    }
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let holder: usize = shared.postgres.ask(HOLDER).parse().unwrap();
    let outlines = both[holder].program.data().join("outlines");
    for outline in fs::read_dir(outlines).unwrap() {
        fs::remove_file(outline.unwrap().path()).unwrap();
    }
    shared.objects.remove(|key| key.contains("sha256/"));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut new = replicas(&shared, &config, 1).remove(0);
    until_at(&mut new, "a", &third.digest());
    until("the changes", || changes(&mut new) == (3, 2));
    until("the end of the loss", || {
        status_of(&mut new)["lost_objects"] == 0
    });
}

/// The holder dies between the publication and the event.
#[test]
fn a_publication_whose_holder_has_died_is_told_by_the_next_one() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let receiver = Receiver::start([]);
    let first = push(&upstream, "first");
    let hook = format!(
        "\n[[webhook]]\nname = \"all\"\nurl = \"http://{}/hook\"\nallow_local = true\n",
        receiver.address
    );
    let config = following(&upstream.reference(REPOSITORY, "latest")) + &hook;
    let mut both = replicas(&shared, &config, 2);
    until_all_at(&mut both, "a", &first.digest());
    receiver.until(1);
    shared
        .postgres
        .until("SELECT count(*) FROM revisions WHERE untold", "0");
    // Told once, also by who comes next.
    let holder = shared.postgres.ask(HOLDER);
    let dead: usize = holder.parse().unwrap();
    let other = 1 - dead;
    both[dead].program.kill9();
    shared.postgres.until(HOLDER, &other.to_string());
    both[dead].program.restart();
    until_at(&mut both[dead], "a", &first.digest());

    // The database does not take the word that the event is sent, so it is not.
    shared.postgres.ask(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE OF untold ON revisions
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    let second = push(&upstream, "second");
    until_all_at(&mut both, "a", &second.digest());
    let holder: usize = shared.postgres.ask(HOLDER).parse().unwrap();
    both[holder].program.kill9();
    assert_eq!(receiver.received().len(), 1);
    shared.postgres.ask("DROP TRIGGER refuse ON revisions");
    let events = receiver.until(2);
    assert_eq!(events[1].kind(), "published");
    let told = events[1].event()["data"]["digest"].clone();
    assert_eq!(told, second.digest().to_string());
    shared
        .postgres
        .until("SELECT count(*) FROM revisions WHERE untold", "0");
    assert_eq!(receiver.received().len(), 2);
}
