//! Archives of a fleet: a node alone moves into one and back, and an import takes its
//! turn among what the replicas publish.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{
    Following, HOLDER, REPOSITORY, Shared, assert_good, assert_refused, credentials, holder,
    image_of, push, replicas, until, until_all_at, until_at,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::image::Built;
use crate::support::postgres;
use crate::support::program::{Finished, Start};
use crate::support::receiver::{Received, Receiver};
use crate::support::upstream::Upstream;

const MIRRORED: &str = "catalogs/b";
/// How many newest generations webhooks have not been notified of.
const UNNOTIFIED: &str = "SELECT count(*) FROM generations g JOIN tracks t ON t.newest = g.number
    WHERE g.unnotified";

/// A folder for archives and a configuration.
pub(super) struct Desk(TempDir);

impl Desk {
    /// With this configuration.
    pub(super) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("almanac.toml"), config).unwrap();
        Self(folder)
    }

    /// With that of a fleet.
    fn of(shared: &Shared, config: &str) -> Self {
        Self::new(&format!("{}{config}", shared.settings()))
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

    fn export(&self, data: &Path, name: &str) -> PathBuf {
        let archive = self.path(name);
        let arguments = ["--file", archive.to_str().unwrap()];
        assert_good(&self.run("export", data, &arguments));
        archive
    }

    fn import(&self, archive: &Path, more: &[&str]) -> Finished {
        self.importing(archive, more).run()
    }

    fn importing(&self, archive: &Path, more: &[&str]) -> Start {
        let mut arguments = vec![archive.to_str().unwrap()];
        arguments.extend(more);
        self.command("import", &self.path("none"), &arguments)
    }
}

/// Two catalogs: one with an image that is made here, and a mirrored one.
fn config_of(upstream: &Upstream) -> String {
    let mirrored = catalog("b", &upstream.reference(MIRRORED, "latest"));
    let own = following(&upstream.reference(REPOSITORY, "latest"));
    format!("{own}{mirrored}mirror = \"full\"\n")
}

fn push_mirrored(upstream: &Upstream, package: &str) -> Built {
    let image = image_of(package);
    upstream.push(MIRRORED, "latest", &image);
    image
}

/// No pass brings anything new from now on.
fn disconnect(upstream: &Upstream) {
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
}

/// The digests of a catalog's revisions, the last one first.
pub(super) fn digests(almanac: &mut Almanac, name: &str) -> Vec<String> {
    let reply = almanac.http(&format!("/catalogs/{name}/api/v1/revisions"));
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    let items = found["items"].as_array().unwrap().iter();
    items.map(|item| item["digest"].to_string()).collect()
}

/// What clients see of both catalogs, without numbers and dates: those are of each fleet.
fn answers(almanac: &mut Almanac) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for (name, count) in [("a", 2), ("b", 1)] {
        almanac.until_pullable(name);
        almanac.until_whole(name);
        // It is recorded after the publication.
        until("the history", || digests(almanac, name).len() == count);
        let history = digests(almanac, name).join(" ");
        answers.insert(format!("history of {name}"), history);
        for path in [
            format!("/catalogs/{name}/api/v1/all"),
            format!("/catalogs/{name}/api/v1/packages"),
            format!("/v2/{name}/tags/list"),
            format!("/v2/{name}/manifests/latest"),
        ] {
            let reply = almanac.http(&path);
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            let tag = reply.header("etag").unwrap_or_default().to_owned();
            answers.insert(format!("{path} etag"), tag);
            answers.insert(path, reply.text());
        }
    }
    answers
}

