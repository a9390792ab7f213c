//! What a replica does for a track, and what it shows of it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::fleet::generations::Generation;
use crate::fleet::numbers::{GenerationNumber, TrackId};
use crate::fleet::session::SessionNumber;
use crate::store::{Revision, RevisionId};

/// How long a replica leaves a track to others after passes that failed at it alone.
const UNFIT: Duration = Duration::from_mins(10);
/// The failed tries to show a generation after which its source decides. Replicas with what the
/// bucket has lost upload it meanwhile.
const TRIES: u32 = 3;

/// What a replica does for a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Another replica follows it, or none.
    #[default]
    Shows,
    /// This one has its lock.
    Holds {
        /// The session with the lock.
        session: SessionNumber,
        /// How many passes and images are in work.
        working: u32,
    },
    /// The same, and nothing more is begun: another one should follow.
    Leaves {
        /// The session with the lock.
        session: SessionNumber,
        /// How many passes and images are in work.
        working: u32,
    },
}

/// What is to be asked of the database for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Nothing.
    Nothing,
    /// The lock.
    Lock,
    /// To release the lock.
    Unlock,
}

impl Role {
    /// The role after a beat of a session, and what is to be asked. `holds` says whether the
    /// session has the lock, `should` whether this replica should have it.
    pub(super) fn after_beat(
        self,
        session: SessionNumber,
        holds: bool,
        should: bool,
    ) -> (Self, Ask) {
        if !holds {
            let ask = if should { Ask::Lock } else { Ask::Nothing };
            return (Self::Shows, ask);
        }
        let working = match self {
            Self::Holds {
                working,
                session: of,
            }
            | Self::Leaves {
                working,
                session: of,
            } if of == session => working,
            _ => 0,
        };
        match (should, working) {
            (true, _) => (Self::Holds { session, working }, Ask::Nothing),
            (false, 0) => (Self::Leaves { session, working }, Ask::Unlock),
            (false, _) => (Self::Leaves { session, working }, Ask::Nothing),
        }
    }

    /// Begins work; `None` when this replica may not.
    pub(super) fn begin(self) -> Option<Self> {
        match self {
            Self::Holds { session, working } => Some(Self::Holds {
                session,
                working: working + 1,
            }),
            Self::Shows | Self::Leaves { .. } => None,
        }
    }

    /// Ends work that was begun in a session.
    pub(super) fn end(self, of: SessionNumber) -> Self {
        match self {
            Self::Holds { session, working } if session == of => Self::Holds {
                session,
                working: working.saturating_sub(1),
            },
            Self::Leaves { session, working } if session == of => Self::Leaves {
                session,
                working: working.saturating_sub(1),
            },
            other => other,
        }
    }

    /// The session with the lock, if this replica may begin work.
    pub(super) fn held(self) -> Option<SessionNumber> {
        match self {
            Self::Holds { session, .. } => Some(session),
            Self::Shows | Self::Leaves { .. } => None,
        }
    }

    /// Whether work is running.
    #[cfg(test)]
    fn is_working(self) -> bool {
        match self {
            Self::Holds { working, .. } | Self::Leaves { working, .. } => working > 0,
            Self::Shows => false,
        }
    }
}

/// What a replica knows of a track.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackState {
    /// Its row, once it is known.
    pub(super) id: Option<TrackId>,
    /// What this replica does for it.
    pub(super) role: Role,
    /// Whether the database was asked for its newest generation.
    pub(super) is_known: bool,
    /// Its newest generation.
    pub(super) newest: Option<Generation>,
    /// A generation with an earlier date is not current.
    pub(super) not_before: i64,
    /// The generation that clients of this replica see.
    pub(super) shown: Option<GenerationNumber>,
    /// Until when others should follow it.
    pub(super) unfit: Option<Instant>,
    /// Whether clients may be sent here for it: the newest generation of the start is shown, or
    /// waiting for longer brings nothing.
    pub(super) has_begun: bool,
    /// How often damage of stored files was found.
    pub(super) damages: u64,
    /// Why clients do not see the newest generation.
    pub(super) problem: Option<String>,
    /// The failed tries to show it, in a row.
    pub(super) failures: u32,
}

