use super::*;
use crate::ingest::curation::Curation;
use crate::ingest::folder_listing::FolderOptions;
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
    membership.open(&followed, &options)
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

#[tokio::test]
async fn panics_of_tasks_are_counted() {
    let membership = membership();
    membership.panicked("receive of a");
    membership.panicked("receive of a");
    let status = membership.status().borrow().clone();
    assert_eq!(status.panics["receive of a"], 2);
}