#[test]
fn a_node_alone_moves_into_a_fleet_and_back_with_the_same_content() {
    if postgres::is_missing() {
        return;
    }
    let upstream = Upstream::start();
    let config = config_of(&upstream);
    let (first, mirrored) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
    let mut alone = Almanac::start(&config);
    alone.until_at("a", &first.digest());
    alone.until_at("b", &mirrored.digest());
    let old = super::tag(&mut alone);
    let second = push(&upstream, "second");
    alone.until_at("a", &second.digest());
    // It is made after the publication.
    until("its image", || super::tag(&mut alone) != old);
    let before = answers(&mut alone);
    let there = Desk::new(&config);
    let archive = there.export(alone.program.data(), "alone.tar");
    alone.stop();

    // The fleet has nothing but the archive.
    disconnect(&upstream);
    let shared = Shared::start();
    let here = Desk::of(&shared, &config);
    let mut fleet = replicas(&shared, &config, 2);
    assert_good(&here.import(&archive, &[]));
    until_all_at(&mut fleet, "a", &second.digest());
    for replica in &mut fleet {
        assert_eq!(answers(replica), before);
    }
    // Nothing is new a second time.
    let published = "SELECT count(*), max(number) FROM generations";
    let rows = shared.postgres.ask(published);
    let again = here.import(&archive, &[]);
    assert_good(&again);
    assert!(again.stderr.contains("nothing is new"), "{again:?}");
    assert_eq!(shared.postgres.ask(published), rows);
    // One that comes later learns of the first revision, too.
    let mut late = replicas(&shared, &config, 1).remove(0);
    until_at(&mut late, "a", &second.digest());
    assert_eq!(answers(&mut late), before);
    let dates = fleet.iter_mut().chain([&mut late]).map(|replica| {
        let all = replica.all("a");
        all.header("last-modified").unwrap().to_owned()
    });
    let mut dates: Vec<String> = dates.collect();
    dates.dedup();
    assert_eq!(dates.len(), 1, "{dates:?}");

    // Back again: from the rows and objects, and from the folder of a replica.
    let from_rows = here.export(&here.path("none"), "rows.tar");
    let from_folder = here.export(late.program.data(), "folder.tar");
    assert!(std::fs::read(&from_rows).unwrap() == std::fs::read(&from_folder).unwrap());
    let data = there.path("data");
    let arguments = [from_rows.to_str().unwrap()];
    assert_good(&there.run("import", &data, &arguments));
    let mut back = Almanac::start_in(&data, &config);
    back.until_at("a", &second.digest());
    assert_eq!(answers(&mut back), before);
}

#[test]
fn what_a_fleet_serves_already_is_not_published_again_for_a_later_date() {
    if postgres::is_missing() {
        return;
    }
    let upstream = Upstream::start();
    let config = config_of(&upstream);
    let (first, mirrored) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
    let shared = Shared::start();
    let here = Desk::of(&shared, &config);
    let mut replica = replicas(&shared, &config, 1).remove(0);
    let mut alone = Almanac::start(&config);
    for almanac in [&mut replica, &mut alone] {
        until_at(almanac, "a", &first.digest());
        until_at(almanac, "b", &mirrored.digest());
        until("its image", || !super::tag(almanac).is_empty());
    }
    let there = Desk::new(&config);
    let archive = there.export(alone.program.data(), "alone.tar");
    shared
        .postgres
        .ask("UPDATE generations SET modified = modified - 100");
    let published = "SELECT count(*), max(number) FROM generations";
    let rows = shared.postgres.ask(published);
    let imported = here.import(&archive, &[]);
    assert_good(&imported);
    assert!(imported.stderr.contains("nothing is new"), "{imported:?}");
    assert_eq!(shared.postgres.ask(published), rows);
}

