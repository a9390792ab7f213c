//! What a fleet serves: the same everywhere, whole, and nothing that was removed
//! too early.

use std::time::{Duration, Instant, SystemTime};

use almanac::store::fleet::Collected;

use super::{
    Following, REPOSITORY, Shared, collect, image_of, push, replicas, status_of, tag, text, until,
    until_all_at, until_at,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::catalog::Catalog;
use crate::support::http::get;
use crate::support::image::{Built, Image, Index};
use crate::support::postgres::{self, Postgres};
use crate::support::program::PATIENCE;
use crate::support::upstream::Upstream;

/// A client follows the tag at one replica and pulls by digest at another, as it does
/// behind a balancer, while the catalog changes.
#[test]
fn a_tag_leads_to_no_digest_that_another_replica_lacks() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let images = ["first", "second", "third"].map(image_of);
    upstream.push(REPOSITORY, "latest", &images[0]);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 3);
    until_all_at(&mut replicas, "a", &images[0].digest());
    for replica in &mut replicas {
        replica.until_pullable("a");
    }
    let addresses: Vec<_> = replicas
        .iter_mut()
        .map(|replica| replica.program.address("http"))
        .collect();
    for image in &images[1..] {
        let before = tag(&mut replicas[0]);
        upstream.push(REPOSITORY, "latest", image);
        let begin = Instant::now();
        let mut first_new = None;
        let mut seen_by = [false; 3];
        while !seen_by.iter().all(|seen| *seen) {
            assert!(begin.elapsed() < LONG_PATIENCE, "{seen_by:?}");
            for (number, address) in addresses.iter().enumerate() {
                let shown = get(*address, "/v2/a/manifests/latest").unwrap();
                let digest = shown.header("docker-content-digest").unwrap().to_owned();
                let asked = Instant::now();
                if digest != before {
                    seen_by[number] = true;
                    first_new.get_or_insert(asked);
                } else if let Some(first) = first_new {
                    // Processes of a busy machine may wait for the processor.
                    assert!(asked - first < PATIENCE, "an old tag is shown");
                }
                let other = addresses[(number + 1) % addresses.len()];
                let pulled = get(other, &format!("/v2/a/manifests/{digest}")).unwrap();
                assert_eq!(pulled.status, 200, "{digest}");
                assert_eq!(pulled.body, shown.body);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        until_all_at(&mut replicas, "a", &image.digest());
    }
}

#[test]
fn curated_catalogs_and_full_mirrors_come_to_every_replica() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let source = upstream.reference(REPOSITORY, "latest");
    let config = following(&source)
        + "mirror = \"full\"\n"
        + "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n"
        + &catalog("slim", &source);
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    for replica in &mut replicas {
        for name in ["ours", "slim"] {
            replica.until_within(LONG_PATIENCE, name, "a revision", |status| {
                status["state"] == "serving"
            });
            assert_eq!(replica.packages(name).unwrap(), ["first"]);
        }
        // The image of the source itself.
        let wanted = first.digest().to_string();
        until("the mirrored image", || tag(replica) == wanted);
    }
    // Both replicas follow some of the three.
    let spread = "SELECT count(DISTINCT holder) FROM leases";
    shared.postgres.until(spread, "2");

    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        until("the curated catalog", || {
            replica.packages("ours").unwrap() == ["second"]
        });
        let wanted = second.digest().to_string();
        until("the mirrored image", || tag(replica) == wanted);
    }
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
    let mut all = replicas(&shared, &config, 2);
    let until_mirrored = |replicas: &mut [Almanac], image: &Built| {
        let wanted = image.digest().to_string();
        for replica in replicas {
            replica.until_pullable("a");
            until("the mirrored image", || tag(replica) == wanted);
        }
    };
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

/// Sets back the catalog `a`, in one transaction that ends once the publication of another
/// catalog waits for it.
const SET_BACK: &str = "BEGIN;
    UPDATE fleet SET change = change + 1;
    DO $$ BEGIN
      FOR looks IN 1..600 LOOP
        PERFORM pg_stat_clear_snapshot();
        IF EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
          AND wait_event_type = 'Lock' AND query LIKE 'UPDATE fleet SET change%') THEN
          RETURN;
        END IF;
        PERFORM pg_sleep(0.1);
      END LOOP;
      RAISE 'nobody publishes';
    END $$;
    INSERT INTO generations (track, number, revision, image, epoch, change, flips)
      SELECT track, (SELECT max(number) FROM generations) + 1, revision, image, epoch,
        (SELECT change FROM fleet), clock_timestamp()
      FROM generations ORDER BY number LIMIT 1;
    COMMIT";

