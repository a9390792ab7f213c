//! The moment of a change without the database.

use almanac::store::fleet::{Generation, GenerationId};

use super::{REPOSITORY, Shared, credentials, fleet, push, status_of, until, until_at};
use crate::support::almanac::{Almanac, following};
use crate::support::postgres;
use crate::support::relay::Relay;
use crate::support::upstream::Upstream;

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
    live();
    runtime.block_on(async {
        let generations = member.generations(&[track]).await.unwrap();
        let pending = generations.last().unwrap();
        assert_eq!(pending.flips, None);
        assert_eq!(member.told_moment(pending).await.unwrap(), None);
        member.leave_receipt(me, pending.id).await.unwrap();
    });
    until_at(&mut holder, "a", &second.digest());
    until_at(&mut far, "a", &second.digest());
    far.program.wait_for_log("a word of the bucket", |log| {
        log.contains("the bucket tells of the next revision")
    });
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