/// An import brings the bytes that the bucket and all replicas have lost, and goes back only
/// when it is asked to.
#[test]
fn an_import_fills_a_bucket_that_has_lost_what_the_fleet_serves() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut all,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    all[0].until_pullable("a");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let here = Desk::of(&shared, &config);
    let archive = here.export(&here.path("none"), "first.tar");
    let second = push(&upstream, "second");
    until_all_at(&mut all, "a", &second.digest());
    disconnect(&upstream);
    drop(all);
    shared.objects.remove(|key| key.contains("sha256/"));

    let failed = here.run("export", &here.path("none"), &["--file=lost.tar"]);
    let words = ["the revision of a that the fleet serves", "try again"];
    assert_refused(&failed, &words);
    let refused = here.import(&archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    for word in ["newer here", "--older"] {
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    assert_good(&here.import(&archive, &["--older"]));
    let mut all = replicas(&shared, &config, 1);
    until_at(&mut all[0], "a", &first.digest());
    all[0].until_pullable("a");
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
    let here = Desk::of(&shared, &config);
    shared
        .objects
        .lie(|lies| lies.slow = Duration::from_mins(10));
    let archive = here.path("a.tar");
    let arguments = ["--file", archive.to_str().unwrap()];
    shared.objects.forget_requests();
    let mut export = here
        .command("export", &here.path("none"), &arguments)
        .start();
    until("a request to the bucket", || {
        !shared.objects.requests().is_empty()
    });
    export.terminate();
    assert_eq!(export.wait(Duration::from_secs(10)).code(), Some(1));
    let log = export.log();
    assert!(log.contains("stopped; no archive was written"), "{log}");
    assert!(!archive.exists());
}

#[test]
fn an_export_needs_no_right_to_write_and_writes_nothing() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start_alone(1)
    else {
        return;
    };
    replicas[0].until_pullable("a");
    replicas[0].stop();
    shared.postgres.ask(
        "CREATE ROLE reader LOGIN;
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;",
    );
    let url = shared.postgres.url_of("reader", "127.0.0.1");
    let settings = shared.settings().replace(&shared.postgres.url(), &url);
    let catalog = following(&upstream.reference(REPOSITORY, "latest"));
    let desk = Desk::new(&format!("{settings}{catalog}"));
    shared.objects.forget_requests();
    desk.export(&desk.path("none"), "all.tar");
    // A lost object is reported to the user, and to no replica.
    shared.objects.remove(|key| key.contains("/sha256/"));
    let failed = desk.run("export", &desk.path("none"), &["--file=none.tar"]);
    assert_refused(&failed, &["there is no such object"]);
    let mut written = shared.objects.requests();
    written.retain(|request| !request.starts_with("GET ") && !request.starts_with("HEAD "));
    assert_eq!(written, Vec::<String>::new());
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
    let there = Desk::of(&connected, &config);
    let archive = there.export(&there.path("none"), "first.tar");
    replicas.remove(0).stop();
    let asked = upstream.lines().len();

    let shared = Shared::start();
    let config =
        format!("offline = true\n{config}\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n");
    let mut fleet = super::replicas(&shared, &config, 2);
    for replica in &mut fleet {
        let empty = replica.until_within(LONG_PATIENCE, "a", "the reason", |status| {
            let error = status["last_error"].as_str();
            error.is_some_and(|error| error.contains("import one"))
        });
        assert_eq!(empty["revision"], Value::Null);
    }
    let here = Desk::of(&shared, &config);
    assert_good(&here.import(&archive, &[]));
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
    let here = Desk::of(&shared, &config);
    let archive = here.export(&here.path("none"), "all.tar");
    let usage = |refused: &Finished, word: &str| {
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(word), "{refused:?}");
    };
    let other = ["--catalog=other", "--file=unknown.tar"];
    let refused = here.run("export", &here.path("none"), &other);
    usage(&refused, "there are: a");

    let other = catalog("b", &upstream.reference(REPOSITORY, "latest"));
    let moved = catalog("a", &upstream.reference("elsewhere/a", "latest"));
    for (config, word) in [(other, "no catalog a"), (moved, "elsewhere/a")] {
        usage(&Desk::of(&shared, &config).import(&archive, &[]), word);
    }
    let mut damaged = std::fs::read(&archive).unwrap();
    let at = damaged.len() - 2000;
    damaged[at] ^= 1;
    std::fs::write(&archive, damaged).unwrap();
    let refused = here.import(&archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert_eq!(shared.postgres.ask("SELECT count(*) FROM tracks"), "1");
    until_at(&mut replicas[0], "a", &first.digest());
}

