//! The types of setting values. Each is parsed from text in the same way in a
//! flag, in the environment and in the file.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};

use crate::ingest::OnInvalid;
use crate::serve::net::tls;
use ::images::reference::split_scheme;

/// The longest duration, so that adding it to a date never fails.
const LONGEST: Duration = Duration::from_hours(24 * 366);
/// The shortest time between two checks of a source.
const SHORTEST_POLL: Duration = Duration::from_millis(100);
/// The longest host name in DNS.
const MAX_HOST: usize = 253;
/// How much of an invalid text an error repeats, in characters.
const MAX_SHOWN: usize = 200;

/// The address of a listener: `IP:PORT`, or `:PORT` for all addresses of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// A duration that may be zero: `20s`, `1m 30s`, `0s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A duration that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

/// The time between two checks of a source, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll(pub Option<Duration>);

/// A registry, as at the start of an image reference: `HOST` or `HOST:PORT`, in
/// lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(pub String);

/// The host under which clients reach a catalog: without a port, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority(pub String);

/// The origin of a page, as browsers send it: `scheme://host[:port]`, or `*` for
/// any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub String);

/// The lowest supported version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// This one.
    Fixed(tls::Version),
    /// That of the TLS profile of the cluster, with its suites.
    Cluster,
}

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A handshake without one fails.
    Required,
    /// A handshake without one succeeds.
    Optional,
}

/// The treatment of a revision with invalid packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnInvalidSetting(pub OnInvalid);

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal; otherwise JSON for `serve`, and text for other commands.
    #[default]
    Auto,
    /// For humans: short and coloured on a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

/// A text that is not a value of its type; the message shows a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {kind}: {problem}")]
pub struct ValueError {
    text: String,
    kind: &'static str,
    problem: String,
}

impl ValueError {
    pub(super) fn new(text: &str, kind: &'static str, problem: impl fmt::Display) -> Self {
        Self {
            text: text.chars().take(MAX_SHOWN).collect(),
            kind,
            problem: problem.to_string(),
        }
    }
}

/// The remedy for a text: what follows its scheme, if that is a value, or else the form
/// of one.
pub(super) fn remedy(text: &str, is_value: impl Fn(&str) -> bool, form: &str) -> String {
    let rest = split_scheme(text).map(|(scheme, rest)| (scheme, rest.trim_end_matches('/')));
    match rest.filter(|(_, rest)| is_value(rest)) {
        Some((scheme, rest)) => format!("drop {scheme}:// and write {rest}"),
        None => form.to_owned(),
    }
}

fn address(text: &str) -> Result<Address, ValueError> {
    let form = "write an IP address and a port, such as 0.0.0.0:8080, [::]:8080 or :8080";
    let at = |ip: Ipv4Addr, port: &str| Some((ip, port.parse().ok()?).into());
    let address = match text.rsplit_once(':') {
        Some(("", port)) => at(Ipv4Addr::UNSPECIFIED, port),
        Some(("localhost", port)) => at(Ipv4Addr::LOCALHOST, port),
        _ => text.parse().ok(),
    };
    let refused = || {
        let problem = match text.split_once("://") {
            Some((_, rest)) => match rest.trim_end_matches('/') {
                rest if rest.contains('/') => format!("it is a URL; {form}"),
                rest => format!("it is a URL; write {rest}"),
            },
            None => form.to_owned(),
        };
        ValueError::new(text, "address", problem)
    };
    address.map(Address).ok_or_else(refused)
}

fn time(text: &str) -> Result<Time, ValueError> {
    let refuse = |problem| ValueError::new(text, "duration", problem);
    match humantime::parse_duration(text) {
        Ok(time) if time <= LONGEST => Ok(Time(time)),
        Ok(_) => Err(refuse("it is longer than a year")),
        Err(_) => Err(refuse(
            "write numbers with units, such as \"30s\", \"10m\" or \"1h 30m\"",
        )),
    }
}

fn timeout(text: &str) -> Result<Timeout, ValueError> {
    let Time(time) = time(text)?;
    if time.is_zero() {
        let problem = "it must be longer than zero";
        return Err(ValueError::new(text, "timeout", problem));
    }
    Ok(Timeout(time))
}

fn poll(text: &str) -> Result<Poll, ValueError> {
    if text == "never" {
        return Ok(Poll(None));
    }
    let Time(time) = time(text)?;
    if time < SHORTEST_POLL {
        let problem = "it must be at least 100ms; write \"never\" to check only once";
        return Err(ValueError::new(text, "time between two checks", problem));
    }
    Ok(Poll(Some(time)))
}

