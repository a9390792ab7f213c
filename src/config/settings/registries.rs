//! The settings of the registry client.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use serde::Deserialize;

use crate::config::value::{Host, Timeout};

/// The registry client.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// A registry (HOST or HOST:PORT) that is reached over plain http;
    /// repeatable
    #[arg(long, value_name = "HOST")]
    pub insecure: Option<Vec<Host>>,

    /// A file with credentials (auth.json, config.json); repeatable
    /// [default: the files of podman and docker]
    #[arg(long = "auth-file", value_name = "FILE")]
    pub auth_files: Option<Vec<PathBuf>>,

    /// A PEM file of authorities to trust besides the system's; repeatable
    #[arg(long = "ca-file", value_name = "FILE")]
    pub ca_files: Option<Vec<PathBuf>>,

    /// A folder with certificates by registry (certs.d); repeatable
    /// [default: the folders of podman and docker]
    #[arg(long = "certs-dir", value_name = "DIR")]
    pub certs_dirs: Option<Vec<PathBuf>>,

    /// A registries.conf, or a folder of such files; repeatable
    /// [default: the files of podman]
    #[arg(long, value_name = "PATH")]
    pub registries_conf: Option<Vec<PathBuf>>,

    /// A file with an `ImageDigestMirrorSet`, `ImageTagMirrorSet` or
    /// `ImageContentSourcePolicy`, or a folder of such files; repeatable
    #[arg(long = "mirror-file", value_name = "PATH")]
    pub mirror_files: Option<Vec<PathBuf>>,

    /// The policy.json that decides which images are accepted
    /// [default: the file of podman]
    #[arg(long, value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// The timeout of a connection attempt; only in the file.
    #[arg(skip)]
    pub connect_timeout: Option<Timeout>,

    /// The longest time without a byte; only in the file.
    #[arg(skip)]
    pub idle_timeout: Option<Timeout>,

    /// The timeout of a manifest; only in the file.
    #[arg(skip)]
    pub manifest_timeout: Option<Timeout>,

    /// The timeout of a blob; only in the file.
    #[arg(skip)]
    pub blob_timeout: Option<Timeout>,

    /// The number of attempts; only in the file.
    #[arg(skip)]
    pub attempts: Option<NonZeroU32>,

    /// The most parallel requests to a registry; only in the file.
    #[arg(skip)]
    pub requests_per_host: Option<NonZeroUsize>,
}

impl RegistrySettings {
    pub(super) fn over(self, lower: Self) -> Self {
        Self {
            insecure: self.insecure.or(lower.insecure),
            auth_files: self.auth_files.or(lower.auth_files),
            ca_files: self.ca_files.or(lower.ca_files),
            certs_dirs: self.certs_dirs.or(lower.certs_dirs),
            registries_conf: self.registries_conf.or(lower.registries_conf),
            mirror_files: self.mirror_files.or(lower.mirror_files),
            policy_file: self.policy_file.or(lower.policy_file),
            connect_timeout: self.connect_timeout.or(lower.connect_timeout),
            idle_timeout: self.idle_timeout.or(lower.idle_timeout),
            manifest_timeout: self.manifest_timeout.or(lower.manifest_timeout),
            blob_timeout: self.blob_timeout.or(lower.blob_timeout),
            attempts: self.attempts.or(lower.attempts),
            requests_per_host: self.requests_per_host.or(lower.requests_per_host),
        }
    }
}
