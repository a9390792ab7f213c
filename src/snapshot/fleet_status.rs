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
    /// The catalogs whose current generation it does not serve yet.
    pub behind: Vec<CatalogName>,
    /// Why clients do not see the newest revision yet, by catalog.
    pub waits: BTreeMap<CatalogName, String>,
    /// How often tasks of the fleet have panicked and were started again.
    pub panics: BTreeMap<String, u32>,
    /// Those of them that it has lacked for so long that it should get no clients, while
    /// others have them.
    pub lagging: Vec<CatalogName>,
    /// Whether the others have ever waited for this replica before they show something new.
    pub counted: bool,
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
    /// Why the bucket is not known to be the fleet's, so that this replica follows nothing.
    pub bucket_error: Option<String>,
}

impl FleetStatus {
    /// Why other replicas should get this one's clients. `is_serving` tells whether this one has
    /// content of any catalog.
    pub fn unready(&self, is_serving: bool) -> Option<String> {
        // Others may show meanwhile what this one lacks.
        if !self.counted && self.answered.is_some() {
            let told = "not yet at what the other replicas show";
            return Some(match &*self.behind {
                [] => told.to_owned(),
                behind => format!("{told}: {}", self.named(behind)),
            });
        }
        // A replica without content has nothing to tell clients until it hears of some.
        let is_early = self.heard.elapsed() < FIRST_ANSWER;
        if !self.counted && (is_early || !is_serving) {
            return Some("waiting for the database of the fleet".to_owned());
        }
        if let Some(stale) = self.stale
            && self.heard.elapsed() > stale
        {
            return Some(format!(
                "the database of the fleet has not answered for {}",
                humantime::format_duration(stale)
            ));
        }
        let lagging = self.named(&self.lagging);
        (!lagging.is_empty()).then(|| format!("behind the other replicas: {lagging}"))
    }

    /// Catalogs, each with the reason why it waits.
    fn named(&self, catalogs: &[CatalogName]) -> String {
        let named = catalogs.iter().map(|name| match self.waits.get(name) {
            Some(reason) => format!("{name} ({reason})"),
            None => name.to_string(),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// What works only in part, though the replica is ready.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let bucket = self.bucket_error.as_ref();
        let bucket = bucket.map(|error| format!("the bucket of the fleet: {error}"));
        let behind = self.named(&self.behind);
        let behind = (!behind.is_empty()).then(|| format!("behind the fleet: {behind}"));
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
    fn a_replica_is_unready_while_it_lags_or_hears_nothing() {
        let mut status = FleetStatus {
            name: "a".into(),
            database: "postgres://db/a".into(),
            objects: "s3://abc".into(),
            replicas: 2,
            follows: Vec::new(),
            behind: vec!["x".parse().unwrap()],
            waits: BTreeMap::new(),
            panics: BTreeMap::new(),
            lagging: Vec::new(),
            counted: false,
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
        let early = "not yet at what the other replicas show: x";
        assert_eq!(status.unready(true).as_deref(), Some(early));
        status.counted = true;
        assert_eq!(status.unready(true), None);
        status.lagging = vec!["x".parse().unwrap(), "y".parse().unwrap()];
        let lags = "behind the other replicas: x, y";
        assert_eq!(status.unready(true).as_deref(), Some(lags));
        let reason = "no space is left".to_owned();
        status.waits.insert("y".parse().unwrap(), reason);
        let lags = "behind the other replicas: x, y (no space is left)";
        status.stale = Some(Duration::from_mins(10));
        assert_eq!(status.unready(true).as_deref(), Some(lags));
        let behind = "behind the fleet: x".to_owned();
        assert!(status.problems().eq([&*behind]));
        status.error = Some("the database of the fleet does not answer: x".to_owned());
        status.bucket_error = Some("no answer".to_owned());
        status.panics.insert("beat".to_owned(), 2);
        status.lost = 3;
        let problems = [
            "the database of the fleet does not answer: x".to_owned(),
            "the bucket of the fleet: no answer".to_owned(),
            "the bucket has lost 3 objects".to_owned(),
            behind,
            "panicked and started again: beat 2 times".to_owned(),
        ];
        assert_eq!(status.problems().collect::<Vec<_>>(), problems);
        status.panics.insert("beat".to_owned(), 1);
        status.panics.insert("receive of x".to_owned(), 2);
        let panicked = "panicked and started again: beat, receive of x 2 times";
        assert_eq!(status.panicked().as_deref(), Some(panicked));
        status.stale = Some(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        let silent = "the database of the fleet has not answered for 0s";
        assert_eq!(status.unready(true).as_deref(), Some(silent));
    }
}
