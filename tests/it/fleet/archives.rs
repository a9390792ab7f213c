//! Archives of a fleet: a node alone moves into one and back, and an import takes its
//! turn among what the replicas publish.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{
    Following, HOLDER, REPOSITORY, Shared, credentials, image_of, push, replicas, until,
    until_all_at, until_at,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::image::Built;
use crate::support::objects::ObjectStore;
use crate::support::postgres::{self, Postgres};
use crate::support::program::{Finished, Start};
use crate::support::receiver::{Received, Receiver};
use crate::support::upstream::Upstream;

const MIRRORED: &str = "catalogs/b";

/// A folder for archives and a configuration.
pub(super) struct Desk(TempDir);

impl Desk {
    /// With this configuration.
    pub(super) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("almanac.toml"), config).unwrap();
        Self(folder)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command with the configuration and a data folder that need not exist.
    pub(super) fn run(&self, command: &str, data: &Path, more: &[&str]) -> Finished {
        self.command(command, data, more).run()
    }

    fn command(&self, command: &str, data: &Path, more: &[&str]) -> Start {
        let start = Start::new([command])
            .argument(format!("--config={}", self.path("almanac.toml").display()))
            .argument(format!("--data-dir={}", data.display()));
        let start = more.iter().fold(start, |start, more| start.argument(*more));
        let variables = credentials().into_iter();
        variables.fold(start, |start, (name, value)| start.variable(name, value))
    }

    pub(super) fn export(&self, data: &Path, name: &str) -> PathBuf {
        let archive = self.path(name);
        let done = self.run("export", data, &["--file", archive.to_str().unwrap()]);
        assert!(done.status.success(), "{done:?}");
        archive
    }

    fn import(&self, data: &Path, archive: &Path, more: &[&str]) -> Finished {
        let mut arguments = vec![archive.to_str().unwrap()];
        arguments.extend(more);
        self.run("import", data, &arguments)
    }

    fn imported(&self, data: &Path, archive: &Path, more: &[&str]) {
        let done = self.import(data, archive, more);
        assert!(done.status.success(), "{done:?}");
    }
}

/// Two catalogs: one with an image that is made here, and a mirrored one.
fn config_of(upstream: &Upstream) -> String {
    let mirrored = catalog("b", &upstream.reference(MIRRORED, "latest"));
    let own = following(&upstream.reference(REPOSITORY, "latest"));
    format!("{own}{mirrored}mirror = \"full\"\n")
}

/// What clients see of both catalogs, and in which revisions.
fn answers(almanac: &mut Almanac) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for (name, count) in [("a", 2), ("b", 1)] {
        almanac.until_pullable(name);
        almanac.until_whole(name);
        // It is recorded after the publication.
        until("the history", || revisions(almanac, name) == count);
        let mut paths = vec![
            format!("/catalogs/{name}/api/v1/all"),
            format!("/catalogs/{name}/api/v1/packages"),
            format!("/catalogs/{name}/api/v1/revisions"),
            format!("/v2/{name}/tags/list"),
            format!("/v2/{name}/manifests/latest"),
        ];
        if count > 1 {
            paths.push(format!("/catalogs/{name}/api/v1/changes"));
        }
        for path in paths {
            let reply = almanac.http(&path);
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            for header in ["etag", "last-modified", "docker-content-digest"] {
                let value = reply.header(header).unwrap_or_default();
                answers.insert(format!("{path} {header}"), value.to_owned());
            }
            let digest = images::digest::Digest::of(&reply.body);
            answers.insert(path, format!("{digest} {}", reply.text()));
        }
    }
    answers
}

/// How many revisions the history of a catalog has.
fn revisions(almanac: &mut Almanac, name: &str) -> usize {
    let reply = almanac.http(&format!("/catalogs/{name}/api/v1/revisions"));
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    found["items"].as_array().unwrap().len()
}

fn push_mirrored(upstream: &Upstream, package: &str) -> Built {
    let image = image_of(package);
    upstream.push(MIRRORED, "latest", &image);
    image
}