#[test]
fn a_curated_catalog_is_made_again_when_another_revision_of_its_source_comes_meanwhile() {
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
    // Its images follow the revisions.
    let old = tag(&mut replica);
    let second = push(&upstream, "second");
    until_at(&mut replica, "a", &second.digest());
    until("the next image", || tag(&mut replica) != old);
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    std::thread::scope(|scope| {
        let setting_back = scope.spawn(|| shared.postgres.ask(SET_BACK));
        let is_locked = "SELECT count(*) > 0 FROM pg_locks
            WHERE relation = 'fleet'::regclass AND mode = 'RowExclusiveLock'";
        shared.postgres.until(is_locked, "t");
        let curated = "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n";
        let source = upstream.reference(REPOSITORY, "latest");
        let config = following(&source) + curated;
        replica.reconfigure(&format!("{}{config}", shared.settings()));
        setting_back.join().unwrap();
    });
    until_at(&mut replica, "a", &first.digest());
    replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
        status["state"] == "serving"
    });
    // Of the other one, nothing was ever announced.
    assert_eq!(replica.packages("ours").unwrap(), ["first"]);
    let announced = "SELECT count(*) FROM revisions r JOIN tracks t ON t.id = r.track
        WHERE t.catalog = 'ours'";
    assert_eq!(shared.postgres.ask(announced), "1");
    replica
        .program
        .wait_for_log("the reason", |log| log.contains("made again"));
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
    for replica in &mut replicas {
        replica.until_pullable("a");
    }

    shared.objects.lie(|lies| lies.altered = Some("/sha256/"));
    let second = push(&upstream, "second");
    until("a refusal", || {
        let mut logs = replicas.iter().map(|replica| replica.program.log());
        logs.any(|log| log.contains("is damaged"))
    });
    // The holder has the bytes and waits for the other, which tells why.
    let waits = |status: &serde_json::Value, text: &str| {
        let told = status["waits"]["a"].as_str();
        told.is_some_and(|told| told.contains(text))
    };
    until("both reasons", || {
        let told: Vec<_> = replicas.iter_mut().map(status_of).collect();
        ["is damaged", "1 of 2 replicas have it"]
            .iter()
            .all(|text| told.iter().any(|status| waits(status, text)))
    });
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("first"));
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("second"));
    }
}

#[test]
fn a_new_configuration_begins_with_what_the_fleet_serves_and_never_goes_back_in_time() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    // Another tag of the same place.
    let config = following(&upstream.reference(REPOSITORY, "next"));
    let mut new = super::replicas(&shared, &config, 1).remove(0);
    new.program.wait_until_ready();
    // From its first moment as a ready one.
    let dated = |replica: &mut Almanac| {
        let all = replica.all("a");
        assert_eq!(all.status, 200);
        all.header("last-modified").unwrap().to_owned()
    };
    let before = dated(&mut new);
    assert_eq!(before, dated(&mut replicas[0]));
    assert_eq!(new.all("a").text(), text("first"));

    // It has a date of a clock that was ahead.
    shared
        .postgres
        .ask("UPDATE revisions SET modified = 4102444800");
    let next = image_of("next");
    upstream.push(REPOSITORY, "next", &next);
    upstream.behave();
    until_all_at(std::slice::from_mut(&mut new), "a", &next.digest());
    // Clients see a later date, and none of that clock.
    let date = |text: &str| httpdate::parse_http_date(text).unwrap();
    let after = date(&dated(&mut new));
    assert!(after > date(&before) && after <= SystemTime::now() + Duration::from_secs(1));
    until_all_at(&mut replicas, "a", &first.digest());
    // The first one's configuration is gone, and its revision, which both had, stays known.
    for replica in &mut replicas {
        replica.stop();
    }
    let aged = "UPDATE tracks SET wanted = wanted - interval '2 days'";
    shared.postgres.ask(aged);
    collect(&shared);
    assert_eq!(shared.postgres.ask("SELECT count(*) FROM tracks"), "1");
    assert_eq!(new.all("a").text(), text("next"));
}

