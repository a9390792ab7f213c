//! What a publication checks in the database, with several replicas in one process.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use almanac::store::fleet::{
    Fleet, FleetError, GenerationId, Lease, Prepared, Publication, ReplicaId, Shared as Objects,
    Silences, SourceRevision, TrackId, Turn,
};
use almanac::store::{Counts, Image, ImageKind, Revision, RevisionId, SourceIdentity};
use images::digest::Digest;

use super::{Shared, fleet};
use crate::support::postgres;

/// A replica.
struct Member {
    fleet: Fleet,
    me: ReplicaId,
    track: TrackId,
}

impl Member {
    async fn join(shared: &Shared) -> Self {
        Self::join_for(shared, "a").await
    }

    async fn join_for(shared: &Shared, catalog: &str) -> Self {
        let fleet = fleet(shared);
        let me = fleet.join().await.unwrap();
        let track = fleet.track(&catalog.parse().unwrap(), "origin").await;
        let track = track.unwrap();
        Self { fleet, me, track }
    }

    /// Lives on, as one that serves everything or not. The result is the database's time.
    async fn beat(&self, ready: bool, troubled: bool) -> i64 {
        let tracks = [self.track];
        let beat = self.fleet.beat(self.me, ready, troubled, &tracks).await;
        let beat = beat.unwrap().unwrap();
        assert_eq!(beat.known, 1);
        beat.now
    }

    async fn take(&self) -> Lease {
        self.beat(true, false).await;
        let taken = self.fleet.take(self.me, &[self.track], 1).await.unwrap();
        taken[0]
    }

    async fn prepare(&self, lease: Lease, number: u32) -> Result<GenerationId, FleetError> {
        self.prepare_of(lease, number, &[]).await
    }

    async fn prepare_of(
        &self,
        lease: Lease,
        number: u32,
        sources: &[SourceRevision],
    ) -> Result<GenerationId, FleetError> {
        let revision = revision(number);
        let files = Objects::default();
        let resolved = i64::from(number) * 1_000_000;
        let publication = Publication {
            lease,
            revision: &revision,
            sources,
            files: &files,
            image: None,
            past: None,
            resolved: Some(resolved),
            untold: false,
        };
        let prepared = self.fleet.prepare_revisions(&[publication]).await;
        prepared.map(|ids| ids[0])
    }

    async fn prepare_image(
        &self,
        lease: Lease,
        number: u32,
    ) -> Result<Option<GenerationId>, FleetError> {
        let image = Image {
            kind: ImageKind::Slim,
            origin: None,
            tags: BTreeMap::new(),
            manifests: Vec::new(),
            blobs: Vec::new(),
            signed: None,
            left_out: Vec::new(),
        };
        let (id, parts) = (revision(number).id, Objects::default());
        self.fleet.prepare_image(lease, id, &image, &parts).await
    }

    async fn turn(&self, lease: Lease, id: GenerationId) -> Result<bool, FleetError> {
        let turn = self
            .fleet
            .turn(lease, id, Silences::default(), notice)
            .await;
        turn.map(|turn| turn != Turn::Waits)
    }
}

fn notice(prepared: Prepared) -> Option<Duration> {
    (prepared.having >= prepared.replicas).then_some(Duration::ZERO)
}

fn revision(number: u32) -> Revision {
    Revision {
        id: number.to_string().parse().unwrap(),
        catalog: "a".parse().unwrap(),
        identity: SourceIdentity::from_text("file:/a"),
        digest: Digest::of(b"source"),
        content: Digest::of(b"content"),
        modified: UNIX_EPOCH + Duration::from_secs(number.into()),
        committed: UNIX_EPOCH,
        counts: Counts::default(),
        files: std::sync::Arc::default(),
        damaged: false,
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

#[test]
fn an_image_of_a_replaced_revision_makes_no_generation() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let member = Member::join(&shared).await;
        let lease = member.take().await;
        let first = member.prepare(lease, 1).await.unwrap();
        assert_eq!(first.number, 1);
        member.prepare(lease, 2).await.unwrap();
        // It took long to make.
        assert_eq!(member.prepare_image(lease, 1).await.unwrap(), None);
        let image = member.prepare_image(lease, 2).await.unwrap().unwrap();
        assert_eq!(image.number, 3);
        let found = member.fleet.generations(&[member.track]).await.unwrap();
        let last = found.last().unwrap();
        assert_eq!((last.id, last.revision), (image, revision(2).id));
        // An image is no word of the source.
        assert_eq!(last.resolved, Some(2_000_000));
    });
}