#[test]
fn a_node_alone_moves_into_a_fleet_and_back_with_the_same_answers() {
    if postgres::is_missing() {
        return;
    }
    let upstream = Upstream::start();
    let config = config_of(&upstream);
    let mut alone = {
        let (first, mirrored) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
        let mut alone = Almanac::start(&config);
        alone.until_at("a", &first.digest());
        alone.until_at("b", &mirrored.digest());
        alone
    };
    let image = |alone: &mut Almanac| {
        let image = alone.until_pullable("a");
        image.header("docker-content-digest").unwrap().to_owned()
    };
    let old = image(&mut alone);
    let second = push(&upstream, "second");
    alone.until_at("a", &second.digest());
    // It is made after the publication.
    until("its image", || image(&mut alone) != old);
    let before = answers(&mut alone);
    let there = Desk::new(&config);
    let archive = there.export(alone.program.data(), "alone.tar");
    alone.stop();

    // The fleet has nothing but the archive.
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let shared = Shared {
        postgres: Postgres::start(),
        objects: ObjectStore::start(),
    };
    shared.migrate();
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let mut fleet = replicas(&shared, &config, 2);
    here.imported(&here.path("none"), &archive, &[]);
    until_all_at(&mut fleet, "a", &second.digest());
    for replica in &mut fleet {
        assert_eq!(answers(replica), before);
    }
    // Nothing is new a second time.
    let again = here.import(&here.path("none"), &archive, &[]);
    assert!(again.status.success(), "{again:?}");
    assert!(again.stderr.contains("nothing is new"), "{again:?}");
    assert_eq!(
        shared.postgres.ask("SELECT max(number) FROM generations"),
        "1"
    );
    // One that comes later learns of the first revision, too.
    let mut late = replicas(&shared, &config, 1);
    until_all_at(&mut late, "a", &second.digest());
    assert_eq!(answers(&mut late[0]), before);

    // Another fleet has used larger numbers: the history comes along under the next.
    let other = Shared {
        postgres: Postgres::start(),
        objects: ObjectStore::start(),
    };
    other.migrate();
    other.postgres.ask("SELECT setval('revisions_id_seq', 100)");
    let there_too = Desk::new(&format!("{}{config}", other.settings()));
    there_too.imported(&there_too.path("none"), &archive, &[]);
    let numbers = "SELECT string_agg(revision::text, ' ' ORDER BY revision) FROM history";
    assert_eq!(other.postgres.ask(numbers), "101 102 103");
    // The moments are in the bucket, though no replica has read them.
    let keys = other.objects.keys().into_iter();
    let moments = keys.filter(|key| key.contains("moments/"));
    assert_eq!(moments.count(), 2);
    let mut first_of_all = replicas(&other, &config, 1);
    until_all_at(&mut first_of_all, "a", &second.digest());
    until("the history", || revisions(&mut first_of_all[0], "a") == 2);

    // Back again: from the rows and objects, and from the folder of a replica.
    let from_rows = here.export(&here.path("none"), "rows.tar");
    let from_folder = here.export(late[0].program.data(), "folder.tar");
    assert!(std::fs::read(&from_rows).unwrap() == std::fs::read(&from_folder).unwrap());
    let data = there.path("data");
    there.imported(&data, &from_rows, &[]);
    let mut back = Almanac::start_in(&data, &config);
    back.until_at("a", &second.digest());
    assert_eq!(answers(&mut back), before);
}

#[test]
fn an_import_replaces_nothing_newer_and_the_holder_goes_on_after_it() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(2)
    else {
        return;
    };
    for replica in &mut replicas {
        replica.until_pullable("a");
    }
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let none = here.path("none");
    let archive = here.export(&none, "first.tar");
    // Dates have whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));

    let refused = here.import(&none, &archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(refused.stderr.contains("--older"), "{refused:?}");
    here.imported(&none, &archive, &["--older"]);
    until_all_at(&mut replicas, "a", &first.digest());
    // The lease goes back, and the next pass publishes.
    upstream.misbehave(|behaviour| behaviour.status = None);
    until_all_at(&mut replicas, "a", &second.digest());
}