impl TrackState {
    /// Records what the database has. Whether that is new.
    pub(super) fn learn(&mut self, newest: Option<Generation>, not_before: i64) -> bool {
        let seen =
            |one: &Option<Generation>| one.as_ref().map(|one| (one.number, one.is_unnotified));
        let is_new =
            !self.is_known || seen(&self.newest) != seen(&newest) || self.not_before != not_before;
        if is_new {
            self.is_known = true;
            self.newest = newest;
            self.not_before = not_before;
        }
        is_new
    }

    /// The newest generation, unless clients may have seen a later date.
    pub(super) fn current(&self) -> Option<&Generation> {
        let newest = self.newest.as_ref();
        newest.filter(|newest| newest.modified >= self.not_before)
    }

    /// Whether clients see what they should, as far as this replica knows.
    pub(super) fn is_current(&self) -> bool {
        self.is_known && self.shown == self.newest.as_ref().map(|newest| newest.number)
    }

    /// Whether the newest generation has to be published again: clients may have seen a later
    /// date, or a generation that the database has lost.
    pub(super) fn is_outdated(&self) -> bool {
        match &self.newest {
            Some(newest) => newest.modified < self.not_before || Some(newest.number) < self.shown,
            None => self.is_known && self.shown.is_some(),
        }
    }

    /// Whether a new holder may begin its first pass, which compares with what clients see: the
    /// newest generation is shown, is not to be shown, or cannot be.
    pub(super) fn is_settled(&self) -> bool {
        self.is_current() || self.is_outdated() || self.failures >= TRIES
    }

    /// Records whether the newest generation can be shown. Whether that is new.
    pub(super) fn set_problem(&mut self, problem: Option<String>) -> bool {
        self.failures = match problem {
            Some(_) => self.failures.saturating_add(1),
            None => 0,
        };
        let is_new = self.problem != problem;
        self.problem = problem;
        is_new
    }

    /// Whether a revision is the current one of the track: the same digest at its source
    /// brings nothing new. After a restore of the database, a shown one may be lost there.
    pub(super) fn has(&self, id: RevisionId, content: &str) -> bool {
        let current = self.current();
        current.is_some_and(|current| current.revision == id && current.content == content)
    }

    /// The same for a stored revision.
    pub(super) fn has_revision(&self, revision: &Revision) -> bool {
        self.has(revision.id, &revision.content.to_string())
    }

    /// Leaves the track to others for a while.
    pub(super) fn mark_unfit(&mut self, now: Instant) {
        self.unfit = Some(now + UNFIT);
    }

    /// Whether others should follow it.
    pub(super) fn is_unfit(&self, now: Instant) -> bool {
        self.unfit.is_some_and(|until| now < until)
    }

    /// Why clients do not see the newest generation, if they do not.
    pub(super) fn behind(&self) -> Option<Behind<'_>> {
        if self.is_current() {
            return None;
        }
        Some(match &self.problem {
            _ if !self.is_known => Behind::Database,
            Some(problem) => Behind::Failed(problem),
            None => Behind::Fetching,
        })
    }
}

/// Why clients of a replica do not see the newest generation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Behind<'a> {
    /// The database has not answered yet.
    Database,
    /// It is being fetched.
    Fetching,
    /// The last try failed with this error.
    Failed(&'a str),
}