#[test]
fn a_replica_of_another_version_makes_its_own_files_of_the_lines_and_shares_them() {
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
    // Another version's, of which this one can read nothing but the lines.
    let own = "SELECT string_agg(name || encode(digest, 'hex'), ' ' ORDER BY name) FROM files
               WHERE name NOT IN ('outline.zst', 'record.json') AND format = (SELECT max(format) FROM files)";
    let before = shared.postgres.ask(own);
    shared.postgres.ask("UPDATE files SET format = format - 1");
    shared
        .postgres
        .ask("DELETE FROM files WHERE name <> 'all.zst'");
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut new = super::replicas(&shared, &config, 2);
    until_all_at(&mut new, "a", &first.digest());
    for replica in &mut new {
        let answer = |replica: &mut Almanac| {
            let all = replica.all("a");
            let header = |name| all.header(name).unwrap().to_owned();
            (header("etag"), header("last-modified"), all.text())
        };
        assert_eq!(answer(replica), answer(&mut replicas[0]));
        assert_eq!(tag(replica), image);
        assert_eq!(replica.packages("a").unwrap(), ["first"]);
    }
    // The files of this version are as they were, but for the blobs of the image, which only
    // the record had.
    assert_eq!(shared.postgres.ask(own), before);
    let formats = "SELECT count(DISTINCT format) FROM files";
    assert_eq!(shared.postgres.ask(formats), "2");
}

#[test]
fn lost_objects_are_written_again_by_a_replica_that_has_their_bytes() {
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
    let before = shared.objects.keys();
    shared.objects.remove(|key| key.contains("/sha256/"));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut new = shared.replica(&config);
    until_at(&mut new, "a", &first.digest());
    assert_eq!(new.all("a").text(), text("first"));
    new.until_pullable("a");
    // Under other names.
    assert!(
        shared
            .objects
            .keys()
            .iter()
            .all(|key| !key.contains("/sha256/") || !before.contains(key))
    );
    until("an end of what is lost", || {
        shared
            .postgres
            .ask("SELECT count(*) FROM objects WHERE state = 'lost'")
            == "0"
    });
}

#[test]
fn a_collection_removes_what_was_replaced_and_nothing_else() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, second) = (image_of("first"), image_of("second"));
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut one = replicas(&shared, &config, 1);
    until_all_at(&mut one, "a", &first.digest());
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut one, "a", &second.digest());

    // The moments of changes come a little later, and go with the next list.
    let keys = || {
        let mut keys = shared.objects.keys();
        keys.retain(|key| !key.contains("moments/"));
        keys
    };
    let all = keys();
    assert_eq!(collect(&shared), Collected::default(), "it is too early");
    let age = |rows: &str, columns: &str| {
        let statement = format!("UPDATE {rows} SET {columns} = {columns} - interval '2 days'");
        shared.postgres.ask(&statement);
    };
    age("generations", "flips");
    age("objects", "touched");
    let marked = collect(&shared);
    assert_eq!(marked.generations, 1);
    assert!(marked.marked > 3, "{marked:?}");
    assert_eq!(marked.objects, 0, "a publisher may need them yet");
    assert_eq!(keys(), all);

    // One that is needed again while it goes gets another name.
    upstream.push(REPOSITORY, "latest", &first);
    until_all_at(&mut one, "a", &first.digest());
    age("objects", "touched");
    let removed = collect(&shared);
    assert_eq!(removed.objects, marked.marked);
    let known = "SELECT count(*) FROM objects";
    // All objects have a row, and the mark of the fleet has none.
    let count = (keys().len() - 1).to_string();
    assert_eq!(shared.postgres.ask(known), count);

    // Now and then the bucket is compared with the rows.
    let before = keys();
    let own = before.iter().find(|key| key.contains("sha256/")).unwrap();
    let (name, _) = own.rsplit_once('-').unwrap();
    shared.objects.copy(own, &format!("{name}-999999"));
    // A check that was killed long ago has left its object.
    let prefix = own.split_once("sha256/").unwrap().0;
    shared
        .objects
        .copy(own, &format!("{prefix}probe-1700000000-0123456789abcdef"));
    assert_eq!(collect(&shared).strays, 0, "it is too early");
    shared
        .postgres
        .ask("UPDATE fleet SET listed = listed - interval '8 days'");
    assert_eq!(collect(&shared).strays, 1);
    assert_eq!(collect(&shared).strays, 0);
    age("objects", "touched");
    assert_eq!(collect(&shared).objects, 1);
    assert_eq!(keys(), before);

    // Nothing that a new replica needs is missing.
    let mut others = replicas(&shared, &config, 1);
    until_all_at(&mut others, "a", &first.digest());
    assert_eq!(others[0].all("a").text(), text("first"));
    let image = tag(&mut one[0]);
    until("the image", || tag(&mut others[0]) == image);
}
