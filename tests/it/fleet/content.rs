//! What a fleet serves: the same everywhere, whole, dated by the database, and nothing that was
//! removed too early.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::{
    Following, REPOSITORY, Shared, claim, collect, credentials, date, fleet, push, replicas,
    status_of, tag, text, until, until_all_at, until_at, until_serving, until_settled,
    until_waiting, waits,
};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::Catalog;
use crate::support::image::{Built, Image, Index};
use crate::support::needs::skip_without;
use crate::support::postgres::{self, Postgres};
use crate::support::upstream::Upstream;

/// An object that no row lists.
const STRAY: &str =
    "almanac/sha256/00/0000000000000000000000000000000000000000000000000000000000000000";

/// Waits until replicas show this image of the catalog `a`.
fn until_mirrored(replicas: &mut [Almanac], image: &Built) {
    let wanted = image.digest().to_string();
    for replica in replicas {
        until("the mirrored image", || tag(replica) == wanted);
    }
}

#[test]
fn curated_catalogs_and_full_mirrors_come_to_every_replica() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let source = upstream.reference(REPOSITORY, "latest");
    let config = following(&source)
        + "mirror = \"full\"\n\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n"
        + &catalog("slim", &source);
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    for replica in &mut replicas {
        for name in ["ours", "slim"] {
            until_serving(replica, name);
            assert_eq!(replica.packages(name).unwrap(), ["first"]);
        }
    }
    // The image of the source itself.
    until_mirrored(&mut replicas, &first);
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        until("the curated catalog", || {
            replica.packages("ours").unwrap() == ["second"]
        });
    }
    until_mirrored(&mut replicas, &second);
}

/// A mirrored image comes after its revision, and may not come for a long time.
#[test]
fn a_start_without_the_database_serves_the_image_before_until_the_next_has_come() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::of(Postgres::alone()), Upstream::start());
    let first = push(&upstream, "first");
    let source = upstream.reference(REPOSITORY, "latest");
    let config = following(&source) + "mirror = \"full\"\nplatform = \"linux/amd64\"\n";
    let mut all = replicas(&shared, &config, 1);
    until_all_at(&mut all, "a", &first.digest());
    until_mirrored(&mut all, &first);
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
    upstream.push_without(REPOSITORY, "latest", &second, &missing);
    until_all_at(&mut all, "a", &second.digest());
    // One that has never had the revision of that image.
    all.push(shared.replica(&config));
    until_all_at(&mut all, "a", &second.digest());
    until_mirrored(&mut all, &first);

    shared.postgres.kill9();
    for replica in &mut all {
        replica.program.kill9();
        replica.program.restart();
    }
    for replica in &mut all {
        replica.program.wait_until_ready();
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
        assert_eq!(tag(replica), first.digest().to_string());
        first.for_each_blob(|blob| {
            let pulled = replica.http(&format!("/v2/a/blobs/{}", blob.digest));
            assert_eq!(pulled.body, blob.bytes);
        });
    }
    shared.postgres.restart();
    upstream.push(REPOSITORY, "latest", &second);
    until_mirrored(&mut all, &second);
}

#[test]
fn a_damaged_object_reaches_no_client() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    shared.objects.lie(|lies| lies.altered = Some("/sha256/"));
    let second = push(&upstream, "second");
    let mut behind = None;
    until("a refusal", || {
        let mut found = replicas.iter_mut();
        behind = found.position(|replica| waits(replica).contains("is damaged"));
        behind.is_some()
    });
    // Whoever has published it has the bytes.
    let mut behind = replicas.swap_remove(behind.unwrap());
    until_all_at(&mut replicas, "a", &second.digest());
    assert_eq!(behind.all("a").text(), text("first"));
    assert_eq!(behind.ready().status, 200);
    // One that has nothing to serve gets no clients.
    let mut new = shared.replica(&following(&upstream.reference(REPOSITORY, "latest")));
    until_waiting(&mut new, "is damaged");
    assert_eq!(new.ready().status, 503);
    assert_ne!(new.all("a").status, 200);
    shared.objects.behave();
    for replica in [&mut behind, &mut new] {
        until_at(replica, "a", &second.digest());
        assert_eq!(replica.all("a").text(), text("second"));
    }
}

