//! The moment of a change without the database.

use std::time::{Duration, Instant};

use almanac::store::fleet::{Generation, GenerationId};

use super::{
    Following, HOLDER, REPOSITORY, Shared, collect, credentials, fleet, push, replicas, status_of,
    text, until, until_at, until_waiting,
};
use crate::support::almanac::{Almanac, following};
use crate::support::postgres;
use crate::support::relay::Relay;
use crate::support::upstream::Upstream;

/// Longer than the five seconds between two receipts of a replica: the next one hangs by then,
/// and for more than three seconds.
const HANGING: Duration = Duration::from_millis(5200);
/// How much later than the holder the others may turn, on a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// A member that is ready and has not fetched a generation keeps the others waiting for it,
/// so the database can be cut off before the moment is set.
#[test]
fn a_replica_that_is_cut_off_from_the_database_hears_of_the_moment_in_the_bucket() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut holder = shared.replica(&config);
    until_at(&mut holder, "a", &first.digest());
    let direct = shared.postgres.address();
    let relay = Relay::start(direct);
    let settings = shared.settings();
    let settings = settings.replace(&direct.to_string(), &relay.address().to_string());
    let mut far = Almanac::start_with(&format!("{settings}{config}"), &credentials());
    until_at(&mut far, "a", &first.digest());

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // Connections of the member are closed in it.
    let _context = runtime.enter();
    let member = fleet(&shared);
    let origin = shared.postgres.ask("SELECT origin FROM tracks");
    let (me, track) = runtime.block_on(async {
        let me = member.join().await.unwrap();
        let track = member.track(&"a".parse().unwrap(), &origin).await.unwrap();
        member.beat(me, true, false, &[track]).await.unwrap();
        (me, track)
    });
    let second = push(&upstream, "second");
    let live = || runtime.block_on(async { member.beat(me, true, false, &[track]).await.unwrap() });
    until("the other to have fetched it", || {
        live();
        let waits = &status_of(&mut far)["waits"]["a"];
        waits.as_str().is_some_and(|told| told.contains("follows"))
    });
    relay.cut();
    let cut = Instant::now();
    while cut.elapsed() < HANGING {
        live();
        std::thread::sleep(Duration::from_millis(100));
    }
    live();
    runtime.block_on(async {
        let generations = member.generations(&[track]).await.unwrap();
        let pending = generations.last().unwrap();
        assert_eq!(pending.flips, None);
        assert_eq!(member.told_moment(pending).await.unwrap(), None);
        member.leave_receipt(me, pending.id).await.unwrap();
    });
    until_at(&mut holder, "a", &second.digest());
    let turned = Instant::now();
    until_at(&mut far, "a", &second.digest());
    let late = turned.elapsed();
    assert!(late < LATE, "{late:?}");
    far.program.wait_for_log("the moment in the bucket", |log| {
        log.contains("the bucket tells when to turn")
    });
    // A start serves what clients saw, whatever is away. A moment later, as the disk may be
    // slow.
    shared.objects.kill();
    std::thread::sleep(LATE);
    far.program.kill9();
    far.program.restart();
    until("what is stored", || far.all("a").status == 200);
    assert_eq!(far.all("a").text(), text("second"));
}

/// The holder may die once the database has the moment.
#[test]
fn every_replica_that_reads_a_moment_writes_it_to_the_bucket() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    for replica in &mut replicas {
        until_at(replica, "a", &first.digest());
        replica.until_pullable("a");
    }
    let holder: usize = shared.postgres.ask(HOLDER).parse().unwrap();
    // The other one may be slow to fetch, so nobody turns before the holder is killed.
    shared.objects.lie(|lies| lies.altered = Some("/sha256/"));
    let second = push(&upstream, "second");
    shared
        .postgres
        .until("SELECT count(*) FROM generations WHERE flips IS NULL", "1");
    // Only a replica that waits for a moment writes it.
    until_waiting(&mut replicas[1 - holder], "is damaged");
    replicas.remove(holder).program.kill9();
    shared.objects.behave();
    let set = "WITH changed AS (UPDATE fleet SET change = change + 1 RETURNING change)
        UPDATE generations g SET change = changed.change,
          flips = clock_timestamp() + interval '1 second'
        FROM changed WHERE g.flips IS NULL RETURNING 'moments/' || track || '/' || number";
    let key = shared.postgres.ask(set);
    let key = key.lines().next().unwrap();
    until("the moment", || {
        shared.objects.keys().iter().any(|one| one.ends_with(key))
    });
    until_at(&mut replicas[0], "a", &second.digest());
}

