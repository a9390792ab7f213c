use super::*;
use crate::ingest::curation::Curation;
use crate::ingest::fleet::moments::unless_turned;
use crate::ingest::folder_listing::FolderOptions;
use crate::ingest::followed::OnInvalid;
use crate::ingest::images::options::Mirror;
use crate::ingest::source::Source;
use crate::store::fleet::testing;
use ::images::Platform;

/// A place in a fleet whose database and bucket nobody asks.
fn membership() -> Membership {
    let status = FleetStatus {
        name: "a".into(),
        database: String::new(),
        objects: String::new(),
        replicas: 0,
        follows: Vec::new(),
        behind: Vec::new(),
        lagging: Vec::new(),
        counted: false,
        answered: None,
        heard: Instant::now(),
        stale: None,
        error: None,
        lost: 0,
        bucket_error: None,
        waits: BTreeMap::new(),
        panics: BTreeMap::new(),
    };
    let owner = ("fleet".to_owned(), true);
    Membership::new(
        testing::unreachable(),
        status,
        owner,
        watch::Sender::new(()),
    )
}

fn open(membership: &Membership, name: &str) -> Track {
    let followed = Followed {
        name: name.parse().unwrap(),
        source: "file:/a".parse().unwrap(),
        poll: None,
        platform: Platform::default(),
        on_invalid: OnInvalid::default(),
        folder: FolderOptions::default(),
    };
    let options = ImageOptions {
        mirror: Mirror::Slim,
        signed_name: None,
    };
    membership.open(&followed, &options, None)
}

#[tokio::test(start_paused = true)]
async fn a_catalog_is_made_of_sources_whose_current_revision_is_here() {
    let membership = membership();
    let (source, made) = (open(&membership, "a"), open(&membership, "ours"));
    let curation = Curation {
        from: vec!["a".parse().unwrap()],
        ..Curation::default()
    };
    made.update(|state| state.source = Some(Source::Curated(curation)));
    // Time goes by itself.
    assert_eq!(made.until_sources().await, Err("a".parse().unwrap()));
    let waiting = made.until_sources();
    let coming = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        source.update(|state| state.known = true);
    };
    let (waited, ()) = tokio::join!(waiting, coming);
    assert_eq!(waited, Ok(()));
}

#[tokio::test]
async fn a_replica_that_gives_a_catalog_up_gets_none_of_others() {
    let membership = membership();
    let track = open(&membership, "a");
    assert!(!membership.is_troubled());
    track.give_up();
    assert!(membership.is_troubled());
    track.update(|state| state.unfit = None);
    assert!(!membership.is_troubled());
}

#[tokio::test]
async fn a_replica_tells_why_clients_do_not_see_the_current_revision() {
    let membership = membership();
    let track = open(&membership, "a");
    let status = membership.status();
    let name: CatalogName = "a".parse().unwrap();
    let told = || status.borrow().waits.get(&name).cloned();
    track.wait_for(None);
    assert!(told().unwrap().contains("has not told"));
    track.update(|state| {
        state.known = true;
        state.served = Some(testing::generation_id(1));
    });
    track.wait_for(Some(Waiting::Failed("no space is left".to_owned())));
    assert!(told().unwrap().starts_with("no space is left; tried again"));
    track.update(|state| state.served = None);
    let mut woken = track.subscribe();
    woken.mark_unchanged();
    track.wait_for(None);
    assert_eq!(told(), None);
    // Who waits for something to do is not woken.
    assert!(!woken.has_changed().unwrap());
}

fn beat_with_ready_others() -> Beat {
    Beat {
        now: 0,
        change: 1,
        live: 2,
        share: 1,
        ready: 1,
        fit: 1,
        least: Some(0),
        free: 0,
        known: 1,
        lost: 0,
        given_up: Vec::new(),
        leases: Vec::new(),
    }
}

#[tokio::test]
async fn a_lagging_replica_stays_unready_when_the_database_is_away() {
    let membership = membership();
    let (a, b) = (open(&membership, "a"), open(&membership, "b"));
    let [first, next] = [1, 2].map(testing::generation);
    for track in [&a, &b] {
        track.update(|state| {
            state.note(Some(first.clone()), None);
            state.served = Some(first.id);
        });
    }
    membership.note(Ok((&beat_with_ready_others(), true)));
    // The others turn to what is not open here.
    for track in [&a, &b] {
        track.update(|state| {
            state.note(Some(first.clone()), Some(next.clone()));
            state.note(Some(next.clone()), None);
        });
    }
    let status = membership.status();
    let lagging = || {
        let status = status.borrow();
        let lagging = status.lagging.iter().map(ToString::to_string);
        (
            lagging.collect::<Vec<_>>().join(" "),
            status.unready(true).is_some(),
        )
    };
    membership.note(Ok((&beat_with_ready_others(), true)));
    assert_eq!(lagging(), ("a b".to_owned(), true));
    membership.note(Err("no answer".to_owned()));
    assert_eq!(lagging(), ("a b".to_owned(), true));
    // One of them has come to the disk before.
    a.update(|state| state.served = state.turned.as_ref().map(|turned| turned.id));
    membership.note(Err("no answer".to_owned()));
    assert_eq!(lagging(), ("b".to_owned(), true));
    // Where nobody has everything, each may have clients.
    let alone = Beat {
        ready: 0,
        ..beat_with_ready_others()
    };
    membership.note(Ok((&alone, true)));
    assert_eq!(lagging(), (String::new(), false));
}

#[tokio::test]
async fn what_is_announced_is_awaited_while_it_is_pending_and_the_lease_is_held() {
    let membership = membership();
    let track = open(&membership, "a");
    let (lease, id) = (testing::lease(1), testing::generation_id(2));
    assert!(!track.awaits(lease, id));
    track.update(|state| {
        state.set_lease(Some(lease));
        state.note(None, Some(testing::generation(2)));
    });
    assert!(track.awaits(lease, id));
    assert!(!track.awaits(testing::lease(2), id));
    assert!(!track.awaits(lease, testing::generation_id(1)));
}

/// The database does not answer, and what waits for it would delay the turn.
#[tokio::test(start_paused = true)]
async fn work_with_the_database_ends_when_the_bucket_tells_a_moment() {
    let membership = membership();
    let track = open(&membership, "a");
    track.update(|state| {
        state.note(None, Some(testing::generation(1)));
    });
    let before = track.subscribe().borrow().clone();
    let telling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        track.update(|state| state.turned = state.pending.take());
    };
    let begun = tokio::time::Instant::now();
    let stuck = tokio::time::sleep(Duration::from_secs(12));
    let (done, ()) = tokio::join!(unless_turned(&track, &before, stuck), telling);
    assert_eq!(done, None);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    // What ends in time counts.
    let before = track.subscribe().borrow().clone();
    assert_eq!(unless_turned(&track, &before, async { 7 }).await, Some(7));
}

#[tokio::test]
async fn panics_of_tasks_are_counted() {
    let membership = membership();
    membership.panicked("receive of a");
    membership.panicked("receive of a");
    let status = membership.status().borrow().clone();
    assert_eq!(status.panics["receive of a"], 2);
}