#[test]
fn lost_objects_are_uploaded_again_under_the_same_names() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    let image = tag(&mut replicas[0]);
    let before = shared.objects.keys();
    shared.objects.remove(|key| key.contains("/sha256/"));
    let mut new = shared.replica(&following(&upstream.reference(REPOSITORY, "latest")));
    until_at(&mut new, "a", &first.digest());
    assert_eq!(new.all("a").text(), text("first"));
    until("the image", || tag(&mut new) == image);
    assert_eq!(shared.objects.keys(), before);
    until("an end of what is lost", || {
        status_of(&mut new)["lost_objects"] == 0
    });
}

/// Makes rows two days older.
fn age(shared: &Shared, table: &str, column: &str) {
    let aged = format!("UPDATE {table} SET {column} = {column} - interval '2 days'");
    shared.postgres.ask(&aged);
}

#[test]
fn a_collection_removes_what_was_replaced_a_day_ago_and_nothing_else() {
    let Some(Following {
        shared,
        upstream,
        replicas: mut one,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_all_at(&mut one, "a", &second.digest());
    let all = shared.objects.keys();
    age(&shared, "fleet", "listed");
    assert_eq!(collect(&shared), 0, "it is too early");
    assert_eq!(shared.objects.keys(), all);

    shared
        .postgres
        .ask("INSERT INTO tracks (catalog, identity) VALUES ('gone', 'x')");
    for (table, column) in [
        ("tracks", "wanted"),
        ("generations", "made"),
        ("fleet", "listed"),
    ] {
        age(&shared, table, column);
    }
    let removed = collect(&shared);
    assert!(removed > 3, "{removed} of {all:?}");
    // A replica has the other track in its configuration.
    assert_eq!(shared.postgres.ask("SELECT catalog FROM tracks"), "a");
    let before = shared.objects.keys();
    assert_eq!(before.len(), all.len() - removed);
    let listed = "SELECT count(*) FROM (SELECT digest, coding FROM objects
        UNION SELECT outline, 'identity' FROM history WHERE outline IS NOT NULL) listed";
    // The mark of the fleet has no row.
    let count = (before.len() - 1).to_string();
    assert_eq!(shared.postgres.ask(listed), count);

    let own = before.iter().find(|key| key.contains("/sha256/")).unwrap();
    let foreign = "almanac/sha256/00/notes";
    // The last one is of a check that was killed.
    for key in [STRAY, foreign, "almanac/probe-0123456789abcdef"] {
        shared.objects.copy(own, key);
    }
    assert_eq!(collect(&shared), 0, "the bucket is listed once a day");
    age(&shared, "fleet", "listed");
    assert_eq!(collect(&shared), 1);
    let mut left = shared.objects.keys();
    left.retain(|key| key != foreign);
    assert_eq!(left, before);

    // A new replica misses nothing.
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut new = shared.replica(&config);
    until_at(&mut new, "a", &second.digest());
    assert_eq!(new.all("a").text(), text("second"));
    let image = tag(&mut one[0]);
    until("the image", || tag(&mut new) == image);
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
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    claim(&shared, "almanac");
    shared.objects.copy("almanac/fleet", STRAY);
    age(&shared, "fleet", "listed");
    std::thread::scope(|scope| {
        let uploading = scope.spawn(|| shared.postgres.ask(UPLOADING));
        let locks = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'advisory' AND classid = 3 AND objid = 2 AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        shared.postgres.until(locks, "1");
        assert_eq!(collect(&shared), 0);
        shared.postgres.ask("CREATE TABLE collected ()");
        uploading.join().unwrap();
    });
    assert_eq!(shared.objects.keys(), ["almanac/fleet", STRAY]);
    age(&shared, "fleet", "listed");
    assert_eq!(collect(&shared), 1);
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
}

#[test]
fn an_emptied_bucket_gets_the_mark_again_and_one_of_another_fleet_is_left() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    claim(&shared, "almanac");
    let id = shared.postgres.ask("SELECT id FROM fleet");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fleet = fleet(&shared);
        fleet.check_bucket(&id).await.unwrap();
        shared.objects.remove(|_| true);
        fleet.keep_bucket(&id).await.unwrap();
        assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
        assert!(fleet.owns_bucket());
        let other = fleet.keep_bucket(&"0".repeat(32)).await.unwrap_err();
        assert!(
            other.to_string().contains("belongs to another fleet"),
            "{other}"
        );
        assert!(!fleet.owns_bucket());
        fleet.close().await;
    });
}

