//! How to talk to registries.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use crate::mirrors::MirrorFiles;
use crate::policy::PolicyFiles;

/// How to talk to registries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The `User-Agent` of all requests. Its first word, without a version, is
    /// the client id in requests for tokens.
    pub user_agent: String,
    /// Registries (`host` or `host:port`) that use plain http. Loopback hosts
    /// do so too, unless they have certificates or the files about mirrors
    /// call them insecure.
    pub insecure: Vec<String>,
    /// Whether every registry may show any certificate, or none: then plain http is
    /// used.
    pub any_certificate: bool,
    /// Files with credentials (`auth.json` of podman, `config.json` of
    /// Docker), in order of precedence. They are read when a registry asks for
    /// credentials. A missing one is an error. The files about mirrors can name
    /// credential helpers besides or instead.
    pub auth_files: Vec<PathBuf>,
    /// Further such files, with lower precedence. They may be missing.
    pub usual_auth_files: Vec<PathBuf>,
    /// PEM files with certificate authorities, which are trusted besides the
    /// system's. They are read at the start, and again when they change.
    pub ca_files: Vec<PathBuf>,
    /// Folders such as `/etc/containers/certs.d`, with one folder for each
    /// registry, `HOST` or `HOST:PORT`. The first existing one applies.
    pub certificate_folders: Vec<PathBuf>,
    /// The files about mirrors. They are read again for each route.
    pub mirrors: MirrorFiles,
    /// The files of the policy. They are read again for each route.
    pub policy: PolicyFiles,
    /// The scopes, in the form of the policy, in which a bundle of sigstore
    /// needs no name of the image. All images that one key signs can then
    /// stand in for each other.
    pub bundle_scopes: Vec<String>,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for a manifest, from the first request (including the
    /// one for a token) to the last byte.
    pub manifest_timeout: Duration,
    /// The longest time for a blob, from its first byte, including all
    /// resumptions.
    pub blob_timeout: Duration,
    /// The most attempts at a request without any progress.
    pub attempts: NonZeroU32,
    /// The most concurrent requests to one registry.
    pub requests_per_host: NonZeroUsize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            user_agent: concat!("images/", env!("CARGO_PKG_VERSION")).into(),
            insecure: Vec::new(),
            any_certificate: false,
            auth_files: Vec::new(),
            usual_auth_files: Vec::new(),
            ca_files: Vec::new(),
            certificate_folders: Vec::new(),
            mirrors: MirrorFiles::default(),
            policy: PolicyFiles::default(),
            bundle_scopes: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            manifest_timeout: Duration::from_mins(2),
            blob_timeout: Duration::from_hours(1),
            attempts: const { NonZeroU32::new(3).unwrap() },
            requests_per_host: const { NonZeroUsize::new(6).unwrap() },
        }
    }
}

impl Settings {
    /// The client id in requests for tokens.
    pub(crate) fn client_id(&self) -> &str {
        self.user_agent.split(['/', ' ']).next().unwrap_or("")
    }
}
