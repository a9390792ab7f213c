//! The types of defaults, as a file has them.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use crate::config::value::{Address, Choice, Poll, Time, Timeout};
use crate::webhooks::EventKind;
use ::images::Platform;

/// Numbers below this are written without separators.
const LONG: u64 = 100_000;
/// The units of durations, in milliseconds.
const UNITS: [(u128, &str); 4] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "m"),
    (1_000, "s"),
];

/// A value that can be a default.
pub(crate) trait Shown {
    /// The value as a file has it, without quotes.
    fn shown(&self) -> String;
}

impl<T: Choice> Shown for T {
    fn shown(&self) -> String {
        self.text().to_owned()
    }
}

/// Types that are shown by a function.
macro_rules! shown {
    ($($type:ty: $value:pat => $shown:expr;)*) => {$(
        impl Shown for $type {
            fn shown(&self) -> String {
                let $value = self;
                $shown
            }
        }
    )*};
}

shown! {
    bool: value => value.to_string();
    u32: value => number((*value).into());
    u64: value => number(*value);
    usize: value => number(*value as u64);
    NonZeroU32: value => number(value.get().into());
    NonZeroU64: value => number(value.get());
    NonZeroUsize: value => number(value.get() as u64);
    String: value => value.clone();
    PathBuf: path => path.display().to_string();
    Platform: platform => platform.to_string();
    Address: Address(address) => address.to_string();
    Time: Time(time) => duration(*time);
    Timeout: Timeout(time) => duration(*time);
    Poll: Poll(time) => time.map_or_else(|| "never".to_owned(), duration);
    Vec<EventKind>: kinds => list(kinds);
}

/// A number, with a separator after each three digits if it is long.
fn number(number: u64) -> String {
    let digits = number.to_string();
    if number < LONG {
        return digits;
    }
    let mut shown = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push('_');
        }
        shown.push(digit);
    }
    shown
}

/// A duration in the largest unit that divides it.
fn duration(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let mut units = UNITS.into_iter();
    match units.find(|(unit, _)| milliseconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None => format!("{milliseconds}ms"),
    }
}

fn list(kinds: &[EventKind]) -> String {
    let kinds: Vec<String> = kinds
        .iter()
        .map(|kind| format!("\"{}\"", kind.text()))
        .collect();
    format!("[{}]", kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_shown_as_people_write_them() {
        assert_eq!(number(10_000), "10000");
        assert_eq!(number(100_000), "100_000");
        assert_eq!(number(8 << 30), "8_589_934_592");
        assert_eq!(Time(Duration::from_hours(24)).shown(), "1d");
        assert_eq!(Time(Duration::from_mins(90)).shown(), "90m");
        assert_eq!(Time(Duration::from_millis(1500)).shown(), "1500ms");
        assert_eq!(Poll(None).shown(), "never");
        assert_eq!(list(&[EventKind::Published]), "[\"published\"]");
    }
}
