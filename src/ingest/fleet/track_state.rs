//! What this replica knows of a catalog in the fleet.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use crate::ingest::source::Source;
use crate::name::CatalogName;
use crate::store::fleet::{Generation, GenerationId, Lease, TrackId};
use crate::store::{RevisionId, SourceIdentity};

/// How long a new holder waits before it reads files: its mount may be older than what is
/// served, which the holder before has read.
const MOUNT: Duration = Duration::from_mins(2);
/// How long a replica leaves a catalog to others after failures of its own.
const UNFIT: Duration = Duration::from_mins(5);

/// Whether a replica has given a track up since the last pass that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// None has.
    #[default]
    No,
    /// This one has. The database may not have taken that.
    Here,
    /// The database tells so.
    Known,
}

/// What this replica knows of a track.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackState {
    /// Its source.
    pub(super) source: Option<Source>,
    /// The source of revisions that are made of it here.
    pub(super) identity: Option<SourceIdentity>,
    /// The revision that clients of this replica have seen before it followed the track.
    pub(super) seen: Option<RevisionId>,
    /// Its row, once it is known.
    pub(super) id: Option<TrackId>,
    /// Whether its generations were read from the database.
    pub(super) known: bool,
    /// The right to follow it.
    pub(super) lease: Option<Lease>,
    /// The last one that this replica got: it keeps it when it does not know for a while
    /// whether it still has it.
    pub(super) received: Option<Lease>,
    /// When this replica got it, if the fleet served something of it then.
    pub(super) taken_over: Option<Instant>,
    /// The end of the time for which the source is left alone after that, once whoever asks
    /// it waits. Offline, nobody does.
    pub(super) rests_until: Option<SystemTime>,
    /// When passes here failed for reasons of this replica alone.
    pub(super) unfit: Option<Instant>,
    /// Whether a replica has given it up since the last pass that succeeded.
    pub(super) given_up: GivenUp,
    /// Counts how often a pass has succeeded at another replica after that.
    pub(super) recoveries: u64,
    /// The lease under which the last pass has succeeded here.
    pub(super) succeeded: Option<Lease>,
    /// The last generation with a moment at which all turn to it.
    pub(super) turned: Option<Generation>,
    /// The last one without in the database, which the replicas fetch.
    pub(super) pending: Option<Generation>,
    /// The last one that was pending here.
    pub(super) announced: Option<GenerationId>,
    /// The generation that was opened last, so that it can be turned to.
    pub(super) opened: Option<GenerationId>,
    /// The generation that clients of this replica see.
    pub(super) served: Option<GenerationId>,
    /// Whether a pass is running.
    pub(super) passing: bool,
    /// The revision that this pass announces.
    pub(super) announcing: Option<RevisionId>,
    /// Counts how often damage of stored files was found.
    pub(super) damages: u64,
    /// Why clients do not see the newest revision yet.
    pub(super) waiting: Option<Waiting>,
}

impl TrackState {
    /// Notes the right to follow it, or that another may have it. Whether that is new.
    pub(super) fn set_lease(&mut self, lease: Option<Lease>) -> bool {
        if self.lease == lease {
            return false;
        }
        self.lease = lease;
        self.taken_over = (lease.is_some() && self.turned.is_some()).then(Instant::now);
        self.rests_until = None;
        true
    }

    /// Leaves the source alone for as long as a new holder has to. Without a time that has
    /// to pass, `None`.
    pub(super) fn begin_rest(&mut self) -> Option<(Duration, SystemTime)> {
        let rest = self.rest();
        let until = (!rest.is_zero()).then(|| SystemTime::now() + rest);
        self.rests_until = until;
        until.map(|until| (rest, until))
    }

    /// Notes a new right to follow it. What failed under an earlier one says nothing of it.
    pub(super) fn receive(&mut self, lease: Lease) {
        self.received = Some(lease);
        self.unfit = None;
    }

    /// The generation whose moment is not known yet.
    pub(super) fn awaited(&self) -> Option<&Generation> {
        let pending = self.pending.as_ref()?;
        let turned = self.turned.as_ref();
        let is_known = turned.is_some_and(|turned| turned.is_same(pending));
        (!is_known).then_some(pending)
    }

    /// Notes what the database has of its generations: the last one with a moment, and the
    /// last one without. Whether that is new.
    pub(super) fn note(&mut self, turned: Option<Generation>, pending: Option<Generation>) -> bool {
        // The bucket may have told a moment that this was read before, or that the database
        // has lost: clients do not go back.
        let told = self.turned.as_ref().zip(pending.as_ref());
        let is_told = told.is_some_and(|(turned, pending)| turned.is_same(pending));
        let turned = if is_told { self.turned.clone() } else { turned };
        if self.known && self.turned == turned && self.pending == pending {
            return false;
        }
        self.known = true;
        self.announced = pending.as_ref().map(|one| one.id).or(self.announced);
        self.turned = turned;
        self.pending = pending;
        true
    }