#[test]
fn a_collection_keeps_the_last_moment_of_each_catalog_only() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let second = push(&upstream, "second");
    until_at(&mut replicas[0], "a", &second.digest());
    replicas[0].until_pullable("a");
    let moments = || {
        let mut keys = shared.objects.keys();
        keys.retain(|key| key.contains("moments/"));
        keys
    };
    let last = "SELECT 'moments/' || track || '/' || max(number) FROM generations
        WHERE flips IS NOT NULL GROUP BY track";
    until("the last moment", || {
        let last = shared.postgres.ask(last);
        moments().iter().any(|key| key.ends_with(&last))
    });
    let before = moments();
    assert!(before.len() > 1, "{before:?}");
    // Of a catalog that nobody wants any more, and of something else.
    let forgotten = before[0].replace("moments/", "moments/99");
    shared.objects.copy(&before[0], &forgotten);
    let other = before[0].replace("moments/", "moments/other/");
    shared.objects.copy(&before[0], &other);
    shared
        .postgres
        .ask("UPDATE fleet SET listed = listed - interval '8 days'");
    collect(&shared);
    let last = shared.postgres.ask(last);
    let left = moments();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&other), "{left:?}");
    assert!(left.iter().any(|key| key.ends_with(&last)), "{left:?}");
}

#[test]
fn the_moment_of_another_generation_counts_for_none() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let mut holder = shared.replica(&following(&upstream.reference(REPOSITORY, "latest")));
    until_at(&mut holder, "a", &first.digest());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let member = fleet(&shared);
        let origin = shared.postgres.ask("SELECT origin FROM tracks");
        let track = member.track(&"a".parse().unwrap(), &origin).await.unwrap();
        let shown = member.generations(&[track]).await.unwrap().pop().unwrap();
        member.tell_moment(&shown, 5).await.unwrap();
        assert_eq!(member.told_moment(&shown).await.unwrap(), Some(5));
        let number = shown.id.number + 1;
        let others = [
            Generation {
                id: GenerationId { number, ..shown.id },
                ..shown.clone()
            },
            Generation {
                content: "sha256:00".to_owned(),
                ..shown.clone()
            },
            Generation {
                image: shown.image.map(|image| image + 1),
                ..shown.clone()
            },
        ];
        for other in others {
            assert_eq!(member.told_moment(&other).await.unwrap(), None, "{other:?}");
        }
    });
}

#[test]
fn a_bucket_that_takes_no_moments_is_told_once_and_again_when_it_does() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let replica = &mut replicas[0];
    replica.until_pullable("a");
    shared
        .objects
        .lie(|lies| lies.unwritable = Some("moments/"));
    for package in ["second", "third"] {
        let image = push(&upstream, package);
        until_at(replica, "a", &image.digest());
    }
    let told = "the bucket does not take the moment of a change";
    replica
        .program
        .wait_for_log("the failure", |log| log.contains(told));
    assert_eq!(replica.program.log().matches(told).count(), 1);
    replica.until_metrics("almanac_fleet_errors_total{reason=\"objects\"}");
    shared.objects.behave();
    let image = push(&upstream, "fourth");
    until_at(replica, "a", &image.digest());
    replica.program.wait_for_log("the end", |log| {
        log.contains("the bucket takes the moments of changes again")
    });
}
