//! Flags and values in the syntax of Go programs.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

/// Units of a duration, in nanoseconds. A longer name precedes its own prefix.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];
/// The longest duration.
const LONGEST: Duration = Duration::from_hours(24);

/// Prints a duration as Go does.
pub(crate) struct GoDuration(pub(crate) Duration);

/// A header: `NAME: VALUE`.
#[derive(Clone, Debug)]
pub(crate) struct Header(pub(crate) HeaderName, pub(crate) HeaderValue);

/// Gives each flag two dashes, since flags of Go programs may have one.
pub(crate) fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let add = |argument: OsString| match argument.to_str() {
        Some("-" | "-h") => argument,
        Some(text) if text.starts_with('-') && !text.starts_with("--") => format!("-{text}").into(),
        _ => argument,
    };
    arguments.into_iter().map(add).collect()
}

/// Parses a boolean in any form that Go accepts.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".into()),
    }
}

/// Parses a duration such as `1s`, `1.5s` or `1m30s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || "write a time such as 500ms, 1s or 1m30s".to_owned();
    let mut rest = text;
    let mut total = 0.0;
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(refused());
    }
    while !rest.is_empty() {
        let end = rest
            .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
            .ok_or_else(refused)?;
        let number: f64 = rest[..end].parse().map_err(|_| refused())?;
        rest = &rest[end..];
        let (unit, length) = UNITS
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))
            .ok_or_else(refused)?;
        rest = &rest[unit.len()..];
        total += number * length as f64;
    }
    match Duration::try_from_secs_f64(total / 1e9) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err("it is longer than a day".into()),
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = humantime::format_duration(self.0).to_string();
        f.write_str(&text.replace(' ', ""))
    }
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || "write NAME: VALUE".to_owned();
        let (name, value) = text.split_once(':').ok_or_else(refused)?;
        let name = name.trim().parse().map_err(|_| refused())?;
        let value = HeaderValue::from_str(value.trim()).map_err(|_| refused())?;
        Ok(Self(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_may_have_one_dash_or_two() {
        let words = [
            "probe", "-addr=:1", "--tls", "-v", "-service", "a-b", "-", "--",
        ];
        let words = with_two_dashes(words.map(OsString::from));
        let wanted = [
            "probe",
            "--addr=:1",
            "--tls",
            "--v",
            "--service",
            "a-b",
            "-",
            "--",
        ];
        assert_eq!(words, wanted.map(OsString::from));
    }

    #[test]
    fn a_boolean_has_the_forms_of_go() {
        for (text, wanted) in [("1", Ok(true)), ("F", Ok(false)), ("True", Ok(true))] {
            assert_eq!(parse_bool(text), wanted);
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(parse_bool(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, milliseconds) in [
            ("1s", 1000),
            ("250ms", 250),
            ("1.5s", 1500),
            ("1m30s", 90_000),
            ("1000us", 1),
            ("1000\u{b5}s", 1),
            ("0", 0),
            ("24h", 24 * 3_600_000),
        ] {
            let wanted = Duration::from_millis(milliseconds);
            assert_eq!(parse_duration(text), Ok(wanted), "{text}");
        }
        for text in [
            "", "1", "s", "1 s", "-1s", "1d", "1..5s", ".s", "25h", "1e9s", "inf", "0s0",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            GoDuration(Duration::from_millis(90_250)).to_string(),
            "1m30s250ms"
        );
    }

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let Header(name, value) = "X-A: b: c".parse().unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("x-a", &b"b: c"[..]));
        for text in ["", "a", ": b", "a b: c", "a: b\nc"] {
            assert!(text.parse::<Header>().is_err(), "{text}");
        }
    }
}
