//! Archives of a fleet: a node alone moves into one and back, and an import takes its
//! turn among what the replicas publish.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::fixture::{TestFleet, credentials, prepared, start, start_alone};
use super::{
    OURS, assert_ended, assert_good, assert_refused, date, same, tag, until, until_at,
    until_mirrored, until_serving,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog};
use crate::support::image::{Built, image_of};
use crate::support::program::{Finished, Start};
use crate::support::receiver::{Received, Receiver};

const MIRRORED: &str = "catalogs/b";
/// How many newest generations webhooks have not been notified of.
const UNNOTIFIED: &str = "SELECT count(*) FROM generations g JOIN tracks t ON t.newest = g.number
    WHERE g.unnotified";

/// The rows of what was published, and the last of them.
const ROWS: &str = "SELECT count(*), max(number) FROM generations";

/// A folder for archives and a configuration.
pub(super) struct ArchiveFolder(TempDir);

impl ArchiveFolder {
    /// With this configuration.
    pub(super) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("almanac.toml"), config).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command with the configuration and a data folder that need not exist.
    fn command(&self, command: &str, data: &Path, more: &[&str]) -> Start {
        let start = Start::new([command])
            .argument(format!("--config={}", self.path("almanac.toml").display()))
            .argument(format!("--data-dir={}", data.display()));
        let start = more.iter().fold(start, |start, more| start.argument(*more));
        let variables = credentials().into_iter();
        variables.fold(start, |start, (name, value)| start.variable(name, value))
    }

    /// Exports what a fleet has.
    fn export(&self, name: &str) -> PathBuf {
        self.export_from(&self.path("none"), name)
    }

    /// Exports what is in a data folder.
    fn export_from(&self, data: &Path, name: &str) -> PathBuf {
        let archive = self.path(name);
        let arguments = ["--file", archive.to_str().unwrap()];
        assert_good(&self.command("export", data, &arguments).run());
        archive
    }

    pub(super) fn try_export(&self, more: &[&str]) -> Finished {
        self.command("export", &self.path("none"), more).run()
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

/// A fleet that has a mirrored catalog `b` besides, and no replicas yet.
fn with_mirrored() -> Option<TestFleet> {
    let mut fleet = prepared()?;
    let source = fleet.upstream.reference(MIRRORED, "latest");
    fleet.catalogs += &catalog("b", &source);
    fleet.catalogs += "mirror = \"full\"\n";
    Some(fleet)
}

/// A folder for archives of a fleet whose replicas have an image.
fn folder_of(fleet: &mut TestFleet) -> ArchiveFolder {
    fleet.replicas[0].until_pullable("a");
    ArchiveFolder::new(&fleet.config())
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
    let Some(mut fleet) = with_mirrored() else {
        return;
    };
    let (first, mirrored) = (fleet.push("first"), fleet.push_to(MIRRORED, "other"));
    let mut alone = Almanac::start(&fleet.catalogs);
    alone.until_at("a", &first.digest());
    alone.until_at("b", &mirrored.digest());
    let old = tag(&mut alone);
    let second = fleet.push("second");
    alone.until_at("a", &second.digest());
    // It is made after the publication.
    until("its image", || tag(&mut alone) != old);
    let before = answers(&mut alone);
    let there = ArchiveFolder::new(&fleet.catalogs);
    let archive = there.export_from(alone.program.data(), "alone.tar");
    alone.stop();

    // The fleet has nothing but the archive.
    fleet.disconnect();
    let here = ArchiveFolder::new(&fleet.config());
    fleet.start_replicas(2);
    assert_good(&here.import(&archive, &[]));
    fleet.until_all_at("a", &second);
    for replica in &mut fleet.replicas {
        assert_eq!(answers(replica), before);
    }
    // Nothing is new a second time.
    let rows = fleet.postgres.ask(ROWS);
    assert_ended(&here.import(&archive, &[]), 0, &["nothing is new"]);
    assert_eq!(fleet.postgres.ask(ROWS), rows);
    // One that comes later learns of the first revision, too.
    let late = fleet.add_replica();
    until_at(late, "a", &second);
    assert_eq!(answers(late), before);
    same(fleet.replicas.iter_mut().map(|replica| date(replica, "a")));

    // Back again: from the rows and objects, and from the folder of a replica.
    let from_rows = here.export("rows.tar");
    let from_folder = here.export_from(fleet.replicas[2].program.data(), "folder.tar");
    assert!(std::fs::read(&from_rows).unwrap() == std::fs::read(&from_folder).unwrap());
    let data = there.path("data");
    let arguments = [from_rows.to_str().unwrap()];
    assert_good(&there.command("import", &data, &arguments).run());
    let mut back = Almanac::start_in(&data, &fleet.catalogs);
    back.until_at("a", &second.digest());
    assert_eq!(answers(&mut back), before);
}

#[test]
fn what_a_fleet_serves_already_is_not_published_again_for_a_later_date() {
    let Some(mut fleet) = with_mirrored() else {
        return;
    };
    let (first, mirrored) = (fleet.push("first"), fleet.push_to(MIRRORED, "other"));
    fleet.start_replicas(1);
    let mut alone = Almanac::start(&fleet.catalogs);
    for almanac in [&mut fleet.replicas[0], &mut alone] {
        until_at(almanac, "a", &first);
        until_at(almanac, "b", &mirrored);
        until("its image", || !tag(almanac).is_empty());
    }
    let there = ArchiveFolder::new(&fleet.catalogs);
    let archive = there.export_from(alone.program.data(), "alone.tar");
    let earlier = "UPDATE generations SET modified = modified - 100";
    fleet.postgres.ask(earlier);
    let rows = fleet.postgres.ask(ROWS);
    let imported = folder_of(&mut fleet).import(&archive, &[]);
    assert_ended(&imported, 0, &["nothing is new"]);
    assert_eq!(fleet.postgres.ask(ROWS), rows);
}

/// An import brings the bytes that the bucket and all replicas have lost, and goes back only
/// when it is asked to.
#[test]
fn an_import_fills_a_bucket_that_has_lost_what_the_fleet_serves() {
    let Some(mut fleet) = start(1) else { return };
    let here = folder_of(&mut fleet);
    let archive = here.export("first.tar");
    fleet.publish("second");
    fleet.disconnect();
    fleet.replicas.clear();
    fleet.objects.remove(|key| key.contains("sha256/"));

    let failed = here.try_export(&["--file=lost.tar"]);
    let words = ["the revision of a that the fleet serves", "try again"];
    assert_refused(&failed, &words);
    let refused = here.import(&archive, &[]);
    assert_ended(&refused, 3, &["newer here", "--older"]);
    assert_good(&here.import(&archive, &["--older"]));
    fleet.start_replicas(1);
    fleet.until_all_at("a", &image_of("first"));
    fleet.replicas[0].until_pullable("a");
}

#[test]
fn an_export_ends_on_a_signal_while_the_bucket_hangs() {
    let Some(mut fleet) = start(1) else { return };
    // Only the export asks the bucket then.
    fleet.take().stop();
    let here = ArchiveFolder::new(&fleet.config());
    let slow = Duration::from_mins(10);
    fleet.objects.lie(|lies| lies.slow = slow);
    let archive = here.path("a.tar");
    let arguments = ["--file", archive.to_str().unwrap()];
    fleet.objects.forget_requests();
    let export = here.command("export", &here.path("none"), &arguments);
    let mut export = export.start();
    until("a request to the bucket", || {
        !fleet.objects.requests().is_empty()
    });
    export.terminate();
    assert_eq!(export.wait(Duration::from_secs(10)).code(), Some(1));
    let log = export.log();
    assert!(log.contains("stopped; no archive was written"), "{log}");
    assert!(!archive.exists());
}

#[test]
fn an_export_needs_no_right_to_write_and_writes_nothing() {
    let Some(mut fleet) = start_alone(1) else {
        return;
    };
    fleet.replicas[0].until_pullable("a");
    fleet.replicas[0].stop();
    fleet.postgres.ask(
        "CREATE ROLE reader LOGIN;
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;",
    );
    let url = fleet.postgres.url_of("reader", "127.0.0.1");
    let config = fleet.config().replace(&fleet.postgres.url(), &url);
    let here = ArchiveFolder::new(&config);
    fleet.objects.forget_requests();
    here.export("all.tar");
    // A lost object is reported to the user, and to no replica.
    fleet.objects.remove(|key| key.contains("/sha256/"));
    let failed = here.try_export(&["--file=none.tar"]);
    assert_refused(&failed, &["there is no such object"]);
    let mut written = fleet.objects.requests();
    written.retain(|request| !request.starts_with("GET ") && !request.starts_with("HEAD "));
    assert_eq!(written, Vec::<String>::new());
}

#[test]
fn replicas_of_a_disconnected_network_serve_what_is_imported() {
    let (Some(mut connected), Some(mut fleet)) = (start(1), prepared()) else {
        return;
    };
    let there = folder_of(&mut connected);
    let archive = there.export("first.tar");
    connected.take().stop();
    let asked = connected.upstream.lines().len();

    fleet.catalogs = format!("offline = true\n{}{OURS}", connected.catalogs);
    fleet.start_replicas(2);
    for replica in &mut fleet.replicas {
        let empty = replica.until_within(LONG_PATIENCE, "a", "the reason", |status| {
            let error = status["last_error"].as_str();
            error.is_some_and(|error| error.contains("import one"))
        });
        assert_eq!(empty["revision"], Value::Null);
    }
    let here = ArchiveFolder::new(&fleet.config());
    assert_good(&here.import(&archive, &[]));
    fleet.until_all_at("a", &image_of("first"));
    for replica in &mut fleet.replicas {
        replica.until_pullable("a");
        until_serving(replica, "ours");
        assert_eq!(replica.packages("ours").unwrap(), ["first"]);
    }
    // No pass has asked the source.
    assert_eq!(connected.upstream.lines().len(), asked);
}

#[test]
fn an_import_that_no_replica_would_serve_is_refused() {
    let Some(mut fleet) = start(1) else { return };
    let here = folder_of(&mut fleet);
    let archive = here.export("all.tar");
    let refused = here.try_export(&["--catalog=other", "--file=unknown.tar"]);
    assert_ended(&refused, 2, &["there are: a"]);

    let other = catalog("b", &fleet.source());
    let moved = catalog("a", &fleet.upstream.reference("elsewhere/a", "latest"));
    for (config, word) in [(other, "no catalog a"), (moved, "elsewhere/a")] {
        let there = ArchiveFolder::new(&fleet.config_with(&config));
        assert_ended(&there.import(&archive, &[]), 2, &[word]);
    }
    let mut damaged = std::fs::read(&archive).unwrap();
    let at = damaged.len() - 2000;
    damaged[at] ^= 1;
    std::fs::write(&archive, damaged).unwrap();
    assert_ended(&here.import(&archive, &[]), 3, &[]);
    assert_eq!(fleet.postgres.ask("SELECT count(*) FROM tracks"), "1");
    fleet.until_all_at("a", &image_of("first"));
}

/// Replicas that serve both catalogs, a folder with the archive `before.tar` of them, and
/// their images.
fn exported(count: usize) -> Option<(TestFleet, ArchiveFolder, [Built; 2])> {
    let mut fleet = with_mirrored()?;
    let other = fleet.push_to(MIRRORED, "other");
    let first = fleet.serve_first(count);
    until_at_mirrored(&mut fleet.replicas[0], &other);
    let here = folder_of(&mut fleet);
    here.export("before.tar");
    Some((fleet, here, [first, other]))
}

#[test]
fn an_import_replaces_nothing_newer_and_leaves_catalogs_alone_of_which_it_has_nothing_new() {
    let Some((mut fleet, here, [first, other])) = exported(2) else {
        return;
    };
    let archive = here.path("before.tar");
    let second = fleet.publish("second");
    fleet.disconnect();
    assert_ended(&here.import(&archive, &[]), 3, &["--older"]);

    let newest = "SELECT newest FROM tracks WHERE catalog = 'b'";
    let before = fleet.postgres.ask(newest);
    let done = here.import(&archive, &["--older"]);
    assert_ended(&done, 0, &["imported a at ", "already there: b at "]);
    assert_eq!(fleet.postgres.ask(newest), before);
    fleet.until_all_at("a", &first);
    fleet.until_all_at("b", &other);
    // The lock goes back, and the next pass publishes.
    fleet.upstream.behave();
    fleet.until_all_at("a", &second);
}

/// Waits until the image of the mirrored catalog is this one.
fn until_at_mirrored(replica: &mut Almanac, image: &Built) {
    until_at(replica, "b", image);
    until_mirrored(replica, "b", image);
}

#[test]
fn an_import_waits_for_a_running_pass_and_publishes_all_or_none() {
    let Some((mut fleet, here, [first, other])) = exported(1) else {
        return;
    };
    let archive = here.path("before.tar");
    let later = fleet.push_to(MIRRORED, "later");
    fleet.publish("second");
    until_at_mirrored(&mut fleet.replicas[0], &later);

    // The pass takes some seconds for the image.
    fleet
        .upstream
        .misbehave(|behaviour| behaviour.slow = Some((16, Duration::from_millis(600))));
    fleet.upstream.forget_requests();
    let third = fleet.push("third");
    until("the pass", || {
        let lines = fleet.upstream.lines();
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
    fleet.postgres.until(waits, "1");
    import.terminate();
    assert_eq!(import.wait(Duration::from_secs(3)).code(), Some(1));
    assert_eq!(fleet.postgres.ask(&published), "");
    let mut import = here.importing(&archive, &["--older"]).start();
    until("the end of the pass", || {
        !fleet.postgres.ask(&published).is_empty()
    });
    fleet.upstream.behave();
    fleet.disconnect();
    let status = import.wait(LONG_PATIENCE);
    assert!(status.success(), "{}", import.log());
    until_at(&mut fleet.replicas[0], "a", &first);
    until_at(&mut fleet.replicas[0], "b", &other);
    let is_after = format!("SELECT newest > ({published}) FROM tracks WHERE catalog = 'a'");
    assert_eq!(fleet.postgres.ask(&is_after), "t");
    // One transaction has published both.
    let transactions = "SELECT count(DISTINCT xmin::text) FROM tracks";
    assert_eq!(fleet.postgres.ask(transactions), "1");

    fleet.upstream.behave();
    until_at(&mut fleet.replicas[0], "a", &third);
    until_at_mirrored(&mut fleet.replicas[0], &later);
    fleet.disconnect();
    // A file of the second catalog cannot be written.
    let file = "SELECT encode(o.digest, 'hex') FROM objects o
        JOIN generations g ON g.number = o.generation JOIN tracks t ON t.id = g.track
        WHERE t.catalog = 'b' AND o.name = 'messages.pb' ORDER BY g.number LIMIT 1";
    let file: &'static str = fleet.postgres.ask(file).leak();
    fleet.objects.remove(|key| key.contains(file));
    fleet.objects.lie(|lies| lies.unwritable = Some(file));
    let newest = "SELECT string_agg(newest::text, ' ' ORDER BY id) FROM tracks";
    let before = fleet.postgres.ask(newest);
    let refused = here.import(&archive, &["--older"]);
    assert_refused(&refused, &["cannot write s3://"]);
    assert_eq!(fleet.postgres.ask(newest), before);
}

/// A webhook that hears of publications.
pub(super) fn hook(receiver: &Receiver) -> String {
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
    let Some(mut fleet) = prepared() else { return };
    let receiver = Receiver::start([]);
    fleet.catalogs += &hook(&receiver);
    let first = fleet.serve_first(3);
    let here = folder_of(&mut fleet);
    let archive = here.export("first.tar");
    let second = fleet.publish("second");
    receiver.until(2);
    fleet.disconnect();
    assert_good(&here.import(&archive, &["--older"]));
    fleet.until_all_at("a", &first);

    let events = receiver.until(3);
    let number = fleet.replicas[0].status("a")["revision"]["id"].to_string();
    let number = number.trim_matches('"').to_owned();
    let [_, second_number, _] = told(&events[1]);
    let wanted = [first.digest().to_string(), number.clone(), second_number];
    assert_eq!(told(&events[2]), wanted);
    // Neither another holder nor a start reports it again.
    fleet.postgres.until(UNNOTIFIED, "0");
    let holder = fleet.holder();
    fleet.replicas[holder].program.kill9();
    fleet.until_holder_is_not(holder);
    fleet.replicas[holder].program.restart();
    fleet.until_all_at("a", &first);
    // The next publication is the next event.
    fleet.upstream.behave();
    fleet.until_all_at("a", &second);
    let events = receiver.until(4);
    let [digest, _, from] = told(&events[3]);
    assert_eq!([digest, from], [second.digest().to_string(), number]);
}

/// The event is sent at least once: the holder may die before it has recorded that.
#[test]
fn a_publication_that_is_not_recorded_as_sent_is_sent_by_the_next_holder() {
    let Some(mut fleet) = prepared() else { return };
    let receiver = Receiver::start([]);
    fleet.catalogs += &hook(&receiver);
    fleet.postgres.ask(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE OF unnotified ON generations
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    fleet.serve_first(2);
    receiver.until(1);
    let holder = fleet.holder();
    fleet.replicas[holder].program.kill9();
    let events = receiver.until(2);
    assert_eq!(told(&events[0]), told(&events[1]));
    fleet.postgres.ask("DROP TRIGGER refuse ON generations");
    fleet.postgres.until(UNNOTIFIED, "0");
}