/// An import brings the bytes that the bucket and all replicas have lost, and goes back only
/// when it is told to.
#[test]
fn an_import_fills_a_bucket_that_has_lost_what_the_fleet_serves() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    replicas[0].until_pullable("a");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let none = here.path("none");
    let archive = here.export(&none, "first.tar");
    // Dates have whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    replicas[0].until_pullable("a");
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    drop(replicas);
    shared.objects.remove(|key| key.contains("sha256/"));

    let failed = here.run("export", &none, &["--file", "lost.tar"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    for told in ["the revision of a that the fleet serves", "try again"] {
        assert!(failed.stderr.contains(told), "{failed:?}");
    }
    let refused = here.import(&none, &archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    for told in ["newer here", "--older"] {
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    here.imported(&none, &archive, &["--older"]);
    let mut replicas = super::replicas(&shared, &config, 1);
    until_at(&mut replicas[0], "a", &first.digest());
    replicas[0].until_pullable("a");
}

#[test]
fn an_export_ends_on_a_signal_while_the_bucket_hangs() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    // Only the export asks the bucket then.
    replicas.remove(0).stop();
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    shared
        .objects
        .lie(|lies| lies.slow = Duration::from_mins(10));
    let archive = here.path("a.tar");
    let arguments = ["--file", archive.to_str().unwrap()];
    let asked = || shared.objects.requests().len();
    let before = asked();
    let mut export = here
        .command("export", &here.path("none"), &arguments)
        .start();
    until("a request to the bucket", || asked() > before);
    export.terminate();
    let status = export.wait(Duration::from_secs(10));
    assert_eq!(status.code(), Some(1));
    assert!(
        export.log().contains("stopped; no archive was written"),
        "{}",
        export.log()
    );
    assert!(!archive.exists());
}

#[test]
fn replicas_of_a_disconnected_network_serve_what_is_imported() {
    let Some(Following {
        shared: connected,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    replicas[0].until_pullable("a");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let there = Desk::new(&format!("{}{config}", connected.settings()));
    let archive = there.export(&there.path("none"), "first.tar");
    replicas.remove(0).stop();
    let asked = upstream.lines().len();

    let shared = Shared::start();
    let config =
        format!("offline = true\n{config}\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n");
    let mut fleet = super::replicas(&shared, &config, 2);
    for replica in &mut fleet {
        let empty = replica.until_within(LONG_PATIENCE, "a", "the reason", |status| {
            status["last_error"]
                .as_str()
                .is_some_and(|error| error.contains("import one"))
        });
        assert_eq!(empty["revision"], Value::Null);
    }
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    here.imported(&here.path("none"), &archive, &[]);
    until_all_at(&mut fleet, "a", &first.digest());
    for replica in &mut fleet {
        replica.until_pullable("a");
        replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
            status["state"] == "serving"
        });
        assert_eq!(replica.packages("ours").unwrap(), ["first"]);
    }
    // No pass has asked the source.
    assert_eq!(upstream.lines().len(), asked);
}

#[test]
fn an_import_that_no_replica_would_serve_is_refused() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    replicas[0].until_pullable("a");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let archive = here.export(&here.path("none"), "all.tar");
    let unknown = here.path("unknown.tar");
    let name = ["--catalog=other", "--file", unknown.to_str().unwrap()];
    let refused = here.run("export", &here.path("none"), &name);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("there are: a"), "{refused:?}");

    let other = catalog("b", &upstream.reference(REPOSITORY, "latest"));
    let moved = catalog("a", &upstream.reference("elsewhere/a", "latest"));
    for (config, wanted) in [(other, "no catalog a"), (moved, "elsewhere/a")] {
        let desk = Desk::new(&format!("{}{config}", shared.settings()));
        let refused = desk.import(&desk.path("none"), &archive, &[]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(wanted), "{refused:?}");
    }
    let mut damaged = std::fs::read(&archive).unwrap();
    let at = damaged.len() - 2000;
    damaged[at] ^= 1;
    std::fs::write(&archive, damaged).unwrap();
    let refused = here.import(&here.path("none"), &archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert_eq!(shared.postgres.ask("SELECT count(*) FROM tracks"), "1");
    until_at(&mut replicas[0], "a", &first.digest());
}

#[test]
fn an_import_leaves_catalogs_alone_of_which_it_has_nothing_new() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, other) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
    let config = config_of(&upstream);
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    until_all_at(&mut replicas, "b", &other.digest());
    for replica in &mut replicas {
        replica.until_pullable("a");
        replica.until_pullable("b");
    }
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let none = here.path("none");
    // Each replica follows one of them, and nothing more comes.
    let spread = "SELECT count(DISTINCT holder) FROM leases";
    shared.postgres.until(spread, "2");
    let rows = |catalog: &str| {
        shared.postgres.ask(&format!(
            "SELECT l.holder, l.epoch, max(g.number), max(g.epoch) FROM tracks t
             JOIN leases l ON l.track = t.id JOIN generations g ON g.track = t.id
             WHERE t.catalog = '{catalog}' GROUP BY l.holder, l.epoch"
        ))
    };
    let before = here.export(&none, "before.tar");
    let (a, b) = (rows("a"), rows("b"));
    let done = here.import(&none, &before, &[]);
    assert!(done.status.success(), "{done:?}");
    for told in [
        "nothing is new in ",
        "already there: a at ",
        "already there: b at ",
    ] {
        assert!(done.stderr.contains(told), "{done:?}");
    }
    assert_eq!([rows("a"), rows("b")], [a.clone(), b.clone()]);

    // Of two catalogs, one is new. Dates have whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let (a, b) = (rows("a"), rows("b"));
    let done = here.import(&none, &before, &["--older"]);
    assert!(done.status.success(), "{done:?}");
    for told in ["imported a at ", "already there: b at "] {
        assert!(done.stderr.contains(told), "{done:?}");
    }
    assert_ne!(rows("a"), a);
    assert_eq!(rows("b"), b);
    until_all_at(&mut replicas, "a", &first.digest());
    until_all_at(&mut replicas, "b", &other.digest());
}