fn host(text: &str) -> Result<Host, ValueError> {
    if has_host_and_port(text) {
        return Ok(Host(text.to_ascii_lowercase()));
    }
    let form = "write HOST or HOST:PORT, without a scheme or a path";
    let problem = remedy(text, has_host_and_port, form);
    Err(ValueError::new(text, "registry", problem))
}

fn authority(text: &str) -> Result<Authority, ValueError> {
    let problem = match split_port(text) {
        (host, None) if is_host(host) => return Ok(Authority(host.to_ascii_lowercase())),
        (host, Some(port)) if is_host(host) && !port.starts_with("//") => {
            "write the host alone; it is found whatever port a client asks at".to_owned()
        }
        _ => remedy(
            text,
            is_host,
            "write a host name, such as catalog.example.com",
        ),
    };
    Err(ValueError::new(text, "authority", problem))
}

fn origin(text: &str) -> Result<Origin, ValueError> {
    let (scheme, place) = text.split_once("://").unwrap_or_default();
    let is_origin = matches!(scheme, "http" | "https") && has_host_and_port(place);
    if text == "*" || is_origin {
        return Ok(Origin(text.to_ascii_lowercase()));
    }
    let problem = "write a scheme and a host, such as https://console.example.com, or \"*\"";
    Err(ValueError::new(text, "origin", problem))
}

/// A type with a few values, each with its text.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// The values, by their texts.
    const TEXTS: &'static [(&'static str, Self)];

    /// The text of this value.
    fn text(self) -> &'static str {
        let mut texts = Self::TEXTS.iter();
        let found = texts.find(|(_, value)| *value == self);
        found.map_or("", |(text, _)| text)
    }
}

impl Choice for TlsVersion {
    const TEXTS: &'static [(&'static str, Self)] = &[
        ("1.2", Self::Fixed(tls::Version::Tls12)),
        ("1.3", Self::Fixed(tls::Version::Tls13)),
        ("cluster", Self::Cluster),
    ];
}

impl Choice for ClientCertificates {
    const TEXTS: &'static [(&'static str, Self)] =
        &[("required", Self::Required), ("optional", Self::Optional)];
}

impl Choice for OnInvalidSetting {
    const TEXTS: &'static [(&'static str, Self)] = &[
        ("quarantine", Self(OnInvalid::Quarantine)),
        ("reject", Self(OnInvalid::Reject)),
    ];
}

impl Choice for LogFormat {
    const TEXTS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("text", Self::Text),
        ("json", Self::Json),
    ];
}

fn tls_version(text: &str) -> Result<TlsVersion, ValueError> {
    choose(text, "version of TLS")
}

fn client_certificates(text: &str) -> Result<ClientCertificates, ValueError> {
    choose(text, "way to ask for certificates")
}

fn on_invalid(text: &str) -> Result<OnInvalidSetting, ValueError> {
    choose(text, "treatment of invalid packages")
}

fn log_format(text: &str) -> Result<LogFormat, ValueError> {
    choose(text, "format of the log")
}

/// The value of a text.
fn choose<T: Choice>(text: &str, kind: &'static str) -> Result<T, ValueError> {
    let mut choices = T::TEXTS.iter();
    if let Some((_, value)) = choices.find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names = T::TEXTS.iter().map(|(name, _)| format!("{name:?}"));
    let names: Vec<String> = names.collect();
    let problem = match names.split_last() {
        Some((last, others)) => format!("write {} or {last}", others.join(", ")),
        None => String::new(),
    };
    Err(ValueError::new(text, kind, problem))
}

/// The host, including the brackets of an IPv6 address, and the text after its
/// colon.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn has_host_and_port(text: &str) -> bool {
    let (host, port) = split_port(text);
    is_host(host) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_host(text: &str) -> bool {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let label = |label: &str| !label.is_empty() && label.bytes().all(inside);
    text.len() <= MAX_HOST && text.split('.').all(label)
}

/// Parses a string of the file like the text of a flag, with the same errors.
pub(super) struct Text<T> {
    pub(super) expected: &'static str,
    pub(super) value: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Reads types with `FromStr` from strings of the file. The second value is what
/// an error says is expected.
macro_rules! deserialized_from_text {
    ($($kind:ty, $expected:literal;)*) => {$(
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
                let value = std::marker::PhantomData;
                text.deserialize_str($crate::config::value::Text { expected: $expected, value })
            }
        }
    )*};
}
pub(super) use deserialized_from_text;

