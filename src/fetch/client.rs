//! The HTTP client and its settings.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Client, Url};

use crate::error_chain::error_chain;
use crate::fetch::error::FetchError;

/// The largest PEM file, in bytes.
const MAX_CERTIFICATES: u64 = 8 << 20;

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

/// A client for one request.
pub(super) fn client(settings: &Settings, direct: bool) -> Result<Client, FetchError> {
    // Fails if the program has installed a provider: then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
        // A redirect is reported, so that the user sees the other URL.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(settings.connect_timeout)
        .read_timeout(settings.idle_timeout)
        .tls_certs_merge(certificates(settings)?);
    if direct {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| FetchError::Setup(error_chain(&error)))
}

fn certificates(settings: &Settings) -> Result<Vec<reqwest::Certificate>, FetchError> {
    let mut all = Vec::new();
    for path in &settings.ca_files {
        let failed = |problem: String| {
            FetchError::Setup(format!("certificates {}: {problem}", path.display()))
        };
        let size = std::fs::metadata(path)
            .map_err(|error| failed(error.to_string()))?
            .len();
        if size > MAX_CERTIFICATES {
            return Err(failed(format!("larger than {MAX_CERTIFICATES} bytes")));
        }
        let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let found = reqwest::Certificate::from_pem_bundle(&pem)
            .map_err(|error| failed(error_chain(&error)))?;
        all.extend(found);
    }
    Ok(all)
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("");
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}
