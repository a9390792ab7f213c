//! What beats find in the database without a notification.

use std::time::{Duration, Instant};

use super::{
    Following, REPOSITORY, Shared, push, replicas, status_of, until, until_all_at, until_at,
};
use crate::support::almanac::{catalog, following};
use crate::support::port::free_port;
use crate::support::postgres;
use crate::support::program::STEP;
use crate::support::upstream::Upstream;

/// Makes the first revision the current one, under the number of the last change.
const SET_BACK: &str = "INSERT INTO generations
      (track, number, revision, image, epoch, change, flips)
    SELECT track, (SELECT max(number) FROM generations) + 1, revision, image, epoch,
      (SELECT change FROM fleet), clock_timestamp()
    FROM generations ORDER BY number LIMIT 1";

#[test]
fn a_change_without_a_notification_is_found_by_the_next_beat() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(2)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let change = "UPDATE fleet SET change = change + 1";
    shared
        .postgres
        .ask(&format!("BEGIN; {change}; {SET_BACK}; COMMIT"));
    until_all_at(&mut replicas, "a", &first.digest());
}

/// A beat has seen the change, and could not read what has changed.
#[test]
fn generations_that_could_not_be_read_are_read_by_a_later_beat() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    let mut replica = replicas.remove(0);
    let second = push(&upstream, "second");
    until_at(&mut replica, "a", &second.digest());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    std::thread::scope(|scope| {
        let locking = scope.spawn(|| {
            let lock = format!(
                "BEGIN; LOCK TABLE generations;
                 DO $$ BEGIN
                   FOR looks IN 1..600 LOOP
                     IF EXISTS (SELECT 1 FROM pg_class WHERE relname = 'unread') THEN RETURN; END IF;
                     PERFORM pg_sleep(0.1);
                   END LOOP;
                 END $$;
                 {SET_BACK}; COMMIT"
            );
            shared.postgres.ask(&lock)
        });
        let is_locked = "SELECT count(*) > 0 FROM pg_locks
            WHERE relation = 'generations'::regclass AND mode = 'AccessExclusiveLock'";
        shared.postgres.until(is_locked, "t");
        shared.postgres.ask("UPDATE fleet SET change = change + 1");
        until("a beat that fails", || {
            let status = status_of(&mut replica);
            let error = status["error"].as_str().unwrap_or_default();
            error.contains("list generations") || error.contains("no answer")
        });
        shared.postgres.ask("CREATE TABLE unread ()");
        locking.join().unwrap();
    });
    until_at(&mut replica, "a", &first.digest());
}

/// Its rows of replicas, leases and generations are those of then.
#[test]
fn a_restored_database_is_told_and_the_next_pass_publishes_again() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    let dump = shared.postgres.dump();
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    let published = format!(
        "SELECT count(*) FROM revisions WHERE digest = '{}'",
        second.digest()
    );
    shared.postgres.until(&published, "1");
    shared.postgres.restore(&dump);
    assert_eq!(shared.postgres.ask(&published), "0");
    for replica in &mut replicas {
        replica.program.wait_for_log("the restore", |log| {
            log.contains("the database of the fleet has gone back")
        });
    }
    shared.postgres.until(&published, "1");
    until_all_at(&mut replicas, "a", &second.digest());
    // Numbers that clients have seen are not given again.
    let third = push(&upstream, "third");
    until_all_at(&mut replicas, "a", &third.digest());
    for replica in &mut replicas {
        until("the end", || {
            let status = status_of(replica);
            status["behind"] == serde_json::json!([]) && status["waits"] == serde_json::json!({})
        });
    }
}

/// It would follow none of them, and they would pass them on to it again and again.
#[test]
fn a_replica_that_cannot_use_the_bucket_is_left_out_when_catalogs_are_shared_out() {
    let Some(Following {
        shared,
        upstream,
        replicas: other,
        first,
    }) = Following::start_alone(1)
    else {
        return;
    };
    drop(other);
    let source = upstream.reference(REPOSITORY, "latest");
    let config = format!("{}{}", following(&source), catalog("b", &source));
    let mut both = replicas(&shared, &config, 2);
    for name in ["a", "b"] {
        until_all_at(&mut both, name, &first.digest());
    }
    let [able, unable] = &mut both[..] else {
        unreachable!("two were started");
    };
    unable.program.kill9();
    let (used, unused) = (shared.objects.url("almanac"), free_port());
    let (start, end) = used.split_once("127.0.0.1:").unwrap();
    let end = end.trim_start_matches(|c: char| c.is_ascii_digit());
    let wrong = format!("{start}127.0.0.1:{}{end}", unused.port());
    let settings = shared.settings().replace(&used, &wrong);
    assert_ne!(settings, shared.settings());
    unable.restart_with(&format!("{settings}{config}"));
    until("the problem", || {
        !status_of(unable)["bucket_error"].is_null()
    });
    until("the only holder", || {
        status_of(able)["follows"] == serde_json::json!(["a", "b"])
    });
    let followed = || shared.postgres.ask("SELECT count(holder) FROM leases");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        assert_eq!(followed(), "2", "a catalog was given back");
        std::thread::sleep(STEP);
    }
}

/// A request goes on for longer than a person waits for a reason.
#[test]
fn a_bucket_that_hangs_at_a_start_is_named() {
    let Some(Following {
        shared,
        upstream: _upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    let replica = &mut replicas[0];
    replica.stop();
    shared
        .objects
        .lie(|lies| lies.slow = Duration::from_mins(10));
    replica.program.restart();
    until("the problem", || {
        let error = status_of(replica)["bucket_error"].to_string();
        error.contains("no answer of the bucket after 10s; check")
    });
    // What is stored is served meanwhile, and the readiness tells.
    until_at(replica, "a", &first.digest());
    let ready = replica.ready();
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(
        ready
            .text()
            .contains("; the bucket of the fleet: no answer"),
        "{}",
        ready.text()
    );
}

/// Replicas wait for locked rows, and have to see what was committed meanwhile.
#[test]
fn the_isolation_level_of_the_database_does_not_matter() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    shared.postgres.ask(
        "DO $$ BEGIN
           EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',
             current_database());
         END $$",
    );
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut image = push(&upstream, "first");
    let mut all = replicas(&shared, &config, 3);
    for package in ["second", "third", "fourth", "fifth"] {
        until_all_at(&mut all, "a", &image.digest());
        image = push(&upstream, package);
    }
    until_all_at(&mut all, "a", &image.digest());
    for replica in &mut all {
        let log = replica.program.log();
        assert!(!log.contains("could not serialize"), "{log}");
    }
}
