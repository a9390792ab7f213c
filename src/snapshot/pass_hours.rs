//! How many passes there were in each hour of the last day.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many hours are kept.
const HOURS: usize = 24;

/// The passes of some hours, by the hours since 1970.
#[derive(Clone, Debug, Default)]
pub struct PassHours(VecDeque<(u64, PassHour)>);

/// The passes of an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PassHour {
    /// How many ended.
    pub passes: u32,
    /// How many of them failed, or found a catalog that is too invalid to serve.
    pub failed: u32,
}

impl PassHours {
    /// Counts a pass.
    pub fn add(&mut self, ended: SystemTime, failed: bool) {
        let hour = hour(ended);
        // The clock may have been wrong: hours that are still to come would hide this one.
        while self.0.back().is_some_and(|(last, _)| *last > hour + 1) {
            self.0.pop_back();
        }
        // It may have been set back a little: then the last hour counts.
        if self.0.back().is_none_or(|(last, _)| *last < hour) {
            self.0.push_back((hour, PassHour::default()));
        }
        if let Some((_, last)) = self.0.back_mut() {
            last.passes = last.passes.saturating_add(1);
            last.failed = last.failed.saturating_add(failed.into());
        }
        while self.0.len() > HOURS {
            self.0.pop_front();
        }
    }

    /// The last hours, the current one at the end.
    pub fn until(&self, now: SystemTime) -> [PassHour; HOURS] {
        let mut hours = [PassHour::default(); HOURS];
        let first = (hour(now) + 1).saturating_sub(HOURS as u64);
        for (hour, passes) in &self.0 {
            let at = hour
                .checked_sub(first)
                .and_then(|at| usize::try_from(at).ok());
            if let Some(slot) = at.and_then(|at| hours.get_mut(at)) {
                *slot = *passes;
            }
        }
        hours
    }
}

fn hour(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / Duration::from_hours(1).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_of_a_day_are_counted_by_their_hours() {
        let at = |hours: u64| UNIX_EPOCH + Duration::from_hours(hours) + Duration::from_mins(5);
        let mut passes = PassHours::default();
        for (hour, failed) in [(100, false), (100, true), (102, false), (125, true)] {
            passes.add(at(hour), failed);
        }
        // A clock that was set back a little changes no earlier hour.
        passes.add(at(124), false);
        let hours = passes.until(at(126));
        let told = |at: usize| (hours[at].passes, hours[at].failed);
        assert_eq!(told(HOURS - 2), (2, 1));
        // The hour 102 is out of the last day, and so are the ones before.
        let all: u32 = hours.iter().map(|hour| hour.passes).sum();
        assert_eq!(all, 2);
        assert_eq!(passes.until(at(125))[0].passes, 1);
        // A clock that was far ahead hides nothing once it is right.
        passes.add(at(9_000), false);
        passes.add(at(126), false);
        passes.add(at(127), false);
        let hours = passes.until(at(127));
        let last: Vec<u32> = hours[HOURS - 3..].iter().map(|hour| hour.passes).collect();
        assert_eq!(last, [2, 1, 1]);
        for hour in 200..300 {
            passes.add(at(hour), false);
        }
        assert_eq!(passes.0.len(), HOURS);
    }
}
