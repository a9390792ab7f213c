//! What a replica does about files, objects and rows that are damaged or gone.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{
    Following, REPOSITORY, push, replicas, status_of, tag, text, until, until_all_at,
    until_settled, until_waiting,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, following};
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

#[test]
fn damaged_files_of_a_replica_are_fetched_again_and_it_stays_ready() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let mut replica = replicas.remove(0);
    // The fleet brings it, not the source.
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let id = replica.status("a")["revision"]["id"].to_string();
    let file = replica.program.data().join("revisions").join(id);
    let file = file.join("metas.jsonl");
    let until_repaired = |replica: &mut Almanac| {
        replica.until_within(LONG_PATIENCE, "a", "the repair", |status| {
            status["damage"]["repair"] == "done" && status["state"] == "serving"
        });
        assert_eq!(replica.all("a").text(), text("first"));
        until_settled(replica);
    };
    shared.objects.lie(|lies| lies.gone = true);
    damage(&file);
    // The bucket breaks each connection.
    until_waiting(&mut replica, "s3://");
    assert_eq!(status_of(&mut replica)["behind"], serde_json::json!(["a"]));
    let ready = replica.ready();
    assert_eq!(ready.status, 200);
    let told = ready.text();
    assert!(told.contains("behind the fleet: a"), "{told}");
    shared.objects.behave();
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
    let Some(Following {
        shared,
        upstream: _upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let mut replica = replicas.remove(0);
    let pulled = replica.until_pullable("a");
    let digest = pulled.header("docker-content-digest").unwrap().to_owned();
    let hex = digest.strip_prefix("sha256:").unwrap();
    let blob = replica.program.data().join("blobs/sha256").join(hex);
    let is_whole = |replica: &mut Almanac| {
        let reply = get(replica.program.address("http"), "/v2/a/manifests/latest");
        reply.is_ok_and(|reply| reply.status == 200 && reply.body == pulled.body)
    };

    // The bucket is away: the files of the revision stay.
    shared.objects.lie(|lies| lies.gone = true);
    let id = replica.status("a")["revision"]["id"].to_string();
    let metas = replica.program.data().join("revisions").join(id);
    let metas = metas.join("metas.jsonl");
    let written = || fs::metadata(&metas).unwrap().modified().unwrap();
    let before = written();
    damage(&blob);
    until("the damage", || {
        // A client may notice it first.
        let _ = get(replica.program.address("http"), "/v2/a/manifests/latest");
        let log = replica.program.log();
        log.contains("does not have its digest")
    });
    assert_eq!(replica.all("a").text(), text("first"));
    shared.objects.behave();
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
    let Some(Following {
        shared,
        upstream,
        replicas: mut before,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    before[0].program.kill9();
    shared.objects.remove(|key| key.contains("/sha256/"));
    let second = push(&upstream, "second");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut all = replicas(&shared, &config, 1);
    until_all_at(&mut all, "a", &second.digest());
    all[0].program.wait_until_ready();
    // Whatever the bucket still lacks comes from there.
    all.push(shared.replica(&config));
    until_all_at(&mut all, "a", &second.digest());
    assert_eq!(all[1].all("a").text(), text("second"));
}

/// The numbers of changes that a replica tells of its revisions, the newest first.
fn told_changes(replica: &mut Almanac) -> Vec<Option<u64>> {
    let reply = replica.http("/catalogs/a/api/v1/revisions");
    let list: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let revisions = list["items"].as_array().cloned().unwrap_or_default();
    let changes = revisions.iter().map(|one| one["changes"].as_u64());
    changes.collect()
}

#[test]
fn outlines_that_the_bucket_did_not_give_come_with_the_next_revision() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut all,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    for package in ["second", "third"] {
        let image = push(&upstream, package);
        until_all_at(&mut all, "a", &image.digest());
    }
    let outline = "SELECT encode(outline, 'hex') FROM history ORDER BY revision LIMIT 1 OFFSET 1";
    let outline: &'static str = shared.postgres.ask(outline).leak();
    assert!(!outline.is_empty());
    shared.objects.lie(|lies| lies.busy = Some(outline));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut late = shared.replica(&config);
    // Neither its revision nor the next one can be compared without it.
    until("the history", || told_changes(&mut late) == [None; 3]);
    late.program.wait_for_log("the reason", |log| {
        log.contains("the history lacks outlines")
    });
    until_settled(&mut late);
    shared.objects.behave();
    let fourth = push(&upstream, "fourth");
    all.push(late);
    until_all_at(&mut all, "a", &fourth.digest());
    for replica in &mut all {
        until("the changes", || {
            let told = told_changes(replica);
            told.len() == 4 && told[..3].iter().all(|changes| *changes > Some(0))
        });
    }
}

#[test]
fn replicas_go_on_when_the_row_of_the_fleet_is_back() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    shared
        .postgres
        .ask("CREATE TABLE saved AS SELECT * FROM fleet; DELETE FROM fleet");
    for replica in &mut replicas {
        until("the reason", || {
            let error = status_of(replica)["error"].take();
            error
                .as_str()
                .is_some_and(|error| error.contains("has lost its row"))
        });
    }
    shared.postgres.ask("INSERT INTO fleet SELECT * FROM saved");
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
}

/// A copy of the database that lags takes the place of the database, which ends all sessions.
#[test]
fn a_catalog_that_a_failover_lost_is_published_again() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    shared.postgres.ask(
        "DELETE FROM tracks; DELETE FROM history; DELETE FROM replicas;
         ALTER SEQUENCE generation_numbers RESTART",
    );
    shared.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let published = "SELECT count(*) > 0 FROM generations";
    shared.postgres.until(published, "t");
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("first"));
    }
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
}

#[test]
fn a_row_that_cannot_be_read_keeps_no_replica_out_of_the_fleet() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut all,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    until("the image", || !tag(&mut all[0]).is_empty());
    shared.postgres.ask("UPDATE generations SET image = '{}'");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    all.push(shared.replica(&config));
    until("both replicas", || status_of(&mut all[1])["replicas"] == 2);
    let second = push(&upstream, "second");
    until_all_at(&mut all, "a", &second.digest());
}