#[test]
fn a_curated_revision_of_replaced_sources_makes_no_generation() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let source = Member::join(&shared).await;
        let curated = Member::join_for(&shared, "ours").await;
        let (lease, other) = (source.take().await, curated.take().await);
        let publish = async |number| {
            let id = source.prepare(lease, number).await.unwrap();
            source.fleet.leave_receipt(source.me, id).await.unwrap();
            assert!(source.turn(lease, id).await.unwrap());
        };
        let made_of = |number| SourceRevision {
            track: source.track,
            revision: revision(number).id,
            content: revision(number).content.to_string(),
        };
        let count = || shared.postgres.ask("SELECT count(*) FROM revisions");
        // Nothing of the source is current yet.
        let early = curated.prepare_of(other, 10, &[made_of(1)]).await;
        assert!(matches!(early, Err(FleetError::Replaced)), "{early:?}");
        publish(1).await;
        curated.prepare_of(other, 11, &[made_of(1)]).await.unwrap();
        // What is announced replaces nothing before its moment is set.
        let next = source.prepare(lease, 2).await.unwrap();
        curated.prepare_of(other, 12, &[made_of(1)]).await.unwrap();
        source.fleet.leave_receipt(source.me, next).await.unwrap();
        assert!(source.turn(lease, next).await.unwrap());
        let before = count();
        let late = curated.prepare_of(other, 13, &[made_of(1)]).await;
        assert!(matches!(late, Err(FleetError::Replaced)), "{late:?}");
        let mut reused = made_of(2);
        reused.content = Digest::of(b"of another revision with its number").to_string();
        let late = curated.prepare_of(other, 13, &[reused]).await;
        assert!(matches!(late, Err(FleetError::Replaced)), "{late:?}");
        assert_eq!(count(), before, "nothing of it stays");
        curated.prepare_of(other, 13, &[made_of(2)]).await.unwrap();
    });
}

#[test]
fn a_former_holder_publishes_nothing() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (former, next) = (Member::join(&shared).await, Member::join(&shared).await);
        let old = former.take().await;
        let id = former.prepare(old, 1).await.unwrap();
        former.fleet.leave_receipt(former.me, id).await.unwrap();
        let paused = "UPDATE replicas SET expires = clock_timestamp() - interval '1 second'";
        shared.postgres.ask(paused);
        let new = next.take().await;
        former.beat(true, false).await;
        next.fleet.leave_receipt(next.me, id).await.unwrap();

        let refused = [
            former.prepare(old, 2).await.map(drop),
            former.prepare_image(old, 1).await.map(drop),
            former.turn(old, id).await.map(drop),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(FleetError::Fenced)), "{refused:?}");
        }
        let turned = "SELECT count(*) FROM generations WHERE flips IS NOT NULL";
        assert_eq!(shared.postgres.ask(turned), "0");
        assert!(next.turn(new, id).await.unwrap());
        assert_eq!(shared.postgres.ask(turned), "1");
    });
}

#[test]
fn a_moment_waits_for_a_replica_that_became_ready_meanwhile() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (holder, other) = (Member::join(&shared).await, Member::join(&shared).await);
        let lease = holder.take().await;
        other.beat(false, false).await;
        let id = holder.prepare(lease, 1).await.unwrap();
        holder.fleet.leave_receipt(holder.me, id).await.unwrap();
        let prepared = async || {
            let prepared = holder.fleet.prepared(holder.me, id, Silences::default());
            let prepared = prepared.await.unwrap();
            (prepared.replicas, prepared.having)
        };
        assert_eq!(prepared().await, (1, 1));
        other.beat(true, false).await;
        assert!(!holder.turn(lease, id).await.unwrap());
        // Where nobody serves everything, each may have clients.
        holder.beat(false, false).await;
        other.beat(false, false).await;
        assert_eq!(prepared().await, (2, 1));
        other.fleet.leave_receipt(other.me, id).await.unwrap();
        assert!(holder.turn(lease, id).await.unwrap());
    });
}

