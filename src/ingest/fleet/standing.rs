//! Whether a replica should get clients: what it lacks of what the fleet shows, and for
//! how long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::name::CatalogName;

/// A replica that lacks for so long what others show should get no clients.
const LAG: Duration = Duration::from_secs(10);

/// A catalog and what makes its configuration differ from others of its name.
pub(super) type TrackKey = (CatalogName, String);

/// What a replica lacks.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Since when clients do not see what they should.
    behind: BTreeMap<TrackKey, Instant>,
    /// Those of them that it has not opened when the others turn.
    missed: Vec<TrackKey>,
    /// Whether clients have seen the current generation of every catalog at once.
    was_settled: bool,
}

impl Standing {
    /// Notes the tracks whose current generation clients do not see, and those of them that
    /// cannot be shown at its moment.
    pub(super) fn look(
        &mut self,
        unsettled: impl IntoIterator<Item = TrackKey>,
        missed: Vec<TrackKey>,
        now: Instant,
    ) {
        let before = std::mem::take(&mut self.behind);
        let since = |key: TrackKey| {
            let since = before.get(&key).copied().unwrap_or(now);
            (key, since)
        };
        self.behind = unsettled.into_iter().map(since).collect();
        self.was_settled |= self.behind.is_empty();
        self.missed = missed;
    }

    /// Whether it serves what the fleet shows, so that the others wait for it: it has
    /// shown the current generation of every catalog once, and does not lag.
    pub(super) fn is_whole(&self, now: Instant) -> bool {
        self.was_settled && self.missed.is_empty() && !self.lags(now).any(|lags| lags)
    }

    /// Whether the others count on this replica from now on: they know that it is whole,
    /// and it still lacks nothing, or nobody is, and waiting for longer brings nothing.
    pub(super) fn is_counted(&self, told: bool, has_others: bool, now: Instant) -> bool {
        if self.behind.is_empty() {
            told
        } else {
            !has_others && self.lags(now).all(|lags| lags)
        }
    }

    /// The catalogs that it lacks.
    pub(super) fn behind(&self) -> Vec<CatalogName> {
        self.behind.keys().map(|(name, _)| name.clone()).collect()
    }

    /// Those of them that others should get its clients for: it has lacked them for so long, or
    /// the others show at a moment what it has not opened.
    pub(super) fn lagging(&self, now: Instant) -> Vec<CatalogName> {
        let lagging = self.behind.keys().zip(self.lags(now));
        let lagging = lagging.filter(|(key, lags)| *lags || self.missed.contains(key));
        lagging.map(|((name, _), _)| name.clone()).collect()
    }

    fn lags(&self, now: Instant) -> impl Iterator<Item = bool> {
        let since = self.behind.values();
        since.map(move |since| now.saturating_duration_since(*since) >= LAG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<TrackKey> {
        let key = |name: &&str| (name.parse().unwrap(), String::new());
        names.iter().map(key).collect()
    }

    #[test]
    fn a_replica_is_whole_once_it_has_shown_everything_until_it_lags() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut standing = Standing::default();
        standing.look(keys(&["a", "b"]), Vec::new(), at(0));
        assert!(!standing.is_whole(at(0)));
        standing.look(keys(&[]), Vec::new(), at(1));
        assert!(standing.is_whole(at(1)));
        standing.look(keys(&["a"]), Vec::new(), at(2));
        assert!(standing.is_whole(at(11)) && standing.lagging(at(11)).is_empty());
        standing.look(keys(&["a", "b"]), Vec::new(), at(12));
        assert!(!standing.is_whole(at(12)));
        assert_eq!(standing.lagging(at(12)), ["a".parse().unwrap()]);
        assert_eq!(standing.behind().len(), 2);
    }

    #[test]
    fn a_catalog_that_nobody_can_fetch_keeps_no_replica_from_its_clients() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut standing = Standing::default();
        standing.look(keys(&["a", "b"]), Vec::new(), at(0));
        standing.look(keys(&["b"]), Vec::new(), at(5));
        // Others may have it.
        assert!(!standing.is_counted(false, true, at(60)));
        // It may still come.
        assert!(!standing.is_counted(false, false, at(9)));
        assert!(standing.is_counted(false, false, at(10)));
    }

    #[test]
    fn a_replica_is_counted_once_the_others_know_and_it_still_lacks_nothing() {
        let now = Instant::now();
        let mut standing = Standing::default();
        standing.look(keys(&[]), Vec::new(), now);
        assert!(!standing.is_counted(false, false, now));
        assert!(standing.is_counted(true, true, now));
        // The beat that told them brought something new.
        standing.look(keys(&["a"]), Vec::new(), now);
        assert!(!standing.is_counted(true, true, now));
    }

    #[test]
    fn a_replica_lags_at_once_when_the_others_turn_to_what_it_has_not_opened() {
        let now = Instant::now();
        let mut standing = Standing::default();
        standing.look(keys(&[]), Vec::new(), now);
        assert!(standing.is_whole(now));
        standing.look(keys(&["a", "b"]), keys(&["b"]), now);
        assert!(!standing.is_whole(now));
        assert_eq!(standing.lagging(now), ["b".parse().unwrap()]);
        // Its start has clients only once it lacks nothing, or nobody has it.
        assert!(!standing.is_counted(false, false, now));
    }
}
