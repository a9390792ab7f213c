//! The state of the configuration, as `/status` reports it.

use std::time::SystemTime;

/// The state of the configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its file, if there is one.
    pub file: Option<String>,
    /// When the active configuration was loaded.
    pub taken: SystemTime,
    /// When a later one was refused, if it was.
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