/// The rows of all have expired while the database was away.
#[test]
fn a_moment_waits_for_replicas_that_lived_before_the_database_was_away() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (holder, other) = (Member::join(&shared).await, Member::join(&shared).await);
        let lease = holder.take().await;
        let beaten = other.beat(true, false).await;
        let id = holder.prepare(lease, 1).await.unwrap();
        holder.fleet.leave_receipt(holder.me, id).await.unwrap();
        let expire = "UPDATE replicas SET expires = expires - interval '10 seconds'";
        shared.postgres.ask(expire);
        let now = holder.beat(true, false).await;
        // As of the time before: after a beat, and before the next one.
        let before = Some(beaten - 10_000_000);
        let ended = Silences {
            lived_at: before,
            beaten_at: Some(now),
        };
        let unnoticed = Silences {
            lived_at: None,
            beaten_at: before,
        };
        for silences in [ended, unnoticed] {
            let prepared = holder.fleet.prepared(holder.me, id, silences);
            let prepared = prepared.await.unwrap();
            assert_eq!((prepared.replicas, prepared.having), (2, 1), "{silences:?}");
            assert!(prepared.has_others, "{silences:?}");
            let turn = holder.fleet.turn(lease, id, silences, notice);
            assert_eq!(turn.await.unwrap(), Turn::Waits, "{silences:?}");
        }
        let none = Silences {
            lived_at: None,
            beaten_at: Some(now),
        };
        let prepared = holder.fleet.prepared(holder.me, id, none).await.unwrap();
        assert_eq!((prepared.replicas, prepared.having), (1, 1));
    });
}

#[test]
fn a_generation_that_another_one_replaces_before_its_moment_leaves_nothing() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let member = Member::join(&shared).await;
        let lease = member.take().await;
        let first = member.prepare(lease, 1).await.unwrap();
        member.fleet.leave_receipt(member.me, first).await.unwrap();
        let second = member.prepare(lease, 2).await.unwrap();
        let turn = async |id, after| {
            let notice = move |_| Some(after);
            let turn = member.fleet.turn(lease, id, Silences::default(), notice);
            turn.await.unwrap()
        };
        let after = Duration::from_millis(700);
        assert_eq!(turn(first, after).await, Turn::Over);
        let shown = || shared.postgres.ask("SELECT revision FROM history");
        assert_eq!(shown(), "");
        member.fleet.check().await.unwrap();
        member.fleet.collect().await.unwrap().unwrap();
        for rows in ["SELECT number FROM generations", "SELECT id FROM revisions"] {
            assert_eq!(shared.postgres.ask(rows), "2", "{rows}");
        }
        // Whoever waits for the moment waits as long as it was set ahead.
        let turned = turn(second, after).await;
        assert!(
            matches!(turned, Turn::Set { after: set, .. } if set == after),
            "{turned:?}"
        );
        assert_eq!(shown(), "2");
    });
}

#[test]
fn a_replica_whose_passes_fail_for_its_own_reasons_gets_no_catalog_of_another() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (holder, other) = (Member::join(&shared).await, Member::join(&shared).await);
        let lease = holder.take().await;
        let tracks = [lease.track];
        let taker = async || {
            let taker = holder.fleet.find_taker(holder.me, &tracks, usize::MAX);
            taker.await.unwrap()
        };
        other.beat(true, true).await;
        assert_eq!(taker().await, None);
        other.beat(true, false).await;
        assert_eq!(taker().await, Some((lease, other.me)));
    });
}