    /// Whether another replica should follow it.
    pub(super) fn is_unfit(&self) -> bool {
        self.unfit.is_some_and(|since| since.elapsed() < UNFIT)
    }

    /// How long a new holder leaves the source alone.
    pub(super) fn rest(&self) -> Duration {
        let is_mounted = self.source.as_ref().is_some_and(|it| it.path().is_some());
        let since = self.taken_over.filter(|_| is_mounted);
        since.map_or(Duration::ZERO, |since| {
            MOUNT.saturating_sub(since.elapsed())
        })
    }

    /// Whether another configuration of the catalog has shown something later.
    pub(super) fn is_outdated(&self) -> bool {
        self.turned.as_ref().is_some_and(Generation::is_outdated)
    }

    /// Whether clients see what they should, as far as this replica knows.
    pub(super) fn is_settled(&self) -> bool {
        let turned = self.turned.as_ref().map(|turned| turned.id);
        self.known && turned == self.served
    }

    /// Whether the others turn to an announced generation that is not open here. One that was
    /// never announced is new to all of them.
    pub(super) fn is_missed(&self) -> bool {
        let turned = self.turned.as_ref().map(|turned| turned.id);
        turned.is_some()
            && turned == self.announced
            && turned != self.served
            && turned != self.opened
    }

    /// The catalogs that it is made of.
    pub(super) fn sources(&self) -> Vec<CatalogName> {
        match &self.source {
            Some(Source::Curated(curation)) => curation.from.clone(),
            _ => Vec::new(),
        }
    }

    /// Why clients do not see the newest revision yet, if something is.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        if !self.known {
            return Some(Waiting::Database);
        }
        if self.pending.is_some() || !self.is_settled() {
            return Some(self.waiting.clone().unwrap_or(Waiting::Files));
        }
        let rests_until = self.rests_until.filter(|_| !self.rest().is_zero());
        rests_until.map(Waiting::Mount)
    }

    /// Notes why. A failure is told until what failed has been done.
    pub(super) fn wait_for(&mut self, waiting: Option<Waiting>) {
        let is_again = matches!(waiting, Some(Waiting::Files))
            && matches!(self.waiting, Some(Waiting::Failed(_)));
        if !is_again {
            self.waiting = waiting;
        }
    }
}