#[test]
fn an_import_replaces_nothing_newer_and_leaves_catalogs_alone_of_which_it_has_nothing_new() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, other) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
    let config = config_of(&upstream);
    let mut all = replicas(&shared, &config, 2);
    until_all_at(&mut all, "a", &first.digest());
    all[0].until_pullable("a");
    until_mirrored(&mut all[0], &other);
    let here = Desk::of(&shared, &config);
    let archive = here.export(&here.path("none"), "before.tar");
    let second = push(&upstream, "second");
    until_all_at(&mut all, "a", &second.digest());
    disconnect(&upstream);
    let refused = here.import(&archive, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(refused.stderr.contains("--older"), "{refused:?}");

    let newest = "SELECT newest FROM tracks WHERE catalog = 'b'";
    let before = shared.postgres.ask(newest);
    let done = here.import(&archive, &["--older"]);
    assert_good(&done);
    for word in ["imported a at ", "already there: b at "] {
        assert!(done.stderr.contains(word), "{done:?}");
    }
    assert_eq!(shared.postgres.ask(newest), before);
    until_all_at(&mut all, "a", &first.digest());
    until_all_at(&mut all, "b", &other.digest());
    // The lock goes back, and the next pass publishes.
    upstream.behave();
    until_all_at(&mut all, "a", &second.digest());
}

/// Waits until the image of the mirrored catalog is this one.
fn until_mirrored(replica: &mut Almanac, image: &Built) {
    until_at(replica, "b", &image.digest());
    let digest = image.digest().to_string();
    until("the mirrored image", || {
        let found = replica.until_pullable("b");
        found.header("docker-content-digest") == Some(&*digest)
    });
}

#[test]
fn an_import_waits_for_a_running_pass_and_publishes_all_or_none() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, other) = (push(&upstream, "first"), push_mirrored(&upstream, "other"));
    let config = config_of(&upstream);
    let mut all = replicas(&shared, &config, 1);
    until_at(&mut all[0], "a", &first.digest());
    all[0].until_pullable("a");
    until_mirrored(&mut all[0], &other);
    let here = Desk::of(&shared, &config);
    let archive = here.export(&here.path("none"), "before.tar");
    let (second, later) = (push(&upstream, "second"), push_mirrored(&upstream, "later"));
    until_at(&mut all[0], "a", &second.digest());
    until_mirrored(&mut all[0], &later);

    // The pass takes some seconds for the image.
    upstream.misbehave(|behaviour| behaviour.slow = Some((16, Duration::from_millis(600))));
    upstream.forget_requests();
    let third = push(&upstream, "third");
    until("the pass", || {
        let lines = upstream.lines();
        lines.iter().any(|line| line.contains("/blobs/"))
    });
    let published = format!(
        "SELECT max(revision) FROM history WHERE published LIKE '%{}%'",
        third.digest()
    );
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 2
        AND NOT granted AND database = (
          SELECT oid FROM pg_database WHERE datname = current_database())";
    // One that is stopped while it waits ends at once.
    let mut import = here.importing(&archive, &["--older"]).start();
    shared.postgres.until(waits, "1");
    import.terminate();
    assert_eq!(import.wait(Duration::from_secs(3)).code(), Some(1));
    assert_eq!(shared.postgres.ask(&published), "");
    let mut import = here.importing(&archive, &["--older"]).start();
    until("the end of the pass", || {
        !shared.postgres.ask(&published).is_empty()
    });
    upstream.behave();
    disconnect(&upstream);
    let status = import.wait(LONG_PATIENCE);
    assert!(status.success(), "{}", import.log());
    until_at(&mut all[0], "a", &first.digest());
    until_at(&mut all[0], "b", &other.digest());
    let is_after = format!("SELECT newest > ({published}) FROM tracks WHERE catalog = 'a'");
    assert_eq!(shared.postgres.ask(&is_after), "t");
    // One transaction has published both.
    let transactions = "SELECT count(DISTINCT xmin::text) FROM tracks";
    assert_eq!(shared.postgres.ask(transactions), "1");

    upstream.behave();
    until_at(&mut all[0], "a", &third.digest());
    until_mirrored(&mut all[0], &later);
    disconnect(&upstream);
    // A file of the second catalog cannot be written.
    let file = "SELECT encode(o.digest, 'hex') FROM objects o
        JOIN generations g ON g.number = o.generation JOIN tracks t ON t.id = g.track
        WHERE t.catalog = 'b' AND o.name = 'messages.pb' ORDER BY g.number LIMIT 1";
    let file: &'static str = shared.postgres.ask(file).leak();
    shared.objects.remove(|key| key.contains(file));
    shared.objects.lie(|lies| lies.unwritable = Some(file));
    let newest = "SELECT string_agg(newest::text, ' ' ORDER BY id) FROM tracks";
    let before = shared.postgres.ask(newest);
    assert_refused(
        &here.import(&archive, &["--older"]),
        &["cannot write s3://"],
    );
    assert_eq!(shared.postgres.ask(newest), before);
}

