//! What a replica does about files, objects and rows that are damaged or gone.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::fixture::start;
use super::{
    status_of, tag, told_changes, until, until_at, until_replicas, until_reported, until_settled,
    until_waiting,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE};
use crate::support::catalog::text_of;
use crate::support::http::get;

/// Opens a stored file, which is read-only. In place: the replica has mapped it, and
/// a cut file would end it.
fn open(path: &Path) -> File {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    File::options().write(true).open(path).unwrap()
}

fn damage(path: &Path) {
    let first = fs::read(path).unwrap()[0];
    open(path).write_all(&[first ^ 1]).unwrap();
}

/// The file of the lines of the catalog `a`.
fn lines_of(replica: &mut Almanac) -> PathBuf {
    let id = replica.status("a")["revision"]["id"].to_string();
    let revisions = replica.program.data().join("revisions");
    revisions.join(id).join("metas.jsonl")
}

#[test]
fn damaged_files_of_a_replica_are_fetched_again_and_it_stays_ready() {
    let Some(mut fleet) = start(1) else { return };
    let mut replica = fleet.take();
    // The fleet brings it, not the source.
    fleet.disconnect();
    let file = lines_of(&mut replica);
    let until_repaired = |replica: &mut Almanac| {
        replica.until_within(LONG_PATIENCE, "a", "the repair", |status| {
            status["damage"]["repair"] == "done" && status["state"] == "serving"
        });
        assert_eq!(replica.all("a").text(), text_of("first"));
        until_settled(replica);
    };
    fleet.objects.lie(|lies| lies.gone = true);
    damage(&file);
    // The bucket breaks each connection.
    until_waiting(&mut replica, "s3://");
    assert_eq!(status_of(&mut replica)["behind"], json!(["a"]));
    let ready = replica.ready();
    assert_eq!(ready.status, 200);
    let told = ready.text();
    assert!(told.contains("behind the fleet: a"), "{told}");
    fleet.objects.behave();
    until_repaired(&mut replica);
    // As often as it is damaged.
    let damages = replica.status("a")["damage"]["found"].clone();
    damage(&file);
    replica.until_within(LONG_PATIENCE, "a", "the damage", |status| {
        status["damage"]["found"] != damages
    });
    until_repaired(&mut replica);
}

#[test]
fn damaged_blobs_of_a_replica_are_fetched_again_and_nothing_else() {
    let Some(mut fleet) = start(1) else { return };
    let mut replica = fleet.take();
    let pulled = replica.until_pullable("a");
    let digest = pulled.header("docker-content-digest").unwrap().to_owned();
    let hex = digest.strip_prefix("sha256:").unwrap();
    let blob = replica.program.data().join("blobs/sha256").join(hex);
    let is_whole = |replica: &mut Almanac| {
        let reply = get(replica.program.address("http"), "/v2/a/manifests/latest");
        reply.is_ok_and(|reply| reply.status == 200 && reply.body == pulled.body)
    };

    // The bucket is away: the files of the revision stay.
    fleet.objects.lie(|lies| lies.gone = true);
    let metas = lines_of(&mut replica);
    let written = || fs::metadata(&metas).unwrap().modified().unwrap();
    let before = written();
    damage(&blob);
    until("the damage", || {
        // A client may notice it first.
        let _ = get(replica.program.address("http"), "/v2/a/manifests/latest");
        let log = replica.program.log();
        log.contains("does not have its digest")
    });
    assert_eq!(replica.all("a").text(), text_of("first"));
    fleet.objects.behave();
    until("another copy", || is_whole(&mut replica));
    assert_eq!(written(), before);

    // One of another length is found at a start.
    replica.program.kill9();
    open(&blob).set_len(1).unwrap();
    replica.program.restart();
    until("another copy", || is_whole(&mut replica));
}

/// No replica has their bytes, so that the next revision has to bring others.
#[test]
fn a_replica_goes_on_from_the_source_when_all_objects_are_lost() {
    let Some(mut fleet) = start(1) else { return };
    let mut before = fleet.take();
    before.program.kill9();
    fleet.objects.remove(|key| key.contains("/sha256/"));
    let second = fleet.push("second");
    fleet.start_replicas(1);
    fleet.until_all_at("a", &second);
    fleet.replicas[0].program.wait_until_ready();
    // Whatever the bucket still lacks comes from there.
    let mut late = fleet.another();
    until_at(&mut late, "a", &second);
    assert_eq!(late.all("a").text(), text_of("second"));
}

#[test]
fn outlines_that_the_bucket_did_not_give_come_with_the_next_revision() {
    let Some(mut fleet) = start(1) else { return };
    for package in ["second", "third"] {
        fleet.publish(package);
    }
    let outline = "SELECT encode(outline, 'hex') FROM history ORDER BY revision LIMIT 1 OFFSET 1";
    let outline: &'static str = fleet.postgres.ask(outline).leak();
    assert!(!outline.is_empty());
    fleet.objects.lie(|lies| lies.busy = Some(outline));
    let mut late = fleet.another();
    // Neither its revision nor the next one can be compared without it.
    until("the history", || told_changes(&mut late) == [None; 3]);
    late.program.wait_for_log("the reason", |log| {
        log.contains("the history lacks outlines")
    });
    until_settled(&mut late);
    fleet.objects.behave();
    let fourth = fleet.push("fourth");
    fleet.replicas.push(late);
    fleet.until_all_at("a", &fourth);
    for replica in &mut fleet.replicas {
        until("the changes", || {
            let told = told_changes(replica);
            told.len() == 4 && told[..3].iter().all(|changes| *changes > Some(0))
        });
    }
}

#[test]
fn replicas_go_on_when_the_row_of_the_fleet_is_back() {
    let Some(mut fleet) = start(2) else { return };
    let saved = "CREATE TABLE saved AS SELECT * FROM fleet; DELETE FROM fleet";
    fleet.postgres.ask(saved);
    for replica in &mut fleet.replicas {
        until_reported(replica, "error", "has lost its row");
    }
    fleet.postgres.ask("INSERT INTO fleet SELECT * FROM saved");
    fleet.publish("second");
}

/// A copy of the database that lags takes the place of the database, which ends all sessions.
#[test]
fn a_catalog_that_a_failover_lost_is_published_again() {
    let Some(mut fleet) = start(2) else { return };
    fleet.postgres.ask(
        "DELETE FROM tracks; DELETE FROM history; DELETE FROM replicas;
         ALTER SEQUENCE generation_numbers RESTART",
    );
    fleet.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let published = "SELECT count(*) > 0 FROM generations";
    fleet.postgres.until(published, "t");
    for replica in &mut fleet.replicas {
        assert_eq!(replica.all("a").text(), text_of("first"));
    }
    fleet.publish("second");
}

#[test]
fn a_row_that_cannot_be_read_keeps_no_replica_out_of_the_fleet() {
    let Some(mut fleet) = start(1) else { return };
    until("the image", || !tag(&mut fleet.replicas[0]).is_empty());
    fleet.postgres.ask("UPDATE generations SET image = '{}'");
    until_replicas(fleet.add_replica(), 2);
    fleet.publish("second");
}