#[test]
fn a_failed_collection_keeps_no_upload_waiting() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    claim(&shared, "almanac");
    shared.objects.copy("almanac/fleet", STRAY);
    age(&shared, "fleet", "listed");
    // The last query of a collection fails.
    shared
        .postgres
        .ask("ALTER TABLE history RENAME COLUMN outline TO other");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fleet = fleet(&shared);
        let failed = fleet.collect().await.unwrap_err();
        assert!(failed.to_string().contains("nobody needs"), "{failed}");
        // The session lives on.
        let upload = "SELECT pg_try_advisory_lock_shared(3, 2)";
        assert_eq!(shared.postgres.ask(upload), "t");
        fleet.close().await;
    });
    assert_eq!(shared.objects.keys(), ["almanac/fleet", STRAY]);
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

/// Compiles it in this folder. Returns its path.
fn clock(folder: &TempDir) -> String {
    let (source, library) = (
        folder.path().join("clock.c"),
        folder.path().join("clock.so"),
    );
    fs::write(&source, CLOCK).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .unwrap();
    assert!(compiled.success());
    library.display().to_string()
}

#[test]
fn a_replica_with_a_wrong_clock_does_not_date_the_catalogs() {
    if postgres::is_missing() || skip_without("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = clock(&folder);
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let [id, secret] = credentials();
    let mut ahead = Almanac::start_with(
        &format!("{}{config}", shared.settings()),
        &[id, secret, ("LD_PRELOAD", &library)],
    );
    until_at(&mut ahead, "a", &first.digest());
    ahead.program.wait_for_log("the difference", |log| {
        log.contains("the clocks of this machine and of the database differ")
    });
    let dated = date(&mut ahead, "a");
    assert!(dated <= SystemTime::now() + Duration::from_secs(1));
    let mut other = shared.replica(&config);
    until_at(&mut other, "a", &first.digest());
    assert_eq!(date(&mut other, "a"), dated);
}

#[test]
fn other_content_gets_a_later_date_and_the_same_content_keeps_its_own() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    // The clock of the database was ahead.
    let ahead = "UPDATE generations SET modified = modified + 1800";
    shared.postgres.ask(ahead);
    let last = shared.postgres.ask("SELECT max(modified) FROM generations");
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    let ahead = Duration::from_secs(last.parse::<u64>().unwrap() + 1);
    let ahead = SystemTime::UNIX_EPOCH + ahead;
    assert_eq!(date(&mut replicas[0], "a"), ahead);
    // Another image with the same content.
    let again = Image::of_catalog(&Catalog::one("second")).label("made", "again");
    let again = again.build();
    upstream.push(REPOSITORY, "latest", &again);
    until_all_at(&mut replicas, "a", &again.digest());
    assert_eq!(date(&mut replicas[0], "a"), ahead);
}

#[test]
fn an_older_dump_of_the_database_is_followed_by_a_publication_with_a_higher_number() {
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
    for package in ["second", "third", "fourth"] {
        let image = push(&upstream, package);
        until_all_at(&mut replicas, "a", &image.digest());
    }
    let last = shared.postgres.ask("SELECT max(number) FROM generations");
    shared.postgres.restore(&dump);
    let later = format!("SELECT count(*) > 0 FROM generations WHERE number > {last}");
    shared.postgres.until(&later, "t");
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("fourth"));
    }
    let fifth = push(&upstream, "fifth");
    for replica in &mut replicas {
        until("the next one", || {
            let shown = replica.all("a").text();
            assert_ne!(shown, text("first"));
            shown == text("fifth")
        });
        until_at(replica, "a", &fifth.digest());
        until_settled(replica);
    }
}