/// Implements `FromStr` with a function, and reads the type from the file.
macro_rules! written_as_text {
    ($($kind:ident: $parse:ident, $expected:literal;)*) => {
        $(impl FromStr for $kind {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                $parse(text)
            }
        })*
        deserialized_from_text! { $($kind, $expected;)* }
    };
}

written_as_text! {
    Address: address, "an address such as \"0.0.0.0:8080\"";
    Time: time, "a duration such as \"30s\"";
    Timeout: timeout, "a duration such as \"30s\"";
    Poll: poll, "a duration such as \"10m\", or \"never\"";
    Host: host, "a registry such as \"localhost:5000\"";
    Authority: authority, "a host name such as \"catalog.example.com\"";
    Origin: origin, "an origin such as \"https://console.example.com\"";
    TlsVersion: tls_version, "\"1.2\", \"1.3\" or \"cluster\"";
    ClientCertificates: client_certificates, "\"required\" or \"optional\"";
    OnInvalidSetting: on_invalid, "\"quarantine\" or \"reject\"";
    LogFormat: log_format, "\"auto\", \"text\" or \"json\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: FromStr<Err = ValueError>>(texts: &[&str]) {
        for text in texts {
            assert!(text.parse::<T>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_for_people() {
        let half = Duration::from_mins(90);
        assert_eq!("1h 30m".parse(), Ok(Time(half)));
        assert_eq!("0s".parse(), Ok(Time(Duration::ZERO)));
        refused::<Time>(&["", "10", "-1s", "never", "400d", "99999999999999999999s"]);
        refused::<Timeout>(&["0s"]);
        let error = "10".parse::<Time>().unwrap_err().to_string();
        let wanted = "\"10\" is no duration: write numbers with units, such as \"30s\"";
        assert!(error.starts_with(wanted), "{error}");
    }

    #[test]
    fn a_source_is_looked_at_now_and_then_or_never() {
        assert_eq!("never".parse(), Ok(Poll(None)));
        let often = Duration::from_millis(200);
        assert_eq!("200ms".parse(), Ok(Poll(Some(often))));
        refused::<Poll>(&["0s", "1ms", "Never", ""]);
    }

    #[test]
    fn a_host_has_no_scheme_and_an_authority_no_port() {
        assert_eq!("LOCALHOST:5000".parse(), Ok(Host("localhost:5000".into())));
        assert_eq!("[::1]:5000".parse(), Ok(Host("[::1]:5000".into())));
        refused::<Host>(&["", "http://a", "a/b", "a:b", "a:", "a:99999", "::1", "a b"]);
        assert_eq!("A.Example".parse(), Ok(Authority("a.example".into())));
        assert_eq!("[::1]".parse(), Ok(Authority("[::1]".into())));
        refused::<Authority>(&["", "a:80", "[::1]:80", "a..b", "https://a", ".a"]);
    }

    #[test]
    fn a_host_that_begins_with_a_scheme_is_refused_with_a_host_that_is_taken() {
        let host = "docker://h.example:5000".parse::<Host>().unwrap_err();
        let said = "drop docker:// and write h.example:5000";
        assert!(host.to_string().ends_with(said), "{host}");
        let authority = "https://h.example/".parse::<Authority>().unwrap_err();
        let said = "drop https:// and write h.example";
        assert!(authority.to_string().ends_with(said), "{authority}");
        let path = "docker://h.example/a".parse::<Host>().unwrap_err();
        assert!(
            path.to_string().contains("write HOST or HOST:PORT"),
            "{path}"
        );
    }

    #[test]
    fn an_origin_has_a_scheme_and_no_path() {
        for good in [
            "*",
            "https://a.example",
            "http://localhost:8080",
            "http://[::1]:1",
        ] {
            assert_eq!(good.parse(), Ok(Origin(good.into())));
        }
        refused::<Origin>(&[
            "",
            "a.example",
            "https://a/",
            "https://a/b",
            "ftp://a",
            "https://",
        ]);
    }

    #[test]
    fn an_address_names_an_ip_and_a_port() {
        assert!("[::]:80".parse::<Address>().is_ok());
        assert_eq!(":80".parse::<Address>(), "0.0.0.0:80".parse());
        let local: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!("localhost:80".parse(), Ok(Address(local)));
        refused::<Address>(&["", ":", ":99999", "80", "0.0.0.0"]);
    }
}