/// A webhook that hears of publications.
fn hook(receiver: &Receiver) -> String {
    format!(
        "\n[[webhook]]\nname = \"all\"\nurl = \"http://{}/hook\"\nallow_local = true\n\
         events = [\"published\"]\n",
        receiver.address
    )
}

/// The digest of a published revision, its number, and that of the one before.
fn told(received: &Received) -> [String; 3] {
    let event = received.event();
    let data = &event["data"];
    let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
    [&data["digest"], &data["revision"], &data["changes"]["from"]].map(text)
}

#[test]
fn webhooks_hear_of_an_imported_revision_once() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let receiver = Receiver::start([]);
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest")) + &hook(&receiver);
    let mut all = replicas(&shared, &config, 3);
    until_all_at(&mut all, "a", &first.digest());
    all[0].until_pullable("a");
    let here = Desk::of(&shared, &config);
    let archive = here.export(&here.path("none"), "first.tar");
    let second = push(&upstream, "second");
    until_all_at(&mut all, "a", &second.digest());
    receiver.until(2);
    disconnect(&upstream);
    assert_good(&here.import(&archive, &["--older"]));
    until_all_at(&mut all, "a", &first.digest());

    let events = receiver.until(3);
    let number = all[0].status("a")["revision"]["id"].to_string();
    let number = number.trim_matches('"').to_owned();
    let [_, second_number, _] = told(&events[1]);
    let wanted = [first.digest().to_string(), number.clone(), second_number];
    assert_eq!(told(&events[2]), wanted);
    // Neither another holder nor a start reports it again.
    shared.postgres.until(UNNOTIFIED, "0");
    let holder = holder(&shared);
    let dead = &mut all[holder];
    dead.program.kill9();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder.to_string()
    });
    dead.program.restart();
    until_all_at(&mut all, "a", &first.digest());
    // The next publication is the next event.
    upstream.behave();
    until_all_at(&mut all, "a", &second.digest());
    let events = receiver.until(4);
    let [digest, _, from] = told(&events[3]);
    assert_eq!([digest, from], [second.digest().to_string(), number]);
}

/// The event is sent at least once: the holder may die before it has recorded that.
#[test]
fn a_publication_that_is_not_recorded_as_sent_is_sent_by_the_next_holder() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let receiver = Receiver::start([]);
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest")) + &hook(&receiver);
    shared.postgres.ask(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE OF unnotified ON generations
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    let mut both = replicas(&shared, &config, 2);
    until_all_at(&mut both, "a", &first.digest());
    receiver.until(1);
    both[holder(&shared)].program.kill9();
    let events = receiver.until(2);
    assert_eq!(told(&events[0]), told(&events[1]));
    shared.postgres.ask("DROP TRIGGER refuse ON generations");
    shared.postgres.until(UNNOTIFIED, "0");
}