/// Why clients of a replica do not see the newest revision yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The database has not told yet what is current.
    Database,
    /// Its files are being fetched.
    Files,
    /// The last try failed, with this error.
    Failed(String),
    /// This replica has it, and another one decides when all turn.
    Holder,
    /// What clients see here, of another configuration, has a later date.
    Date,
    /// Some replicas do not have it yet.
    Replicas {
        /// How many have it.
        having: i64,
        /// Of how many.
        replicas: i64,
    },
    /// The moment at which all turn to it.
    Moment,
    /// A new holder leaves the source alone until then.
    Mount(SystemTime),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database => f.write_str("the database of the fleet has not told what is current"),
            Self::Files => f.write_str("its files are being fetched"),
            Self::Failed(error) => write!(f, "{error}; tried again after a pause"),
            Self::Holder => {
                f.write_str("fetched; the replica that follows the catalog waits for the others")
            }
            Self::Date => f.write_str(
                "what is served here, of another configuration, has a later date: the replica that \
                 follows the catalog publishes it again",
            ),
            Self::Replicas { having, replicas } => {
                write!(f, "fetched; {having} of {replicas} replicas have it")
            }
            Self::Moment => f.write_str("fetched; all replicas turn to it in a moment"),
            Self::Mount(until) => write!(
                f,
                "the source is left alone until {} after a takeover, since the files here may be \
                 older than those served",
                humantime::format_rfc3339_seconds(*until)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fleet::testing;

    fn taken_over(source: &str, is_served: bool) -> TrackState {
        TrackState {
            source: Some(source.parse().unwrap()),
            taken_over: is_served.then(Instant::now),
            ..TrackState::default()
        }
    }

    #[test]
    fn a_new_holder_rests_before_it_reads_files_that_another_has_read() {
        for source in ["file:/catalogs/a", "oci:/layouts/a"] {
            assert!(taken_over(source, true).rest() > MOUNT / 2, "{source}");
            // Nothing is served that its mount could be older than.
            assert_eq!(taken_over(source, false).rest(), Duration::ZERO, "{source}");
            let mut later = taken_over(source, true);
            later.taken_over = Instant::now().checked_sub(MOUNT);
            assert_eq!(later.rest(), Duration::ZERO, "{source}");
        }
        let registry = taken_over("quay.io/a/b:v1", true);
        assert_eq!(registry.rest(), Duration::ZERO);
    }

    #[test]
    fn a_new_holder_tells_until_when_it_leaves_the_source_alone() {
        let mut state = TrackState {
            source: Some("file:/catalogs/a".parse().unwrap()),
            known: true,
            turned: Some(testing::generation(1)),
            served: Some(testing::generation_id(1)),
            ..TrackState::default()
        };
        assert_eq!(state.waiting(), None);
        assert!(state.set_lease(Some(testing::lease(1))));
        // Offline, nobody waits to ask the source.
        assert_eq!(state.waiting(), None);
        assert!(state.begin_rest().is_some());
        let told = state.waiting().unwrap().to_string();
        assert!(told.contains("left alone until 2"), "{told}");
        assert!(state.set_lease(None));
        assert_eq!(state.waiting(), None);
        // It is over.
        assert!(state.set_lease(Some(testing::lease(2))));
        assert!(state.begin_rest().is_some());
        state.taken_over = Instant::now().checked_sub(MOUNT);
        assert_eq!(state.waiting(), None);
        assert_eq!(state.begin_rest(), None);
    }

    #[test]
    fn a_moment_that_the_bucket_has_told_is_not_forgotten() {
        let [first, next] = [1, 2].map(testing::generation);
        let at = |flips, generation: &Generation| Generation {
            flips: Some(flips),
            ..generation.clone()
        };
        let mut state = TrackState::default();
        assert!(state.note(Some(at(1, &first)), Some(next.clone())));
        assert_eq!(state.awaited(), Some(&next));
        assert!(!state.note(Some(at(1, &first)), Some(next.clone())));
        // The bucket tells its moment.
        state.turned = Some(at(2, &next));
        state.pending = None;
        // An older read of the database, or a database that has lost the moment.
        assert!(state.note(Some(at(1, &first)), Some(next.clone())));
        assert_eq!(state.turned, Some(at(2, &next)));
        assert_eq!(state.pending, Some(next.clone()));
        assert_eq!(state.awaited(), None);
        // Another moment is set.
        assert!(state.note(Some(at(3, &next)), None));
        assert_eq!(state.turned, Some(at(3, &next)));
        // After a failover, the number means another generation.
        let mut other = next.clone();
        other.content = "sha256:3".into();
        assert!(state.note(Some(at(1, &first)), Some(other.clone())));
        assert_eq!(state.turned, Some(at(1, &first)));
        assert_eq!(state.awaited(), Some(&other));
    }

    #[test]
    fn a_generation_is_missed_if_it_was_announced_and_is_not_open_at_its_moment() {
        let [first, next] = [1, 2].map(testing::generation);
        let mut state = TrackState::default();
        // As a catalog begins with what another configuration serves.
        assert!(state.note(Some(first.clone()), None));
        assert!(!state.is_missed());
        state.served = Some(first.id);
        assert!(state.note(Some(first), Some(next.clone())));
        assert!(!state.is_missed());
        assert!(state.note(Some(next.clone()), None));
        assert!(state.is_missed());
        state.opened = Some(next.id);
        assert!(!state.is_missed());
    }

    #[test]
    fn a_catalog_is_left_to_others_for_a_while_after_failures_of_this_replica() {
        let mut state = TrackState {
            unfit: Some(Instant::now()),
            ..TrackState::default()
        };
        assert!(state.is_unfit());
        state.unfit = Instant::now().checked_sub(UNFIT);
        assert!(!state.is_unfit());
    }

    #[test]
    fn a_failure_is_told_until_the_files_have_come() {
        let mut state = TrackState::default();
        assert_eq!(state.waiting(), Some(Waiting::Database));
        state.known = true;
        // Nothing is announced or current.
        assert_eq!(state.waiting(), None);
        state.served = Some(testing::generation_id(1));
        assert_eq!(state.waiting(), Some(Waiting::Files));
        let failed = Waiting::Failed("no space".to_owned());
        state.wait_for(Some(failed.clone()));
        // It is tried again.
        state.wait_for(Some(Waiting::Files));
        assert_eq!(state.waiting(), Some(failed));
        state.wait_for(Some(Waiting::Moment));
        assert_eq!(state.waiting(), Some(Waiting::Moment));
        state.served = None;
        assert_eq!(state.waiting(), None);
    }
}
