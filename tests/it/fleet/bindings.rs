//! A fleet, its database and its bucket belong together: another one in their place is refused,
//! at a start and later.

use almanac::fleet::FleetError;
use images::digest::Digest;

use serde_json::json;

use super::archives::ArchiveFolder;
use super::fixture::{prepared, start};
use super::{
    PUBLISHED, assert_good, assert_refused, check, status_of, until, until_at, until_reported,
    until_unreported, until_waiting,
};
use crate::support::image::image_of;
use crate::support::program::PATIENCE;

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

#[test]
fn an_empty_place_is_not_taken_for_the_bucket_of_a_fleet() {
    let Some(fleet) = prepared() else { return };
    let config = fleet.config();
    fleet.claim("almanac");
    assert_eq!(fleet.objects.keys(), ["almanac/fleet"]);
    assert_good(&check(&config));

    let wrong = config.replace("/almanac?", "/wrong?");
    assert_ne!(wrong, config);
    let words = ["s3://catalogs/wrong at ", "which is s3://catalogs/almanac"];
    assert_refused(&check(&wrong), &words);
    assert_eq!(fleet.objects.keys(), ["almanac/fleet"]);
    let refused = ArchiveFolder::new(&wrong).try_export(&["--file=none.tar"]);
    assert_refused(&refused, &["not the bucket of this fleet"]);

    // A bucket that was restored without its mark is marked again.
    fleet.objects.remove(|key| key == "almanac/fleet");
    assert_good(&check(&config));
    fleet.claim("almanac");

    // One that was moved has it, and is the fleet's from then on.
    fleet.objects.copy("almanac/fleet", "wrong/fleet");
    assert_good(&check(&wrong));
    fleet.claim("wrong");
    fleet.objects.remove(|key| key == "almanac/fleet");
    assert_refused(&check(&config), &["which is s3://catalogs/wrong"]);
}

#[test]
fn a_check_leaves_nothing_in_the_database_and_the_bucket() {
    let Some(fleet) = prepared() else { return };
    let config = fleet.config();
    let left = || {
        let rows = "SELECT bucket, (SELECT count(*) FROM replicas), (SELECT count(*) FROM tracks)
            FROM fleet";
        (fleet.objects.keys(), fleet.postgres.ask(rows))
    };
    let nothing = (Vec::new(), "|0|0".to_owned());
    assert_good(&check(&config));
    assert_eq!(left(), nothing);
    // What it tries does not stay if it fails, either.
    fleet.objects.lie(|lies| lies.empty_lists = true);
    assert_refused(&check(&config), &["allow the key to list"]);
    fleet.objects.behave();
    assert_eq!(left(), nothing);

    // A fleet whose database was made anew finds the mark of the lost one.
    fleet.claim("almanac");
    let anew = "UPDATE fleet SET id = 'x', bucket = NULL";
    fleet.postgres.ask(anew);
    let words = [
        "object s3://catalogs/almanac/fleet names a fleet",
        "another prefix",
        "remove that object",
    ];
    assert_refused(&check(&config), &words);
    assert_eq!(fleet.objects.keys(), ["almanac/fleet"]);
    fleet.objects.remove(|key| key == "almanac/fleet");
    assert_good(&check(&config));
    fleet.claim("almanac");
}

#[test]
fn a_replica_does_nothing_in_a_database_that_has_become_another_fleets() {
    let Some(mut fleet) = start(1) else { return };
    fleet.postgres.ask("UPDATE fleet SET id = 'x' || id");
    let mut replica = fleet.take();
    until_reported(&mut replica, "error", "of another fleet");
    until("the refusal", || {
        status_of(&mut replica)["follows"] == json!([])
    });
    let before = fleet.postgres.ask(PUBLISHED);
    let second = fleet.push("second");
    // A start is refused, too.
    replica.program.kill9();
    replica.program.restart();
    let status = replica.program.wait(PATIENCE);
    assert_eq!(status.code(), Some(1), "{}", replica.program.log());
    assert_eq!(fleet.postgres.ask(PUBLISHED), before);

    fleet.postgres.ask("UPDATE fleet SET id = substr(id, 2)");
    replica.program.restart();
    until_at(&mut replica, "a", &second);
}

#[test]
fn nothing_is_removed_from_a_bucket_without_the_mark_of_the_fleet() {
    let Some(fleet) = start(1) else { return };
    fleet.age("fleet", "listed");
    let digest = Digest::of(b"unused").hex();
    let unused = format!("almanac/sha256/{}/{digest}", &digest[..2]);
    for copy in [&*unused, "almanac/kept"] {
        fleet.objects.copy("almanac/fleet", copy);
    }
    fleet.objects.remove(|key| key == "almanac/fleet");
    let refused = fleet.try_collect();
    let is_unmarked = matches!(refused, Err(FleetError::Unmarked));
    assert!(is_unmarked, "{refused:?}");
    assert!(fleet.objects.keys().contains(&unused));
    // It is tried again.
    fleet.objects.copy("almanac/kept", "almanac/fleet");
    assert_eq!(fleet.collect(), 1);
    assert!(!fleet.objects.keys().contains(&unused));
}

/// The fleet has something newer, and the database says so.
#[test]
fn a_replica_that_starts_without_the_bucket_is_not_ready_with_what_was_replaced() {
    let Some(mut fleet) = start(2) else { return };
    let mut late = fleet.replicas.pop().unwrap();
    late.stop();
    let second = fleet.publish("second");
    fleet.objects.kill();
    late.program.restart();
    until_waiting(&mut late, "s3://");
    until_reported(&mut late, "bucket_error", "s3://");
    assert_eq!(status_of(&mut late)["follows"], json!([]));
    let ready = late.ready();
    assert_eq!(ready.status, 503, "{}", ready.text());
    fleet.objects.restart();
    until_at(&mut late, "a", &second);
    late.program.wait_until_ready();
    until_unreported(&mut late, "bucket_error");
}

#[test]
fn a_change_without_a_notification_is_found_by_the_next_beat() {
    let Some(mut fleet) = start(2) else { return };
    fleet.publish("second");
    fleet.disconnect();
    fleet.postgres.ask(GO_BACK);
    fleet.until_all_at("a", &image_of("first"));
}

/// Replicas wait for locked rows, and have to see what was committed meanwhile.
#[test]
fn the_isolation_level_of_the_database_does_not_matter() {
    let Some(mut fleet) = prepared() else { return };
    fleet.set_in_database("default_transaction_isolation = serializable");
    fleet.serve_first(3);
    for package in ["second", "third", "fourth", "fifth"] {
        fleet.publish(package);
    }
    for replica in &mut fleet.replicas {
        let log = replica.program.log();
        assert!(!log.contains("could not serialize"), "{log}");
    }
}
