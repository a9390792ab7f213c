//! The settings of a webhook, as a table of the file.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::config::declaration::settings;
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

settings! {
    /// A webhook.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct WebhookSettings {
        /// Name in log and metrics: lowercase letters, digits, `-`, up to 63.
        pub name: WebhookName, otherwise "required", example "chat";
        /// `http` or `https`, without user and password.
        pub url: ReceiverUrl, otherwise "required", example "https://hooks.example.com/almanac";
        /// [Kinds of events](webhooks.md#events); `failed` is the fourth.
        #[serde(default)]
        pub events: Option<Vec<EventKind>> = EVENTS.to_vec();
        /// Names of catalogs.
        #[serde(default)]
        pub catalogs: Option<Vec<CatalogName>>, otherwise "all", example r#"["catalog"]"#;
        /// URL of this almanac, with which each event's `source` begins.
        #[serde(default)]
        pub source: String, example "https://almanac.example.com";
        /// [Secrets](webhooks.md#signatures); each signs every event.
        #[serde(default)]
        pub secret_files: Vec<PathBuf>, example r#"["/etc/almanac/webhooks/chat.secret"]"#;
        /// Bearer token; only with `https` or a receiver on this machine.
        #[serde(default)]
        pub token_file: Option<PathBuf>, example "/etc/almanac/webhooks/chat.token";
        /// PEM files of authorities, besides the system's.
        #[serde(default)]
        pub ca_files: Vec<PathBuf>;
        /// Limit of one attempt.
        #[serde(default)]
        pub timeout: Option<Timeout> = Timeout(TIMEOUT);
        /// Up to 300; 10 take about eight minutes.
        #[serde(default)]
        pub attempts: Option<u32> = ATTEMPTS;
        /// Allows loopback, link-local and metadata addresses.
        #[serde(default)]
        pub allow_local: bool;
    }
}

impl WebhookSettings {
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
        let attempts = NonZeroU32::new(self.attempts());
        let Some(attempts) = attempts.filter(|attempts| attempts.get() <= MAX_ATTEMPTS) else {
            return refused("attempts is a number from 1 to 300");
        };
        let events = self.events();
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
            timeout: self.timeout().0,
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
        for (bad, reported) in [
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
            assert!(error.contains(reported), "{bad}: {error}");
        }
    }
}
