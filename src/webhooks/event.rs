//! Events and their form as `CloudEvents`, version 1.0.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::answers::changes::{Change, Kind};
use crate::name::CatalogName;
use ::images::digest::Digest;
use fbc::text::display::clip;

/// The most bytes of listed changes in an event. Brokers have to take events of up
/// to 64 KiB.
const MAX_CHANGES: usize = 48 << 10;
/// The most characters of an error in an event.
const MAX_ERROR: usize = 2000;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// A new revision is served.
    Published,
    /// A revision was refused: because of its content, or by the policy.
    Refused,
    /// A pass failed for another reason, such as an unreachable registry.
    Failed,
    /// A pass succeeded after refusals or failures.
    Recovered,
}

/// Something that happened to a catalog.
#[derive(Clone, Debug)]
pub struct Event {
    /// The catalog.
    pub catalog: CatalogName,
    /// The digest that its source was at, if known.
    pub digest: Option<Digest>,
    /// The kind of the event.
    pub data: EventData,
}

/// An event of a catalog.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum EventData {
    /// A new revision is served.
    Published(Publication),
    /// A revision was refused.
    Refused(Failure),
    /// A pass failed.
    Failed(Failure),
    /// A pass succeeded again.
    Recovered(Recovery),
}

/// A new revision.
#[derive(Clone, Debug, Serialize)]
pub struct Publication {
    /// Its number.
    pub revision: String,
    /// The digest of its content.
    pub content: Digest,
    /// The number of its packages.
    pub packages: u64,
    /// The number of its channels.
    pub channels: u64,
    /// The number of its bundles.
    pub bundles: u64,
    /// The number of its packages with errors.
    pub quarantined: u64,
    /// Its changes. `None` for the first revision.
    pub changes: Option<Update>,
}

/// Changes of a revision.
#[derive(Clone, Debug, Serialize)]
pub struct Update {
    /// The revision before.
    pub from: Option<String>,
    /// The number of changes.
    pub total: usize,
    /// The number of changes by kind.
    pub counts: BTreeMap<Kind, usize>,
    /// The first changes.
    pub first: Vec<Change>,
}

/// A pass that published nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The stage that failed.
    pub stage: &'static str,
    /// The reason, as in the metrics.
    pub reason: &'static str,
    /// The error, as in the log.
    pub error: String,
    /// The revision that is still served.
    pub serving: Option<String>,
}

/// A pass that succeeded after others failed.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// The last event before: `refused` or `failed`.
    pub after: &'static str,
    /// The kinds of all events since the last pass that succeeded.
    #[serde(skip)]
    pub told: Vec<EventKind>,
    /// When the first of these passes ended.
    pub since: String,
    /// The revision that is served.
    pub serving: Option<String>,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Published,
        Self::Refused,
        Self::Failed,
        Self::Recovered,
    ];

    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Event {
    /// Its kind.
    pub fn kind(&self) -> EventKind {
        match self.data {
            EventData::Published(_) => EventKind::Published,
            EventData::Refused(_) => EventKind::Refused,
            EventData::Failed(_) => EventKind::Failed,
            EventData::Recovered(_) => EventKind::Recovered,
        }
    }

    /// Whether a webhook with these kinds wants it. A recovery belongs to what came
    /// before: nobody hears of the end of something that they did not hear of.
    pub(super) fn is_one_of(&self, kinds: &[EventKind]) -> bool {
        let wants = |kind| kinds.contains(&kind);
        wants(self.kind())
            && match &self.data {
                EventData::Recovered(recovery) => recovery.told.iter().copied().any(wants),
                _ => true,
            }
    }

    /// Bounds what comes from a catalog or a registry.
    pub(super) fn shorten(&mut self) {
        match &mut self.data {
            EventData::Published(Publication {
                changes: Some(changes),
                ..
            }) => {
                let mut size = 0;
                let fitting = changes.first.iter().take_while(|change| {
                    // A change that cannot be encoded does not fit either.
                    let length = serde_json::to_vec(change).map_or(MAX_CHANGES, |json| json.len());
                    size += length + 1;
                    size <= MAX_CHANGES
                });
                let fitting = fitting.count();
                changes.first.truncate(fitting);
            }
            EventData::Refused(failure) | EventData::Failed(failure) => {
                failure.error = clip(&failure.error, MAX_ERROR);
            }
            EventData::Published(_) | EventData::Recovered(_) => {}
        }
    }
}

/// A `CloudEvent` in the JSON format.
#[derive(Serialize)]
struct CloudEvent<'a, T> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    time: String,
    datacontenttype: &'static str,
    data: T,
}

