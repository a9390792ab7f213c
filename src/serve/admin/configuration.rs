//! The state of the configuration, and times as `/status` has them (RFC 3339).

use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// The state of the configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Configuration {
    /// Its file, if there is one.
    pub file: Option<String>,
    /// When the active configuration was loaded.
    #[serde(serialize_with = "serialize_time")]
    pub taken: SystemTime,
    /// When a later one was refused, if it was.
    #[serde(serialize_with = "serialize_option")]
    pub refused: Option<SystemTime>,
    /// The reason.
    pub error: Option<String>,
    /// Keys whose new values take effect after a restart.
    pub needs_restart: Vec<&'static str>,
}

impl Configuration {
    /// The state of a configuration that has just been loaded from this file.
    pub fn read(file: Option<String>) -> Self {
        Self {
            file,
            taken: SystemTime::now(),
            refused: None,
            error: None,
            needs_restart: Vec::new(),
        }
    }
}

pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn serialize_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    rfc3339(*time).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde calls it with this type")]
pub(super) fn serialize_option<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(rfc3339).serialize(serializer)
}