impl fmt::Display for Behind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database => f.write_str("the database of the fleet has not answered yet"),
            Self::Fetching => f.write_str("the newest revision is being fetched"),
            Self::Failed(error) => write!(f, "{error}; it is tried again after a pause"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionNumber = SessionNumber::of_test(1);
    const TWO: SessionNumber = SessionNumber::of_test(2);

    #[test]
    fn a_replica_begins_work_only_while_it_holds_the_lock_and_should() {
        let (shows, ask) = Role::Shows.after_beat(ONE, false, true);
        assert_eq!((shows, ask), (Role::Shows, Ask::Lock));
        assert_eq!(shows.begin(), None);
        let (holds, ask) = shows.after_beat(ONE, true, true);
        assert_eq!(ask, Ask::Nothing);
        let working = holds.begin().unwrap();
        assert!(working.is_working());
        // Another one should follow: the pass ends first.
        let (leaves, ask) = working.after_beat(ONE, true, false);
        assert_eq!(ask, Ask::Nothing);
        assert_eq!(leaves.begin(), None);
        let (leaves, ask) = leaves.end(ONE).after_beat(ONE, true, false);
        assert_eq!(ask, Ask::Unlock);
        assert_eq!(leaves.after_beat(ONE, false, false).0, Role::Shows);
    }

    #[test]
    fn the_work_of_an_ended_session_counts_for_no_other() {
        let working = Role::Holds {
            session: ONE,
            working: 1,
        };
        let (holds, _) = working.after_beat(TWO, true, true);
        assert!(!holds.is_working());
        let begun = holds.begin().unwrap();
        // The pass of the first session ends now.
        assert!(begun.end(ONE).is_working());
    }

    /// All sequences of events up to a length: the model has one lock.
    #[test]
    fn no_sequence_of_events_lets_a_replica_work_without_the_lock() {
        #[derive(Clone, Copy)]
        struct Model {
            role: Role,
            session: SessionNumber,
            locked: bool,
            works: Option<SessionNumber>,
        }
        fn explore(model: Model, left: u32) {
            if let Some(of) = model.works {
                // What is begun in a session ends with it: its publication is refused.
                let may_publish = of == model.session && model.locked;
                let is_current = model.role.is_working();
                assert!(!is_current || may_publish, "{:?}", model.role);
            }
            if left == 0 {
                return;
            }
            for should in [true, false] {
                let mut next = model;
                let (role, ask) = model.role.after_beat(model.session, model.locked, should);
                next.role = role;
                match ask {
                    Ask::Lock => {
                        next.locked = true;
                        next.role = role.after_beat(model.session, true, should).0;
                    }
                    Ask::Unlock => {
                        assert!(!role.is_working());
                        next.locked = false;
                        next.role = Role::Shows;
                    }
                    Ask::Nothing => {}
                }
                explore(next, left - 1);
            }
            // The session ends, and so does the role.
            let ended = Model {
                role: Role::Shows,
                session: if model.session == ONE { TWO } else { ONE },
                locked: false,
                works: model.works,
            };
            explore(ended, left - 1);
            if let (Some(role), None) = (model.role.begin(), model.works) {
                let works = model.role.held();
                explore(
                    Model {
                        role,
                        works,
                        ..model
                    },
                    left - 1,
                );
            }
            if let Some(of) = model.works {
                let role = model.role.end(of);
                let works = None;
                explore(
                    Model {
                        role,
                        works,
                        ..model
                    },
                    left - 1,
                );
            }
        }
        let begin = Model {
            role: Role::Shows,
            session: ONE,
            locked: false,
            works: None,
        };
        explore(begin, 8);
    }

    fn generation(number: i64, modified: i64) -> Generation {
        Generation {
            number: GenerationNumber(number),
            track: TrackId(1),
            revision: RevisionId::from_number(number),
            content: format!("sha256:{number}"),
            modified,
            image: None,
            resolved: None,
            is_unnotified: false,
        }
    }

    #[test]
    fn a_generation_that_is_older_than_another_configuration_showed_is_not_current() {
        let mut state = TrackState::default();
        assert!(matches!(state.behind(), Some(Behind::Database)));
        assert!(state.learn(Some(generation(3, 100)), 0));
        assert!(!state.learn(Some(generation(3, 100)), 0));
        assert!(state.has(RevisionId::from_number(3), "sha256:3"));
        assert_eq!(state.behind(), Some(Behind::Fetching));
        state.shown = Some(GenerationNumber(3));
        assert_eq!(state.behind(), None);
        assert!(state.learn(Some(generation(3, 100)), 101));
        assert!(!state.has(RevisionId::from_number(3), "sha256:3"));
        assert!(state.learn(Some(generation(4, 101)), 101));
        assert!(state.has(RevisionId::from_number(4), "sha256:4"));
    }

    #[test]
    fn a_new_holder_waits_for_the_newest_generation_until_it_failed_three_times() {
        let mut state = TrackState::default();
        state.learn(Some(generation(3, 100)), 0);
        for tries in 0..TRIES {
            assert!(!state.is_settled(), "{tries}");
            assert_eq!(state.set_problem(Some("lost".into())), tries == 0);
        }
        assert!(state.is_settled());
        state.set_problem(None);
        assert!(!state.is_settled());
        state.shown = Some(GenerationNumber(3));
        assert!(state.is_settled());
    }

    #[test]
    fn a_track_is_left_to_others_for_ten_minutes() {
        let now = Instant::now();
        let mut state = TrackState::default();
        state.mark_unfit(now);
        assert!(state.is_unfit(now + UNFIT / 2));
        assert!(!state.is_unfit(now + UNFIT));
    }
}