/// The data of an event, with the catalog first.
#[derive(Serialize)]
struct Data<'a> {
    catalog: &'a CatalogName,
    digest: Option<Digest>,
    #[serde(flatten)]
    by_kind: &'a EventData,
}

/// An identifier that no other event has.
pub(super) fn new_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// The body of an event. `source` is the URL of this almanac, or empty.
pub(super) fn encode(event: &Event, id: &str, source: &str, time: SystemTime) -> Vec<u8> {
    let cloud_event = CloudEvent {
        specversion: "1.0",
        id,
        source: format!("{source}/catalogs/{}", event.catalog),
        kind: format!("almanac.catalog.{}", event.kind()),
        subject: event.digest.map(|digest| digest.to_string()),
        time: date(time),
        datacontenttype: "application/json",
        data: Data {
            catalog: &event.catalog,
            digest: event.digest,
            by_kind: &event.data,
        },
    };
    json(&cloud_event)
}

/// The body of an event that only tries a webhook.
pub(super) fn encode_test(webhook: &str, id: &str, source: &str, time: SystemTime) -> Vec<u8> {
    let source = if source.is_empty() { "/" } else { source };
    json(&CloudEvent {
        specversion: "1.0",
        id,
        source: source.to_owned(),
        kind: "almanac.webhook.test".to_owned(),
        subject: None,
        time: date(time),
        datacontenttype: "application/json",
        data: serde_json::json!({ "webhook": webhook }),
    })
}

/// A time as events and their data have it.
pub(super) fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

fn json(event: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be encoded.
    serde_json::to_vec(event).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(told: &[EventKind]) -> Event {
        Event {
            catalog: "a".parse().unwrap(),
            digest: None,
            data: EventData::Recovered(Recovery {
                after: told[0].as_str(),
                told: told.to_vec(),
                since: date(SystemTime::UNIX_EPOCH),
                serving: None,
            }),
        }
    }

    #[test]
    fn a_recovery_is_for_those_who_heard_of_the_failure() {
        use EventKind::{Failed, Recovered, Refused};
        assert!(recovery(&[Refused]).is_one_of(&[Refused, Recovered]));
        assert!(!recovery(&[Failed]).is_one_of(&[Refused, Recovered]));
        assert!(recovery(&[Failed]).is_one_of(&[Failed, Recovered]));
        assert!(!recovery(&[Failed]).is_one_of(&[Failed]));
        assert!(recovery(&[Refused, Failed]).is_one_of(&[Refused, Recovered]));
        assert!(recovery(&[Refused, Failed]).is_one_of(&[Failed, Recovered]));
    }

    #[test]
    fn an_event_has_the_attributes_of_a_cloud_event() {
        let body = encode(
            &recovery(&[EventKind::Refused]),
            "1f",
            "https://almanac.example.com",
            SystemTime::UNIX_EPOCH,
        );
        let text = String::from_utf8(body).unwrap();
        assert_eq!(
            text,
            r#"{"specversion":"1.0","id":"1f","source":"https://almanac.example.com/catalogs/a","type":"almanac.catalog.recovered","time":"1970-01-01T00:00:00.000Z","datacontenttype":"application/json","data":{"catalog":"a","digest":null,"after":"refused","since":"1970-01-01T00:00:00.000Z","serving":null}}"#
        );
    }

    #[test]
    fn an_event_is_bounded() {
        let change = Change {
            kind: Kind::Deprecated,
            package: "p".repeat(10_000),
            channel: None,
            bundle: None,
            version: None,
            from: None,
            to: None,
            code: None,
        };
        let mut event = recovery(&[EventKind::Refused]);
        event.data = EventData::Published(Publication {
            revision: "1".into(),
            content: Digest::of(b""),
            packages: 0,
            channels: 0,
            bundles: 0,
            quarantined: 0,
            changes: Some(Update {
                from: None,
                total: 9,
                counts: BTreeMap::new(),
                first: vec![change; 9],
            }),
        });
        event.shorten();
        let length = encode(&event, "1", "", SystemTime::UNIX_EPOCH).len();
        assert!((40_000..60_000).contains(&length), "{length}");
        event.data = EventData::Refused(Failure {
            stage: "read",
            reason: "refused",
            error: "é".repeat(MAX_ERROR + 1),
            serving: None,
        });
        event.shorten();
        let length = encode(&event, "1", "", SystemTime::UNIX_EPOCH).len();
        assert!((4000..5000).contains(&length), "{length}");
    }
}
