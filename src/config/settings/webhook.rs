//! The settings of a webhook, as a table of the file.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::config::error::ConfigError;
use crate::config::value::{Timeout, deserialized_from_text};
use crate::name::CatalogName;
use crate::webhooks::{EventKind, ReceiverUrl, Webhook, WebhookName, is_source};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Together with the waits between them, these take some eight minutes.
const ATTEMPTS: u32 = 10;
/// The most attempts: more than two days.
const MAX_ATTEMPTS: u32 = 300;
const EVENTS: [EventKind; 3] = [
    EventKind::Published,
    EventKind::Refused,
    EventKind::Recovered,
];

/// A webhook.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Its name.
    pub name: WebhookName,
    /// The URL of the receiver.
    pub url: ReceiverUrl,
    /// The kinds of events.
    #[serde(default)]
    pub events: Option<Vec<EventKind>>,
    /// The catalogs.
    #[serde(default)]
    pub catalogs: Option<Vec<CatalogName>>,
    /// The URL of this almanac.
    #[serde(default)]
    pub source: String,
    /// Files with secrets.
    #[serde(default)]
    pub secret_files: Vec<PathBuf>,
    /// The file with the bearer token for the receiver.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// PEM files of authorities.
    #[serde(default)]
    pub ca_files: Vec<PathBuf>,
    /// The longest time of one attempt.
    #[serde(default)]
    pub timeout: Option<Timeout>,
    /// The most attempts.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// Whether the receiver may be on this machine.
    #[serde(default)]
    pub allow_local: bool,
}

impl WebhookSettings {
    /// Its files.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.secret_files.iter_mut().chain(&mut self.token_file);
        files.chain(&mut self.ca_files)
    }

    fn resolve(&self) -> Result<Webhook, ConfigError> {
        let refused = |problem: &str| {
            Err(ConfigError::Webhook {
                name: self.name.clone(),
                problem: problem.to_owned(),
            })
        };
        if self.url.is_local() && !self.allow_local {
            return refused(
                "url leads to this machine, its network link or the metadata of a cloud; \
                 allow_local = true allows that",
            );
        }
        if self.token_file.is_some() && !self.url.has_tls() && !self.url.is_local() {
            return refused("token_file needs a url with https");
        }
        let source = self.source.trim_end_matches('/');
        if !source.is_empty() && !is_source(source) {
            return refused(
                "source is the http or https URL of this almanac without a query, such as \
                 \"https://almanac.example.com\", of at most 500 ASCII characters",
            );
        }
        if self.catalogs.as_ref().is_some_and(Vec::is_empty) {
            return refused("catalogs is empty: leave it out for all catalogs");
        }
        let attempts = NonZeroU32::new(self.attempts.unwrap_or(ATTEMPTS));
        let Some(attempts) = attempts.filter(|attempts| attempts.get() <= MAX_ATTEMPTS) else {
            return refused("attempts is a number from 1 to 300");
        };
        let events = self.events.clone().unwrap_or_else(|| EVENTS.to_vec());
        if events.is_empty() {
            return refused("events is empty");
        }
        if events == [EventKind::Recovered] {
            return refused("events needs refused or failed beside recovered");
        }
        Ok(Webhook {
            name: self.name.clone(),
            url: self.url.clone(),
            events,
            catalogs: self.catalogs.clone().unwrap_or_default(),
            source: source.to_owned(),
            secret_files: self.secret_files.clone(),
            token_file: self.token_file.clone(),
            ca_files: self.ca_files.clone(),
            timeout: self.timeout.map_or(TIMEOUT, |Timeout(time)| time),
            attempts,
            allow_local: self.allow_local,
        })
    }
}

/// The webhooks, with unique names.
pub(crate) fn resolve(webhooks: &[WebhookSettings]) -> Result<Vec<Webhook>, ConfigError> {
    let mut resolved: Vec<Webhook> = Vec::with_capacity(webhooks.len());
    for settings in webhooks {
        let webhook = settings.resolve()?;
        if resolved.iter().any(|other| other.name == webhook.name) {
            return Err(ConfigError::Webhook {
                name: webhook.name,
                problem: "another webhook has this name".to_owned(),
            });
        }
        resolved.push(webhook);
    }
    Ok(resolved)
}

deserialized_from_text! {
    WebhookName, "a name such as \"chat\"";
    ReceiverUrl, "a URL such as \"https://hooks.example.com/almanac\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_would_surprise_are_refused() {
        let whole = |more: &str| {
            let text = format!("name = 'a'\nurl = 'https://example.com/a'\n{more}");
            toml::from_str::<WebhookSettings>(&text).unwrap().resolve()
        };
        for good in [
            "",
            "source = ''",
            "source = 'https://almanac.example.com/'",
            "source = 'http://almanac:8080/below'",
            "catalogs = ['a']",
        ] {
            assert!(whole(good).is_ok(), "{good}");
        }
        for (bad, told) in [
            ("catalogs = []", "leave it out for all catalogs"),
            ("events = []", "events is empty"),
            ("source = 'almanac.example.com'", "source is the http"),
            ("source = 'https://'", "source is the http"),
            ("source = 'ftp://almanac.example.com'", "source is the http"),
            (
                "source = 'https://almanac.example.com/?a=b'",
                "source is the http",
            ),
            (
                "source = 'https://almanac.example.com/a b'",
                "source is the http",
            ),
            ("attempts = 301", "attempts is a number from 1 to 300"),
            ("attempts = 0", "attempts is a number from 1 to 300"),
        ] {
            let error = whole(bad).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