#[test]
fn webhooks_hear_of_an_imported_revision_once() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let receiver = Receiver::start([]);
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"))
        + &format!(
            "\n[[webhook]]\nname = \"all\"\nurl = \"http://{}/hook\"\nallow_local = true\n",
            receiver.address
        );
    let mut replicas = replicas(&shared, &config, 3);
    until_all_at(&mut replicas, "a", &first.digest());
    for replica in &mut replicas {
        replica.until_pullable("a");
    }
    let here = Desk::new(&format!("{}{config}", shared.settings()));
    let none = here.path("none");
    let archive = here.export(&none, "first.tar");
    // Dates have whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    receiver.until(2);
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    here.imported(&none, &archive, &["--older"]);
    until_all_at(&mut replicas, "a", &first.digest());

    let events = receiver.until(3);
    let told = |received: &Received| {
        let event = received.event();
        let data = &event["data"];
        let from = data["changes"]["from"].as_str().map(str::to_owned);
        (
            received.kind(),
            data["revision"].to_string(),
            data["digest"].to_string(),
            from,
        )
    };
    let revision = replicas[0].status("a")["revision"]["id"].to_string();
    let (kind, number, digest, from) = told(&events[2]);
    assert_eq!(
        (kind.as_str(), number.trim_matches('"')),
        ("published", revision.trim_matches('"'))
    );
    assert_eq!(digest.trim_matches('"'), first.digest().to_string());
    assert_eq!(from.as_deref(), Some(told(&events[1]).1.trim_matches('"')));
    // Neither another holder nor a start tells it again.
    let holder = shared.postgres.ask(HOLDER);
    let dead = &mut replicas[holder.parse::<usize>().unwrap()];
    dead.program.kill9();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    dead.program.restart();
    until_all_at(&mut replicas, "a", &first.digest());
    // The next publication is the next event.
    upstream.behave();
    until_all_at(&mut replicas, "a", &second.digest());
    let events = receiver.until(4);
    let kinds: Vec<_> = events.iter().map(|received| told(received).0).collect();
    assert_eq!(kinds, ["published"; 4], "{events:?}");
    let (_, _, digest, from) = told(&events[3]);
    assert_eq!(digest.trim_matches('"'), second.digest().to_string());
    assert_eq!(from.as_deref(), Some(number.trim_matches('"')));
}
