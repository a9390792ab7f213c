//! The settings of one webhook, resolved.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;

use crate::name::CatalogName;
use crate::webhooks::event::{Event, EventKind};
use crate::webhooks::queue::Delivery;
use ::images::is_local_address;
use fbc::text::display::clip;

/// The longest name, in bytes.
const MAX_NAME: usize = 63;
/// The longest URL, in bytes.
const MAX_URL: usize = 2000;
/// The longest URL of this almanac, in bytes.
const MAX_SOURCE: usize = 500;

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name in the log and in metrics.
    pub name: WebhookName,
    /// Where events are sent.
    pub url: ReceiverUrl,
    /// The kinds of events that are sent.
    pub events: Vec<EventKind>,
    /// The catalogs whose events are sent; empty for all.
    pub catalogs: Vec<CatalogName>,
    /// The URL of this almanac, without `/` at its end; may be empty.
    pub source: String,
    /// The files with the secrets that sign events.
    pub secret_files: Vec<PathBuf>,
    /// The file with the bearer token for the receiver.
    pub token_file: Option<PathBuf>,
    /// PEM files of authorities to trust besides those of the system.
    pub ca_files: Vec<PathBuf>,
    /// The longest time of one attempt.
    pub timeout: Duration,
    /// How often an event is sent, at most.
    pub attempts: NonZeroU32,
    /// Whether the receiver may be on this machine, its network link, or the metadata
    /// service of a cloud.
    pub allow_local: bool,
}

/// The name of a webhook: up to 63 lower-case letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookName(String);

/// The URL of a receiver. Its path and query may be secret, so only the host is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceiverUrl(Url);

impl Webhook {
    /// Whether an event is sent to it.
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.includes(&event.catalog) && event.is_one_of(&self.events)
    }

    /// Whether it still wants an event that waited while its settings may have changed.
    pub(super) fn still_wants(&self, delivery: &Delivery) -> bool {
        self.includes(&delivery.catalog) && self.events.contains(&delivery.kind)
    }

    fn includes(&self, catalog: &CatalogName) -> bool {
        self.catalogs.is_empty() || self.catalogs.contains(catalog)
    }
}

/// Whether a text is a URL of this almanac, to which events add a path.
pub fn is_source(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_base = |url: Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    is_plain && text.len() <= MAX_SOURCE && text.parse().is_ok_and(is_base)
}

impl WebhookName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WebhookName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if text.is_empty() || text.len() > MAX_NAME || !text.bytes().all(allowed) {
            let text = clip(text, MAX_NAME);
            return Err(format!(
                "{text:?} is not a name of a webhook: it takes 1 to {MAX_NAME} lower-case letters, \
                 digits and '-'"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for WebhookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ReceiverUrl {
    /// The whole URL.
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    /// Whether it has TLS.
    pub fn has_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether its host is an address of this machine, its link or a cloud's metadata,
    /// or `localhost`.
    /// Other names are checked when they are resolved.
    pub fn is_local(&self) -> bool {
        let host = self.host().to_ascii_lowercase();
        let host = host.trim_end_matches('.');
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(is_local_address)
    }

    /// The host, without the brackets of IPv6.
    pub(super) fn host(&self) -> &str {
        let host = self.0.host_str().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl FromStr for ReceiverUrl {
    type Err = String;

    /// The error does not repeat the text, which may be secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH";
        if text.len() > MAX_URL {
            return Err(format!("the URL is longer than {MAX_URL} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}; {form}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(format!("it is not a URL of a receiver; {form}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL has a login; write token_file instead".to_owned());
        }
        if url.fragment().is_some() {
            return Err("the URL has a part after '#', which is never sent".to_owned());
        }
        Ok(Self(url))
    }
}

/// The scheme, host and port.
impl fmt::Display for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.host_str().unwrap_or_default();
        write!(f, "{}://{host}", self.0.scheme())?;
        match self.0.port() {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_receiver_is_shown_without_its_path() {
        let url: ReceiverUrl = "https://hooks.example.com:8443/T00/secret?key=secret"
            .parse()
            .unwrap();
        assert_eq!(url.to_string(), "https://hooks.example.com:8443");
        assert!(!format!("{url:?}").contains("secret"));
        for bad in [
            "",
            "hooks.example.com",
            "ftp://a/",
            "https://",
            "https://me:secret@a/",
            "https://a/#secret",
            "unix:/run/secret",
        ] {
            let error = bad.parse::<ReceiverUrl>().unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known_in_all_notations() {
        let is_local = |text: &str| text.parse::<ReceiverUrl>().unwrap().is_local();
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest",
            "http://100.100.100.200/latest",
            "http://[fd00:ec2::254]/latest",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:a9fe:a9fe::1]/",
            "http://[::7f00:1]/",
            "http://LOCALHOST./",
            "http://a.localhost/",
        ] {
            assert!(is_local(text), "{text}");
        }
        for text in ["http://10.0.0.1/", "https://[fd00::1]/", "http://a/"] {
            assert!(!is_local(text), "{text}");
        }
    }
}
