//! What a fleet serves: the same everywhere, whole, dated by the database, and nothing that was
//! removed too early.

use std::time::{Duration, SystemTime};

use super::fixture::{TestFleet, credentials, prepared, prepared_on, start};
use super::{
    OURS, REPOSITORY, date, tag, until, until_at, until_lost, until_mirrored, until_package,
    until_serving, until_settled, until_waiting, waits,
};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, text_of};
use crate::support::faults::compile;
use crate::support::image::{Image, Index, image_of};
use crate::support::needs::skip_without;
use crate::support::postgres::Postgres;
use crate::support::runtime::block_on;

/// An object that no row lists.
const STRAY: &str =
    "almanac/sha256/00/0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn curated_catalogs_and_full_mirrors_come_to_every_replica() {
    let Some(mut fleet) = prepared() else { return };
    fleet.catalogs += "mirror = \"full\"\n";
    fleet.catalogs += OURS;
    fleet.catalogs += &catalog("slim", &fleet.source());
    let first = fleet.serve_first(2);
    for replica in &mut fleet.replicas {
        for name in ["ours", "slim"] {
            until_serving(replica, name);
            assert_eq!(replica.packages(name).unwrap(), ["first"]);
        }
        // The image of the source itself.
        until_mirrored(replica, "a", &first);
    }
    let second = fleet.publish("second");
    for replica in &mut fleet.replicas {
        until_package(replica, "ours", "second");
        until_mirrored(replica, "a", &second);
    }
}

/// A mirrored image comes after its revision, and may not come for a long time.
#[test]
fn a_start_without_the_database_serves_the_image_before_until_the_next_has_come() {
    let Some(mut fleet) = prepared_on(Postgres::alone) else {
        return;
    };
    fleet.catalogs += "mirror = \"full\"\nplatform = \"linux/amd64\"\n";
    let first = fleet.serve_first(1);
    until_mirrored(&mut fleet.replicas[0], "a", &first);
    // A mirror has all platforms, of which one cannot be pulled.
    let of_platform = |package: &str, architecture: &str| {
        let image = Image::of_catalog(&Catalog::one(package));
        image.platform("linux", architecture).build()
    };
    let other = of_platform("other", "s390x");
    let mut missing = Vec::new();
    other.for_each_blob(|blob| missing.push(blob.digest));
    let own = of_platform("second", "amd64");
    let second = Index::new().image(own).image(other).build();
    fleet
        .upstream
        .push_without(REPOSITORY, "latest", &second, &missing);
    fleet.until_all_at("a", &second);
    // One that has never had the revision of that image.
    fleet.add_replica();
    fleet.until_all_at("a", &second);
    for replica in &mut fleet.replicas {
        until_mirrored(replica, "a", &first);
    }

    fleet.postgres.kill9();
    for replica in &mut fleet.replicas {
        replica.program.kill9();
        replica.program.restart();
    }
    for replica in &mut fleet.replicas {
        replica.program.wait_until_ready();
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
        assert_eq!(tag(replica), first.digest().to_string());
        first.for_each_blob(|blob| {
            let pulled = replica.http(&format!("/v2/a/blobs/{}", blob.digest));
            assert_eq!(pulled.body, blob.bytes);
        });
    }
    fleet.postgres.restart();
    fleet.upstream.push(REPOSITORY, "latest", &second);
    for replica in &mut fleet.replicas {
        until_mirrored(replica, "a", &second);
    }
}

#[test]
fn a_damaged_object_reaches_no_client() {
    let Some(mut fleet) = start(2) else { return };
    fleet.objects.lie(|lies| lies.altered = Some("/sha256/"));
    let second = fleet.push("second");
    let mut behind = None;
    until("a refusal", || {
        let mut found = fleet.replicas.iter_mut();
        behind = found.position(|replica| waits(replica).contains("is damaged"));
        behind.is_some()
    });
    // Whoever has published it has the bytes.
    let mut behind = fleet.replicas.swap_remove(behind.unwrap());
    fleet.until_all_at("a", &second);
    assert_eq!(behind.all("a").text(), text_of("first"));
    assert_eq!(behind.ready().status, 200);
    // One that has nothing to serve gets no clients.
    let mut new = fleet.another();
    until_waiting(&mut new, "is damaged");
    assert_eq!(new.ready().status, 503);
    assert_ne!(new.all("a").status, 200);
    fleet.objects.behave();
    for replica in [&mut behind, &mut new] {
        until_at(replica, "a", &second);
        assert_eq!(replica.all("a").text(), text_of("second"));
    }
}