#[test]
fn a_catalog_is_handed_over_to_a_replica_that_follows_two_fewer() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (holder, other) = (Member::join(&shared).await, Member::join(&shared).await);
        let lease = holder.take().await;
        let tracks = [lease.track];
        other.beat(true, false).await;
        let taker = async |mine| {
            let taker = holder.fleet.find_taker(holder.me, &tracks, mine);
            taker.await.unwrap()
        };
        let expected = Some((lease, other.me));
        assert_eq!(taker(1).await, None);
        assert_eq!(taker(2).await, expected);
        // What failed here may fail there as well.
        shared.postgres.ask("UPDATE leases SET given_up = 1");
        assert_eq!(taker(2).await, None);
        shared.postgres.ask("UPDATE leases SET given_up = 0");
        assert_eq!(taker(2).await, expected);

        holder.fleet.hand_over(lease, other.me).await.unwrap();
        let beat = other.fleet.beat(other.me, true, false, &tracks).await;
        let beat = beat.unwrap().unwrap();
        assert_eq!((beat.free, beat.least), (0, Some(0)));
        let [received] = beat.leases[..] else {
            panic!("{beat:?}")
        };
        other.prepare(received, 2).await.unwrap();
        let late = holder.prepare(lease, 1).await;
        assert!(matches!(late, Err(FleetError::Fenced)), "{late:?}");
        // What is no longer here cannot be handed over.
        holder.fleet.hand_over(lease, holder.me).await.unwrap();
        other.prepare(received, 3).await.unwrap();
    });
}

#[test]
fn a_catalog_that_all_replicas_have_given_up_stays_until_some_pass_succeeds() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let (one, other) = (Member::join(&shared).await, Member::join(&shared).await);
        let given_up = async |member: &Member| {
            let tracks = [member.track];
            let beat = member.fleet.beat(member.me, true, false, &tracks).await;
            beat.unwrap().unwrap().given_up
        };
        let lease = one.take().await;
        given_up(&other).await;
        assert!(one.fleet.has_better(lease).await.unwrap());
        one.fleet.give_up(lease).await.unwrap();
        assert_eq!(given_up(&one).await, [one.track]);

        // Both have failed: handing it over brings nothing.
        let lease = other.take().await;
        assert!(!other.fleet.has_better(lease).await.unwrap());
        // After a while the first one may do better.
        let later = "UPDATE leases SET gave_up = gave_up - interval '31 minutes'";
        shared.postgres.ask(later);
        assert!(other.fleet.has_better(lease).await.unwrap());

        other.fleet.succeed(lease).await.unwrap();
        assert_eq!(given_up(&one).await, []);
        assert!(other.fleet.has_better(lease).await.unwrap());
    });
}

#[test]
fn numbers_go_on_above_those_that_replicas_have() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let fleet = fleet(&shared);
        let next = async |last: &str| {
            let last: RevisionId = last.parse().unwrap();
            let number = fleet.next_revision(&"a".parse().unwrap(), last).await;
            number.unwrap().id.to_string()
        };
        assert_eq!(next("0").await, "1");
        // The database has lost them.
        assert_eq!(next("100").await, "101");
        assert_eq!(next("7").await, "102");
    });
}

/// Others would never follow what only a new configuration has.
#[test]
fn a_replica_follows_at_once_what_no_other_one_wants() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let fleet = fleet(&shared);
        let mut tracks = Vec::new();
        for name in ["a", "b", "c", "d", "e"] {
            let track = fleet.track(&name.parse().unwrap(), "origin").await;
            tracks.push(track.unwrap());
        }
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(fleet.join().await.unwrap());
        }
        let share = async |member: usize, wanted: &[TrackId]| {
            let beat = fleet.beat(all[member], true, false, wanted).await;
            beat.unwrap().unwrap().share
        };
        for member in [0, 1, 2, 0] {
            share(member, &tracks).await;
        }
        // Five over three.
        assert_eq!(share(0, &tracks).await, 2);
        // The others have only the first of them.
        for member in [1, 2] {
            share(member, &tracks[..1]).await;
        }
        assert_eq!(share(0, &tracks).await, 5);
        assert_eq!(share(1, &tracks[..1]).await, 1);
        // Three thirds are one.
        for member in [0, 1, 2, 0] {
            assert!(share(member, &tracks[..3]).await <= 3);
        }
        assert_eq!(share(1, &tracks[..3]).await, 1);
    });
}

