//! What faults and clients share: the state of the program, counts, violations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The state of the program, counts and violations.
#[derive(Default)]
pub(crate) struct World {
    state: Mutex<State>,
    over: AtomicBool,
}

#[derive(Default)]
struct State {
    up: Option<Up>,
    /// The number of starts and stops, and of beginnings and ends of floods.
    changes: u64,
    flooded: bool,
    damaged: bool,
    answers: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

/// The program while it runs and is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Up {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    changes: u64,
    flooded: bool,
    damaged: bool,
}

impl World {
    /// The program is ready at these addresses.
    pub(crate) fn up(&self, grpc: SocketAddr, http: SocketAddr) {
        let mut state = self.lock();
        state.changes += 1;
        state.up = Some(Up {
            grpc,
            http,
            changes: 0,
            flooded: false,
            damaged: false,
        });
    }

    /// The program is about to end.
    pub(crate) fn down(&self) {
        let mut state = self.lock();
        state.changes += 1;
        state.up = None;
    }

    /// A flood begins or has ended. During one, clients may be refused.
    pub(crate) fn flood(&self, flooded: bool) {
        let mut state = self.lock();
        state.changes += 1;
        state.flooded = flooded;
    }

    /// A stored file is damaged, or all are whole again. Until the damage is found,
    /// answers may be wrong; then they may be refused.
    pub(crate) fn damage(&self, damaged: bool) {
        let mut state = self.lock();
        state.changes += 1;
        state.damaged = damaged;
    }

    /// The program, when it is ready.
    pub(crate) fn now(&self) -> Option<Up> {
        let state = self.lock();
        state.up.map(|up| Up {
            changes: state.changes,
            flooded: state.flooded,
            damaged: state.damaged,
            ..up
        })
    }

    /// Whether a request that began then must have been answered.
    pub(crate) fn excuses(&self, then: Up) -> bool {
        then.flooded || then.damaged || self.lock().changes != then.changes
    }

    /// Takes a wrong answer to a request that began then.
    pub(crate) fn wrong(&self, then: Up, what: String) {
        if then.damaged || self.lock().damaged {
            self.count("answers of damaged files");
        } else {
            self.violation(what);
        }
    }

    /// No more is asked.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts an answer.
    pub(crate) fn count(&self, kind: &'static str) {
        *self.lock().answers.entry(kind).or_default() += 1;
    }

    pub(crate) fn answers(&self) -> Vec<(&'static str, u64)> {
        let state = self.lock();
        state
            .answers
            .iter()
            .map(|(name, count)| (*name, *count))
            .collect()
    }

    /// Notes what may not happen.
    pub(crate) fn violation(&self, what: String) {
        eprintln!("violation: {what}");
        self.lock().violations.push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere is a violation of its own.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