#[test]
fn lost_objects_are_uploaded_again_under_the_same_names() {
    let Some(mut fleet) = start(1) else { return };
    let image = tag(&mut fleet.replicas[0]);
    // It is uploaded after the publication.
    let outlines = "SELECT count(*) FROM history WHERE outline IS NOT NULL";
    fleet.postgres.until(outlines, "1");
    let before = fleet.objects.keys();
    fleet.objects.remove(|key| key.contains("/sha256/"));
    let mut new = fleet.another();
    until_at(&mut new, "a", &image_of("first"));
    assert_eq!(new.all("a").text(), text_of("first"));
    until("the image", || tag(&mut new) == image);
    assert_eq!(fleet.objects.keys(), before);
    until_lost(&mut new, |lost| lost == 0);
}

#[test]
fn a_collection_removes_what_was_replaced_a_day_ago_and_nothing_else() {
    let Some(mut fleet) = start(1) else { return };
    let second = fleet.publish("second");
    let all = fleet.objects.keys();
    fleet.age("fleet", "listed");
    assert_eq!(fleet.collect(), 0, "it is too early");
    assert_eq!(fleet.objects.keys(), all);

    let gone = "INSERT INTO tracks (catalog, identity) VALUES ('gone', 'x')";
    fleet.postgres.ask(gone);
    fleet.age("tracks", "wanted");
    fleet.age("generations", "made");
    fleet.age("fleet", "listed");
    let removed = fleet.collect();
    assert!(removed > 3, "{removed} of {all:?}");
    // A replica has the other track in its configuration.
    assert_eq!(fleet.postgres.ask("SELECT catalog FROM tracks"), "a");
    let before = fleet.objects.keys();
    assert_eq!(before.len(), all.len() - removed);
    let listed = "SELECT count(*) FROM (SELECT digest, coding FROM objects
        UNION SELECT outline, 'identity' FROM history WHERE outline IS NOT NULL) listed";
    // The mark of the fleet has no row.
    let count = (before.len() - 1).to_string();
    assert_eq!(fleet.postgres.ask(listed), count);

    let own = before.iter().find(|key| key.contains("/sha256/")).unwrap();
    let foreign = "almanac/sha256/00/notes";
    // The last one is of a check that was killed.
    for key in [STRAY, foreign, "almanac/probe-0123456789abcdef"] {
        fleet.objects.copy(own, key);
    }
    assert_eq!(fleet.collect(), 0, "the bucket is listed once a day");
    fleet.age("fleet", "listed");
    assert_eq!(fleet.collect(), 1);
    let mut left = fleet.objects.keys();
    left.retain(|key| key != foreign);
    assert_eq!(left, before);

    // A new replica misses nothing.
    let mut new = fleet.another();
    until_at(&mut new, "a", &second);
    assert_eq!(new.all("a").text(), text_of("second"));
    let image = tag(&mut fleet.replicas[0]);
    until("the image", || tag(&mut new) == image);
}

/// A fleet with an object that no row lists, when its bucket is listed next.
fn with_stray() -> Option<TestFleet> {
    let fleet = prepared()?;
    fleet.claim("almanac");
    fleet.objects.copy("almanac/fleet", STRAY);
    fleet.age("fleet", "listed");
    Some(fleet)
}

/// Holds the lock of an upload until there is a table `collected`.
const UPLOADING: &str = "DO $$ BEGIN
    PERFORM pg_advisory_lock_shared(3, 2);
    FOR looks IN 1..600 LOOP
      IF EXISTS (SELECT 1 FROM pg_class WHERE relname = 'collected') THEN RETURN; END IF;
      PERFORM pg_sleep(0.1);
    END LOOP;
  END $$";

#[test]
fn nothing_is_removed_while_a_replica_uploads() {
    let Some(fleet) = with_stray() else { return };
    std::thread::scope(|scope| {
        let uploading = scope.spawn(|| fleet.postgres.ask(UPLOADING));
        let locks = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'advisory' AND classid = 3 AND objid = 2 AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        fleet.postgres.until(locks, "1");
        assert_eq!(fleet.collect(), 0);
        fleet.postgres.ask("CREATE TABLE collected ()");
        uploading.join().unwrap();
    });
    assert_eq!(fleet.objects.keys(), ["almanac/fleet", STRAY]);
    fleet.age("fleet", "listed");
    assert_eq!(fleet.collect(), 1);
    assert_eq!(fleet.objects.keys(), ["almanac/fleet"]);
}