#[test]
fn an_outdated_track_begins_with_later_content_of_the_same_source_only() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let old = Member::join(&shared).await;
        let (fleet, name) = (fleet(&shared), "a".parse().unwrap());
        let new = Member {
            track: fleet.track(&name, "new").await.unwrap(),
            me: fleet.join().await.unwrap(),
            fleet,
        };
        // As of what a replica shows: revisions are as old as their numbers.
        let show = async |member: &Member, lease: Lease, number: u32| {
            let id = member.prepare(lease, number).await.unwrap();
            member.fleet.leave_receipt(member.me, id).await.unwrap();
            assert!(member.turn(lease, id).await.unwrap());
            id
        };
        let last = async |member: &Member| {
            let found = member.fleet.generations(&[member.track]).await.unwrap();
            found.last().unwrap().clone()
        };
        let raise = async |member: &Member, seen: Option<u32>| {
            let seen = seen.map(|seen| revision(seen).id);
            let raised = member.fleet.raise_dates(&[(member.track, seen)]).await;
            raised.unwrap();
        };
        let changes = || shared.postgres.ask("SELECT change FROM fleet");
        let (old_lease, new_lease) = (old.take().await, new.take().await);
        show(&old, old_lease, 1).await;
        show(&new, new_lease, 2).await;
        let other = show(&old, old_lease, 3).await;
        // A replica whose clients have seen nothing else.
        raise(&new, Some(2)).await;
        assert!(!last(&new).await.is_outdated());
        let begin_with = async |lease, other, has_same_source| {
            let begun = new.fleet.begin_with(lease, other, has_same_source).await;
            begun.unwrap()
        };
        assert!(!begin_with(new_lease, other, true).await);
        // One whose clients may have.
        raise(&new, None).await;
        assert!(last(&new).await.is_outdated());
        let before = changes();
        raise(&new, None).await;
        assert!(!begin_with(new_lease, other, false).await);
        assert_eq!(changes(), before, "nobody is told of nothing");
        // Content of the track itself comes again at a later date.
        let number = new
            .fleet
            .next_revision(&name, revision(3).id)
            .await
            .unwrap();
        assert_eq!(number.modified, Some(revision(3).modified));
        show(&new, new_lease, 4).await;
        assert!(!last(&new).await.is_outdated());
        // The other way round, of the same source.
        raise(&old, None).await;
        assert!(last(&old).await.is_outdated());
        let served = old.fleet.served_elsewhere(&name, old.track).await;
        let (_, served) = served.unwrap()[0].clone();
        assert!(begin_with(old_lease, served, true).await);
        let begun = last(&old).await;
        assert_eq!((begun.revision, begun.flips), (revision(4).id, None));
        assert!(!begun.is_outdated());
        // Once only.
        assert!(!begin_with(old_lease, served, true).await);
    });
}

/// Several replicas begin to follow many tracks while others publish.
#[test]
fn replicas_that_note_dates_at_once_do_not_wait_for_each_other_for_ever() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    run(async {
        let fleet = fleet(&shared);
        shared.postgres.ask(
            "INSERT INTO tracks (catalog, origin)
               SELECT 'c' || n / 2, 'o' || n % 2 FROM generate_series(1, 200) n;
             INSERT INTO revisions (id, track, digest, content, modified)
               SELECT id, id, '', '', id FROM tracks;
             INSERT INTO generations (track, number, revision, epoch, change, flips)
               SELECT id, 1, id, 0, -id, clock_timestamp() FROM tracks",
        );
        let mut tracks = Vec::new();
        for number in 2..200 {
            let name = format!("c{}", number / 2).parse().unwrap();
            let origin = format!("o{}", number % 2);
            tracks.push((fleet.track(&name, &origin).await.unwrap(), None));
        }
        let mut backwards = tracks.clone();
        backwards.reverse();
        let raise = async |tracks: &[(TrackId, Option<RevisionId>)]| {
            for _ in 0..20 {
                shared.postgres.ask("UPDATE tracks SET not_before = NULL");
                fleet.raise_dates(tracks).await.unwrap();
            }
        };
        tokio::join!(raise(&tracks), raise(&backwards));
        let outdated = "SELECT count(*) FROM tracks WHERE not_before IS NOT NULL";
        assert_eq!(shared.postgres.ask(outdated), "99");
    });
}
