//! A fleet, its database and its bucket belong together: another one in their place is refused,
//! at a start and later.

use almanac::fleet::FleetError;
use images::digest::Digest;

use super::archives::Desk;
use super::{
    Following, REPOSITORY, Shared, assert_good, assert_refused, claim, collect, credentials, push,
    replicas, status_of, try_collect, until, until_all_at, until_at, until_waiting,
};
use crate::support::almanac::following;
use crate::support::postgres;
use crate::support::program::{Finished, PATIENCE};
use crate::support::upstream::Upstream;

/// Publishes the first revision again under the next number, without a notification.
const GO_BACK: &str = "WITH oldest AS (SELECT * FROM generations ORDER BY number LIMIT 1),
  given AS (SELECT nextval('generation_numbers') AS number,
    (SELECT max(modified) + 1 FROM generations) AS modified),
  added AS (
    INSERT INTO generations (number, track, revision, content, modified, published, image,
      image_revision, resolved, unnotified)
    SELECT given.number, o.track, given.number, o.content, given.modified, o.published, o.image,
      o.image_revision, o.resolved, false
    FROM given, oldest o RETURNING number, track),
  listed AS (
    INSERT INTO objects (generation, name, digest, size, coding)
    SELECT added.number, o.name, o.digest, o.size, o.coding
    FROM added, oldest JOIN objects o ON o.generation = oldest.number)
  UPDATE tracks SET newest = added.number FROM added WHERE id = added.track";

fn check(config: &str) -> Finished {
    super::check(config, &credentials())
}

#[test]
fn an_empty_place_is_not_taken_for_the_bucket_of_a_fleet() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    let config = shared.settings() + &following("quay.io/a/b:v1");
    claim(&shared, "almanac");
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    assert_good(&check(&config));

    let wrong = config.replace("/almanac?", "/wrong?");
    assert_ne!(wrong, config);
    let words = ["s3://catalogs/wrong at ", "which is s3://catalogs/almanac"];
    assert_refused(&check(&wrong), &words);
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    let desk = Desk::new(&wrong);
    let refused = desk.run("export", &desk.path("none"), &["--file=none.tar"]);
    assert_refused(&refused, &["not the bucket of this fleet"]);

    // A bucket that was restored without its mark is marked again.
    shared.objects.remove(|key| key == "almanac/fleet");
    assert_good(&check(&config));
    claim(&shared, "almanac");

    // One that was moved has it, and is the fleet's from then on.
    shared.objects.copy("almanac/fleet", "wrong/fleet");
    assert_good(&check(&wrong));
    claim(&shared, "wrong");
    shared.objects.remove(|key| key == "almanac/fleet");
    assert_refused(&check(&config), &["which is s3://catalogs/wrong"]);
}

#[test]
fn a_check_leaves_nothing_in_the_database_and_the_bucket() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    let config = shared.settings() + &following("quay.io/a/b:v1");
    let left = || {
        let rows = "SELECT bucket, (SELECT count(*) FROM replicas), (SELECT count(*) FROM tracks)
            FROM fleet";
        (shared.objects.keys(), shared.postgres.ask(rows))
    };
    let nothing = (Vec::new(), "|0|0".to_owned());
    assert_good(&check(&config));
    assert_eq!(left(), nothing);
    // What it tries does not stay if it fails, either.
    shared.objects.lie(|lies| lies.empty_lists = true);
    assert_refused(&check(&config), &["allow the key to list"]);
    shared.objects.behave();
    assert_eq!(left(), nothing);

    // A fleet whose database was made anew finds the mark of the lost one.
    claim(&shared, "almanac");
    let anew = "UPDATE fleet SET id = 'x', bucket = NULL";
    shared.postgres.ask(anew);
    let words = [
        "object s3://catalogs/almanac/fleet names a fleet",
        "another prefix",
        "remove that object",
    ];
    assert_refused(&check(&config), &words);
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    shared.objects.remove(|key| key == "almanac/fleet");
    assert_good(&check(&config));
    claim(&shared, "almanac");
}

#[test]
fn a_replica_does_nothing_in_a_database_that_has_become_another_fleets() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    shared.postgres.ask("UPDATE fleet SET id = 'x' || id");
    let refuses = |status: &serde_json::Value| {
        let error = status["error"].as_str().unwrap_or_default();
        error.contains("of another fleet") && status["follows"] == serde_json::json!([])
    };
    until("the refusal", || refuses(&status_of(&mut replicas[0])));
    let published = "SELECT count(*) FROM generations";
    let before = shared.postgres.ask(published);
    let second = push(&upstream, "second");
    // A start is refused, too.
    replicas[0].program.kill9();
    replicas[0].program.restart();
    let status = replicas[0].program.wait(PATIENCE);
    assert_eq!(status.code(), Some(1), "{}", replicas[0].program.log());
    assert_eq!(shared.postgres.ask(published), before);

    shared.postgres.ask("UPDATE fleet SET id = substr(id, 2)");
    replicas[0].program.restart();
    until_all_at(&mut replicas, "a", &second.digest());
}

#[test]
fn nothing_is_removed_from_a_bucket_without_the_mark_of_the_fleet() {
    let Some(Following { shared, .. }) = Following::start(1) else {
        return;
    };
    let due = "UPDATE fleet SET listed = listed - interval '2 days'";
    shared.postgres.ask(due);
    let digest = Digest::of(b"unused").hex();
    let unused = format!("almanac/sha256/{}/{digest}", &digest[..2]);
    for copy in [&*unused, "almanac/kept"] {
        shared.objects.copy("almanac/fleet", copy);
    }
    shared.objects.remove(|key| key == "almanac/fleet");
    let refused = try_collect(&shared);
    let is_unmarked = matches!(refused, Err(FleetError::Unmarked));
    assert!(is_unmarked, "{refused:?}");
    assert!(shared.objects.keys().contains(&unused));
    // It is tried again.
    shared.objects.copy("almanac/kept", "almanac/fleet");
    assert_eq!(collect(&shared), 1);
    assert!(!shared.objects.keys().contains(&unused));
}

/// The fleet has something newer, and the database says so.
#[test]
fn a_replica_that_starts_without_the_bucket_is_not_ready_with_what_was_replaced() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    let mut late = replicas.pop().unwrap();
    late.stop();
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    shared.objects.kill();
    late.program.restart();
    until_waiting(&mut late, "s3://");
    until("the problem", || {
        let error = status_of(&mut late)["bucket_error"].to_string();
        error.contains("s3://")
    });
    assert_eq!(status_of(&mut late)["follows"], serde_json::json!([]));
    let ready = late.ready();
    assert_eq!(ready.status, 503, "{}", ready.text());
    shared.objects.restart();
    until_at(&mut late, "a", &second.digest());
    late.program.wait_until_ready();
    until("the end of the error", || {
        status_of(&mut late)["bucket_error"].is_null()
    });
}

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
    shared.postgres.ask(GO_BACK);
    until_all_at(&mut replicas, "a", &first.digest());
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
