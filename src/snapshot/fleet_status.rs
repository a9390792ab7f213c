//! What a replica of a fleet tells of itself and of the others.

use std::time::{Duration, Instant, SystemTime};

use crate::name::CatalogName;

/// How long a replica waits for the first answer of the database before it serves what
/// is stored.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

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
}

impl FleetStatus {
    /// Why other replicas should get this one's clients.
    pub fn unready(&self) -> Option<String> {
        // Others may show meanwhile what this one lacks.
        if !self.counted && self.answered.is_some() {
            return Some("not yet at what the other replicas show".to_owned());
        }
        if !self.counted && self.heard.elapsed() < FIRST_ANSWER {
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
        let names: Vec<&str> = self.lagging.iter().map(CatalogName::as_str).collect();
        (!names.is_empty()).then(|| format!("behind the other replicas: {}", names.join(", ")))
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
            lagging: Vec::new(),
            counted: false,
            answered: None,
            heard: Instant::now(),
            stale: None,
            error: None,
        };
        let waits = "waiting for the database of the fleet";
        assert_eq!(status.unready().as_deref(), Some(waits));
        status.answered = Some(SystemTime::now());
        let early = "not yet at what the other replicas show";
        assert_eq!(status.unready().as_deref(), Some(early));
        status.counted = true;
        assert_eq!(status.unready(), None);
        status.lagging = vec!["x".parse().unwrap(), "y".parse().unwrap()];
        let lags = "behind the other replicas: x, y";
        assert_eq!(status.unready().as_deref(), Some(lags));
        status.stale = Some(Duration::from_mins(10));
        assert_eq!(status.unready().as_deref(), Some(lags));
        status.stale = Some(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        let silent = "the database of the fleet has not answered for 0s";
        assert_eq!(status.unready().as_deref(), Some(silent));
    }
}
