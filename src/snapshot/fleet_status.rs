//! What a replica of a fleet tells of itself and of the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use crate::name::CatalogName;

/// How long a replica waits for the first answer of the database before it serves what
/// is stored.
pub const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The state of a replica in its fleet.
#[derive(Clone, Debug)]
pub struct FleetStatus {
    /// Its name.
    pub name: String,
    /// The host and the name of the database.
    pub database: String,
    /// The bucket and the prefix.
    pub objects: String,
    /// How many replicas live, this one too.
    pub replicas: usize,
    /// The catalogs that it follows for all.
    pub follows: Vec<CatalogName>,
    /// Why clients do not see the newest revision yet, by catalog.
    pub waits: BTreeMap<CatalogName, String>,
    /// How often tasks of the fleet have panicked and were started again.
    pub panics: BTreeMap<String, u32>,
    /// Whether this start has shown the newest revision of every catalog once, or could not.
    pub has_started: bool,
    /// When the database last answered.
    pub answered: Option<SystemTime>,
    /// The same on this machine's clock; before, when this replica started.
    pub heard: Instant,
    /// After this time without an answer, the replica should get no clients.
    pub stale: Option<Duration>,
    /// Why it does not answer now.
    pub error: Option<String>,
    /// How many objects the bucket has lost, and nobody has uploaded again.
    pub lost: u64,
    /// Why the bucket cannot be used, or is not known to be the fleet's.
    pub bucket_error: Option<String>,
}

impl FleetStatus {
    /// Why other replicas should get this one's clients. `is_serving` says whether this one has
    /// content of any catalog.
    pub fn unready(&self, is_serving: bool) -> Option<String> {
        let is_early = self.heard.elapsed() < FIRST_ANSWER;
        if self.answered.is_none() && (is_early || !is_serving) {
            return Some("waiting for the database of the fleet".to_owned());
        }
        if self.answered.is_some() && !self.has_started {
            return Some(format!(
                "not yet at what the fleet shows: {}",
                self.behind()
            ));
        }
        let stale = self.stale.filter(|stale| self.heard.elapsed() > *stale)?;
        Some(format!(
            "the database of the fleet has not answered for {}",
            humantime::format_duration(stale)
        ))
    }

    /// The catalogs that it lacks, each with the reason.
    fn behind(&self) -> String {
        let behind = self.waits.iter();
        let behind = behind.map(|(name, reason)| format!("{name} ({reason})"));
        behind.collect::<Vec<_>>().join(", ")
    }

    /// What works only in part, though the replica is ready.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let bucket = self.bucket_error.as_ref();
        let bucket = bucket.map(|error| format!("the bucket of the fleet: {error}"));
        let behind =
            (!self.waits.is_empty()).then(|| format!("behind the fleet: {}", self.behind()));
        let lost = match self.lost {
            0 => None,
            1 => Some("the bucket has lost an object".to_owned()),
            lost => Some(format!("the bucket has lost {lost} objects")),
        };
        let found = [self.error.clone(), bucket, lost, behind, self.panicked()];
        found.into_iter().flatten()
    }

    /// The tasks that panicked, if some did: a defect of almanac.
    fn panicked(&self) -> Option<String> {
        let tasks = self.panics.iter().map(|(task, times)| match times {
            1 => task.clone(),
            times => format!("{task} {times} times"),
        });
        let tasks: Vec<String> = tasks.collect();
        (!tasks.is_empty()).then(|| format!("panicked and started again: {}", tasks.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_unready_until_the_database_has_answered_or_is_away() {
        let mut status = FleetStatus {
            name: "a".into(),
            database: "postgres://db/a".into(),
            objects: "s3://abc".into(),
            replicas: 2,
            follows: Vec::new(),
            waits: BTreeMap::new(),
            panics: BTreeMap::new(),
            has_started: false,
            answered: None,
            heard: Instant::now(),
            stale: None,
            error: None,
            lost: 0,
            bucket_error: None,
        };
        let waits = "waiting for the database of the fleet";
        assert_eq!(status.unready(true).as_deref(), Some(waits));
        // After ten seconds, what is stored is served, if something is.
        status.heard = Instant::now().checked_sub(FIRST_ANSWER).unwrap();
        assert_eq!(status.unready(true), None);
        assert_eq!(status.unready(false).as_deref(), Some(waits));
        status.heard = Instant::now();
        status.answered = Some(SystemTime::now());
        let (name, reason) = ("y".parse().unwrap(), "fetching".to_owned());
        status.waits.insert(name, reason);
        let early = "not yet at what the fleet shows: y (fetching)";
        assert_eq!(status.unready(true).as_deref(), Some(early));
        status.has_started = true;
        status.waits.clear();
        assert_eq!(status.unready(false), None);
        status.stale = Some(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        let silent = "the database of the fleet has not answered for 0s";
        assert_eq!(status.unready(true).as_deref(), Some(silent));
        status.error = Some("the database of the fleet does not answer: x".to_owned());
        status.bucket_error = Some("no answer".to_owned());
        let (name, reason) = ("x".parse().unwrap(), "no space is left".to_owned());
        status.waits.insert(name, reason);
        status.panics.insert("beat".to_owned(), 1);
        status.panics.insert("receive of x".to_owned(), 2);
        status.lost = 3;
        let problems = [
            "the database of the fleet does not answer: x",
            "the bucket of the fleet: no answer",
            "the bucket has lost 3 objects",
            "behind the fleet: x (no space is left)",
            "panicked and started again: beat, receive of x 2 times",
        ];
        assert_eq!(status.problems().collect::<Vec<_>>(), problems);
    }
}
