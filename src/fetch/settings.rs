//! Settings of a download.

use std::path::PathBuf;
use std::time::Duration;

/// Limits and trust of a download.
#[derive(Clone, Debug)]
pub struct Settings {
    /// PEM files of certificate authorities to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for the whole download.
    pub timeout: Duration,
    /// The largest response as it is sent, in bytes.
    pub limit: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            timeout: Duration::from_mins(30),
            limit: 2 << 30,
        }
    }
}