#[test]
fn an_emptied_bucket_gets_the_mark_again_and_one_of_another_fleet_is_left() {
    let Some(fleet) = prepared() else { return };
    fleet.claim("almanac");
    let id = fleet.postgres.ask("SELECT id FROM fleet");
    block_on(async {
        let member = fleet.member();
        member.check_bucket(&id).await.unwrap();
        fleet.objects.remove(|_| true);
        member.keep_bucket(&id).await.unwrap();
        assert_eq!(fleet.objects.keys(), ["almanac/fleet"]);
        assert!(member.owns_bucket());
        let other = member.keep_bucket(&"0".repeat(32)).await.unwrap_err();
        let other = other.to_string();
        assert!(other.contains("belongs to another fleet"), "{other}");
        assert!(!member.owns_bucket());
        member.close().await;
    });
}

#[test]
fn a_failed_collection_keeps_no_upload_waiting() {
    let Some(fleet) = with_stray() else { return };
    // The last query of a collection fails.
    let broken = "ALTER TABLE history RENAME COLUMN outline TO other";
    fleet.postgres.ask(broken);
    block_on(async {
        let member = fleet.member();
        let failed = member.collect().await.unwrap_err();
        assert!(failed.to_string().contains("nobody needs"), "{failed}");
        // The session lives on.
        let upload = "SELECT pg_try_advisory_lock_shared(3, 2)";
        assert_eq!(fleet.postgres.ask(upload), "t");
        member.close().await;
    });
    assert_eq!(fleet.objects.keys(), ["almanac/fleet", STRAY]);
}

/// A library that sets the clock of a program two days ahead.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (!result && clock == CLOCK_REALTIME)
        now->tv_sec += 172800;
    return result;
}
"#;

#[test]
fn a_replica_with_a_wrong_clock_does_not_date_the_catalogs() {
    if skip_without("cc") {
        return;
    }
    let Some(fleet) = prepared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "clock", CLOCK);
    let first = fleet.push("first");
    let [id, secret] = credentials();
    let variables = [id, secret, ("LD_PRELOAD", &*library)];
    let mut ahead = Almanac::start_with(&fleet.config(), &variables);
    until_at(&mut ahead, "a", &first);
    ahead.program.wait_for_log("the difference", |log| {
        log.contains("the clocks of this machine and of the database differ")
    });
    let dated = date(&mut ahead, "a");
    assert!(dated <= SystemTime::now() + Duration::from_secs(1));
    let mut other = fleet.another();
    until_at(&mut other, "a", &first);
    assert_eq!(date(&mut other, "a"), dated);
}

#[test]
fn other_content_gets_a_later_date_and_the_same_content_keeps_its_own() {
    let Some(mut fleet) = start(1) else { return };
    // The clock of the database was ahead.
    let ahead = "UPDATE generations SET modified = modified + 1800";
    fleet.postgres.ask(ahead);
    let last = fleet.postgres.ask("SELECT max(modified) FROM generations");
    fleet.publish("second");
    let ahead = Duration::from_secs(last.parse::<u64>().unwrap() + 1);
    let ahead = SystemTime::UNIX_EPOCH + ahead;
    assert_eq!(date(&mut fleet.replicas[0], "a"), ahead);
    // Another image with the same content.
    let again = Image::of_catalog(&Catalog::one("second")).label("made", "again");
    let again = again.build();
    fleet.upstream.push(REPOSITORY, "latest", &again);
    fleet.until_all_at("a", &again);
    assert_eq!(date(&mut fleet.replicas[0], "a"), ahead);
}

#[test]
fn an_older_dump_of_the_database_is_followed_by_a_publication_with_a_higher_number() {
    let Some(mut fleet) = start(2) else { return };
    let dump = fleet.postgres.dump();
    for package in ["second", "third", "fourth"] {
        fleet.publish(package);
    }
    let last = fleet.postgres.ask("SELECT max(number) FROM generations");
    fleet.postgres.restore(&dump);
    let later = format!("SELECT count(*) > 0 FROM generations WHERE number > {last}");
    fleet.postgres.until(&later, "t");
    for replica in &mut fleet.replicas {
        assert_eq!(replica.all("a").text(), text_of("fourth"));
    }
    let fifth = fleet.push("fifth");
    for replica in &mut fleet.replicas {
        until("the next one", || {
            let shown = replica.all("a").text();
            assert_ne!(shown, text_of("first"));
            shown == text_of("fifth")
        });
        until_at(replica, "a", &fifth);
        until_settled(replica);
    }
}
