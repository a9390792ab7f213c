//! The types of values that settings have, with their JSON schemas.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use super::input::typed;
use super::setting::{Setting, plain_setting};
use crate::config::cluster_names::{Namespace, Selector};
use crate::config::template::{ImageTemplate, KubeVersion, WrittenSource};
use crate::config::value::{
    Address, Authority, Choice, ClientCertificates, Host, LogFormat, OnInvalidSetting, Origin,
    Poll, Time, Timeout, TlsVersion,
};
use crate::ingest::{LayoutSource, Mirror, Source};
use crate::kubernetes::{ClusterCatalogs, SecretName};
use crate::name::CatalogName;
use crate::serve::oci::Flow;
use crate::webhooks::{EventKind, ReceiverUrl, WebhookName};
use ::images::Platform;

/// A number with a unit, as `humantime` reads them.
#[cfg(test)]
const DURATION: &str = " *[0-9]+ *(nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds|second|secs|sec|s|\
    minutes|minute|mins|min|m|hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w|\
    months|month|M|years|year|yrs|yr|y)";
#[cfg(test)]
const PLATFORM: &str = "^[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64})?$";

plain_setting! {
    String: { "type": "string" };
    u32: { "type": "integer", "minimum": 0 };
    u64: { "type": "integer", "minimum": 0 };
    usize: { "type": "integer", "minimum": 0 };
    NonZeroU32: { "type": "integer", "minimum": 1 };
    NonZeroU64: { "type": "integer", "minimum": 1 };
    NonZeroUsize: { "type": "integer", "minimum": 1 };
    Time: { "type": "string", "pattern": format!("^{DURATION}({DURATION})* *$") };
    Timeout: { "type": "string", "pattern": format!("^{DURATION}({DURATION})* *$") };
    Poll: { "type": "string", "pattern": format!("^never$|^{DURATION}({DURATION})* *$") };
    Address: { "type": "string", "pattern": ":[0-9]+$" };
    Host: { "type": "string" };
    Authority: { "type": "string" };
    Origin: { "type": "string" };
    Platform: { "type": "string", "pattern": PLATFORM };
    KubeVersion: { "type": "string" };
    ImageTemplate: { "type": "string" };
    CatalogName: { "type": "string" };
    WebhookName: { "type": "string" };
    ReceiverUrl: { "type": "string" };
    Selector: { "type": "string" };
    Namespace: {
        "type": "string",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
    };
    SecretName: { "type": "string", "pattern": "^[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*$" };
}

typed! {
    String, NonZeroUsize, Address, Time, Poll, Host, OnInvalidSetting, LogFormat, Platform,
    KubeVersion, CatalogName, Namespace,
}

impl Setting for PathBuf {
    fn visit_paths(&mut self, visit: &mut dyn FnMut(&mut PathBuf)) {
        visit(self);
    }

    #[cfg(test)]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "minLength": 1 })
    }
}

impl Setting for WrittenSource {
    #[cfg(test)]
    const ABSENT: &'static str = "–";

    fn visit_paths(&mut self, visit: &mut dyn FnMut(&mut PathBuf)) {
        if let Self::Plain(Source::File(path) | Source::Layout(LayoutSource { path, .. })) = self {
            visit(path);
        }
    }

    #[cfg(test)]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string" })
    }
}

impl Choice for Mirror {
    const TEXTS: &'static [(&'static str, Self)] = &[("slim", Self::Slim), ("full", Self::Full)];
}

impl Choice for Flow {
    const TEXTS: &'static [(&'static str, Self)] =
        &[("basic", Self::Basic), ("token", Self::Token)];
}

impl Choice for ClusterCatalogs {
    const TEXTS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("follow", Self::Follow),
        ("own", Self::Own),
    ];
}

impl Choice for EventKind {
    const TEXTS: &'static [(&'static str, Self)] = &[
        ("published", Self::Published),
        ("refused", Self::Refused),
        ("failed", Self::Failed),
        ("recovered", Self::Recovered),
    ];
}

/// Types with a few values.
macro_rules! choices {
    ($($type:ty),* $(,)?) => {$(
        impl Setting for $type {
            #[cfg(test)]
            fn schema() -> serde_json::Value {
                let texts = <$type as Choice>::TEXTS.iter();
                serde_json::json!({ "enum": texts.map(|(text, _)| *text).collect::<Vec<_>>() })
            }
        }
    )*};
}
choices!(
    ClientCertificates,
    ClusterCatalogs,
    EventKind,
    Flow,
    LogFormat,
    Mirror,
    OnInvalidSetting,
    TlsVersion,
);

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Deserialize;
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    fn are_read<T: Choice + Debug + Deserialize<'static>>() {
        for (text, value) in T::TEXTS {
            let text: StrDeserializer<'static, Error> = text.into_deserializer();
            assert_eq!(T::deserialize(text), Ok(*value));
        }
    }

    #[test]
    fn the_texts_of_choices_are_those_of_files() {
        are_read::<Mirror>();
        are_read::<Flow>();
        are_read::<ClusterCatalogs>();
        are_read::<EventKind>();
    }
}
