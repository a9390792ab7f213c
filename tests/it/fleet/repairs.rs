//! What a replica does about files and objects that are damaged or gone.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{
    Following, REPOSITORY, push, replicas, status_of, text, until, until_all_at, until_waiting,
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

/// The catalogs that a replica says it lacks.
fn behind(replica: &mut Almanac) -> serde_json::Value {
    status_of(replica)["behind"].clone()
}

#[test]
fn damaged_files_of_a_replica_are_fetched_again() {
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
        until("the end", || {
            let status = status_of(replica);
            status["behind"] == serde_json::json!([]) && status["waits"] == serde_json::json!({})
        });
    };
    shared.objects.lie(|lies| lies.gone = true);
    damage(&file);
    // Others should get its clients.
    until("the damage", || {
        behind(&mut replica) == serde_json::json!(["a"])
    });
    // The bucket breaks each connection.
    until_waiting(&mut replica, "s3://");
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
fn a_replica_that_lags_is_not_ready_also_once_the_database_is_away() {
    let Some(Following {
        shared,
        upstream: _upstream,
        mut replicas,
        ..
    }) = Following::start_alone(2)
    else {
        return;
    };
    let readiness = |replica: &mut Almanac| {
        let admin = replica.program.address("admin");
        let reply = get(admin, "/readyz").unwrap();
        (reply.status, reply.text())
    };
    for replica in &mut replicas {
        replica.program.wait_until_ready();
    }
    let [whole, late] = &mut replicas[..] else {
        unreachable!("two were started");
    };
    shared.objects.lie(|lies| lies.gone = true);
    let id = late.status("a")["revision"]["id"].to_string();
    let file = late.program.data().join("revisions").join(id);
    damage(&file.join("metas.jsonl"));
    until("the lag", || readiness(late).0 == 503);
    let (_, reason) = readiness(late);
    assert!(reason.contains("behind the other replicas: a"), "{reason}");
    assert_eq!(readiness(whole).0, 200);

    shared.postgres.kill9();
    for replica in [&mut *whole, &mut *late] {
        until("the silence", || {
            let status = status_of(replica);
            status["replicas"] == 0 && !status["error"].is_null()
        });
    }
    assert_eq!(readiness(late).0, 503);
    assert_eq!(readiness(whole).0, 200);
    shared.postgres.restart();
    // Whichever of them beats first does not take itself for the only one.
    until("the end of the silence", || {
        assert_eq!(readiness(late).0, 503);
        let has_beaten = |replica: &mut Almanac| status_of(replica)["error"].is_null();
        has_beaten(whole) & has_beaten(late)
    });
    assert_eq!(readiness(late).0, 503);
    shared.objects.behave();
    late.program.wait_until_ready();
    assert_eq!(late.all("a").text(), text("first"));
}

#[test]
fn a_revision_that_is_damaged_before_a_start_would_serve_it_is_fetched_again() {
    let Some(Following {
        shared,
        upstream,
        replicas: _first,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    std::thread::scope(|scope| {
        // A replica reads the history before it records the revision that it serves.
        let locking = scope.spawn(|| {
            shared.postgres.ask(
                "BEGIN; LOCK TABLE history;
                 DO $$ BEGIN
                   FOR looks IN 1..600 LOOP
                     IF EXISTS (SELECT 1 FROM pg_class WHERE relname = 'found') THEN RETURN; END IF;
                     PERFORM pg_sleep(0.1);
                   END LOOP;
                 END $$;
                 COMMIT",
            )
        });
        let is_locked = "SELECT count(*) > 0 FROM pg_locks
            WHERE relation = 'history'::regclass AND mode = 'AccessExclusiveLock'";
        shared.postgres.until(is_locked, "t");
        let mut late = replicas(&shared, &config, 1).remove(0);
        until("the revision", || late.all("a").status == 200);
        let id = late.status("a")["revision"]["id"].to_string();
        let file = late.program.data().join("revisions").join(id);
        damage(&file.join("metas.jsonl"));
        until("the damage", || !late.status("a")["damage"].is_null());
        shared.postgres.ask("CREATE TABLE found ()");
        locking.join().unwrap();
        late.until_within(LONG_PATIENCE, "a", "the repair", |status| {
            status["damage"]["repair"] == "done" && status["state"] == "serving"
        });
        assert_eq!(late.all("a").text(), text("first"));
    });
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
    let is_whole = |replica: &mut Almanac| {
        let reply = get(replica.program.address("http"), "/v2/a/manifests/latest");
        reply.is_ok_and(|reply| reply.status == 200 && reply.body == pulled.body)
    };
    until("another copy", || is_whole(&mut replica));
    assert_eq!(written(), before);

    // One of another length is found at a start.
    replica.program.kill9();
    open(&blob).set_len(1).unwrap();
    replica.program.restart();
    until("another copy", || is_whole(&mut replica));
}

#[test]
fn a_holder_that_cannot_open_the_current_generation_turns_the_next_one() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut before,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_all_at(&mut before, "a", &second.digest());
    before[0].program.kill9();
    // As if it had ended between the announcement and its moment.
    shared.postgres.ask(
        "DELETE FROM replicas; UPDATE fleet SET change = change + 1;
         UPDATE generations SET flips = NULL
         WHERE revision = (SELECT max(revision) FROM generations)",
    );
    let lost = shared.postgres.ask(
        "WITH named AS (SELECT revision, encode(digest, 'hex') || '-' || incarnation AS name
           FROM files)
         SELECT name FROM named WHERE revision = (SELECT min(revision) FROM generations)
         EXCEPT SELECT name FROM named WHERE revision = (SELECT max(revision) FROM generations)",
    );
    assert!(!lost.is_empty());
    let is_lost = |key: &str| lost.lines().any(|name| key.ends_with(name));
    shared.objects.remove(is_lost);

    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut next = replicas(&shared, &config, 1);
    until_all_at(&mut next, "a", &second.digest());
    assert_eq!(next[0].all("a").text(), text("second"));
    next[0].program.wait_until_ready();
}

#[test]
fn a_start_serves_what_clients_saw_though_an_outline_of_the_history_could_not_be_fetched() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut before,
        ..
    }) = Following::start_alone(1)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_all_at(&mut before, "a", &second.digest());
    let outline = "SELECT encode(digest, 'hex') FROM history ORDER BY revision LIMIT 1";
    let outline: &'static str = shared.postgres.ask(outline).leak();
    assert!(!outline.is_empty());
    shared.objects.lie(|lies| lies.busy = Some(outline));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut late = replicas(&shared, &config, 1);
    until_all_at(&mut late, "a", &second.digest());
    let late = &mut late[0];
    late.program.wait_for_log("the outline", |log| {
        log.contains("the history lacks outlines")
    });
    until("the end", || {
        let status = status_of(late);
        status["behind"] == serde_json::json!([]) && status["waits"] == serde_json::json!({})
    });
    shared.objects.kill();
    shared.postgres.kill9();
    late.program.kill9();
    late.program.restart();
    until("what is stored", || late.all("a").status == 200);
    assert_eq!(late.all("a").text(), text("second"));
}

/// The numbers of changes that a replica tells of its revisions, the newest first.
fn told_changes(replica: &mut Almanac) -> Vec<Option<u64>> {
    let reply = replica.http("/catalogs/a/api/v1/revisions");
    let list: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let revisions = list["items"].as_array().cloned().unwrap_or_default();
    let changes = revisions.iter().map(|one| one["changes"].as_u64());
    changes.collect()
}

/// A fleet with three revisions, and the start of the object with the outline of the second.
fn with_three_revisions() -> Option<(Following, &'static str)> {
    let mut following = Following::start_alone(1)?;
    for package in ["second", "third"] {
        let image = push(&following.upstream, package);
        until_all_at(&mut following.replicas, "a", &image.digest());
    }
    let outline = "SELECT encode(digest, 'hex') FROM history ORDER BY revision LIMIT 1 OFFSET 1";
    let outline: &'static str = following.shared.postgres.ask(outline).leak();
    assert!(!outline.is_empty());
    Some((following, outline))
}

/// A replica that learns of the history while the bucket does not give the outline.
fn without_outline(following: &Following, outline: &'static str) -> Vec<Almanac> {
    let shared = &following.shared;
    shared.objects.lie(|lies| lies.busy = Some(outline));
    let config = self::following(&following.upstream.reference(REPOSITORY, "latest"));
    let mut late = replicas(shared, &config, 1);
    // Neither its revision nor the next one can be compared without it.
    until("the history", || {
        told_changes(&mut late[0]) == [None, None, None]
    });
    late[0].program.wait_for_log("the outline", |log| {
        log.contains("the history lacks outlines of revisions")
    });
    late
}

fn until_told(following: &mut Following, late: &mut Almanac) {
    let mut whole = Vec::new();
    // The holder may read its history anew just now.
    until("the changes of the holder", || {
        whole = told_changes(&mut following.replicas[0]);
        whole
            .first()
            .is_some_and(|last| last.is_some_and(|changes| changes > 0))
    });
    assert_eq!(whole[2], None, "the first revision has no changes");
    until("the changes", || told_changes(late) == whole);
}

#[test]
fn changes_are_told_once_the_bucket_gives_an_outline_that_a_replica_lacks() {
    let Some((mut following, outline)) = with_three_revisions() else {
        return;
    };
    let mut late = without_outline(&following, outline);
    late[0].program.wait_for_log("the second try", |log| {
        log.contains("the history lacks outlines, which are fetched again")
    });
    following.shared.objects.behave();
    until_told(&mut following, &mut late[0]);
}

#[test]
fn changes_are_told_after_a_restart_though_their_revisions_are_known_by_then() {
    let Some((mut following, outline)) = with_three_revisions() else {
        return;
    };
    let mut late = without_outline(&following, outline);
    late[0].program.kill9();
    following.shared.objects.behave();
    late[0].program.restart();
    until_told(&mut following, &mut late[0]);
}

#[test]
fn an_outline_that_the_bucket_has_lost_is_written_again_by_the_holder() {
    let Some((mut following, outline)) = with_three_revisions() else {
        return;
    };
    following.shared.objects.remove(|key| key.contains(outline));
    let config = self::following(&following.upstream.reference(REPOSITORY, "latest"));
    let mut late = replicas(&following.shared, &config, 1);
    until_told(&mut following, &mut late[0]);
    let keys = following.shared.objects.keys();
    assert!(keys.iter().any(|key| key.contains(outline)), "{keys:?}");
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
        "DELETE FROM generations; DELETE FROM images; DELETE FROM tracks; DELETE FROM history;
         ALTER SEQUENCE revisions_id_seq RESTART",
    );
    let turned = "SELECT count(*) > 0 FROM generations WHERE flips IS NOT NULL";
    shared.postgres.until(turned, "t");
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
}
