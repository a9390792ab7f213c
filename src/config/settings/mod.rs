//! The settings that flags, the environment and the file have in common: one
//! type for all three layers, in which every setting may be absent.

mod catalog;
mod registries;

use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use catalog::{CatalogError, CatalogSettings, ChannelSettings, PackageSettings};
pub use registries::RegistrySettings;

use crate::config::error::ConfigError;
use crate::config::limits::LimitSettings;
use crate::config::log::LogSettings;
use crate::config::ports::{ConnectionSettings, TlsSettings};
use crate::config::template::{KubeVersion, WrittenSource};
use crate::config::value::{Address, OnInvalidSetting, Origin, Poll, Time};
use crate::ingest::{LayoutSource, Source};
use crate::name::CatalogName;
use crate::serve::oci::{Flow, GateSettings};
use ::images::Platform;

/// The size limit of the file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Settings of one layer. The names of the fields are the keys of the file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The catalogs to serve: each an image reference, `oci:FOLDER`,
    /// `oci-archive:FILE` or `docker-archive:FILE` (with `:TAG` or `@DIGEST`
    /// where there are several images), or `file:PATH`. They replace all
    /// catalogs of the file
    #[arg(value_name = "[NAME=]SOURCE")]
    #[serde(rename = "catalog")]
    pub catalogs: Vec<CatalogSettings>,

    /// The data folder, which keeps revisions; created if missing [default: data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The address of gRPC [default: 0.0.0.0:50051]
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<Address>,

    /// The address of HTTP [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<Address>,

    /// The address of status, health and metrics [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<Address>,

    /// How long open streams may take to finish on shutdown [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub drain: Option<Time>,

    /// The connection limit of each listener [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    pub max_connections: Option<NonZeroUsize>,

    /// The time between two checks of a source, or "never" [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub poll: Option<Poll>,

    /// The version of Kubernetes, for images with `{kube_major_version}`,
    /// `{kube_minor_version}` or `{kube_patch_version}` in their reference
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<KubeVersion>,

    /// The platform of images, for sources with several [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<Platform>,

    /// The treatment of invalid packages: "quarantine" leaves them out,
    /// "reject" refuses the whole revision [default: quarantine]
    #[arg(long, value_name = "WAY")]
    pub on_invalid: Option<OnInvalidSetting>,

    /// Serve stored revisions only, and never read a source
    #[arg(long)]
    pub offline: bool,

    /// The catalog for clients whose authority names none
    #[arg(long, value_name = "NAME")]
    pub default_catalog: Option<CatalogName>,

    /// The origins of pages that may use the HTTP API; only in the file.
    #[arg(skip)]
    pub cors_origins: Option<Vec<Origin>>,

    /// Limits of connections and calls; only in the file.
    #[arg(skip)]
    pub connections: ConnectionSettings,

    /// TLS of the gRPC ports; only in the file.
    #[arg(skip)]
    pub grpc_tls: TlsSettings,

    /// TLS of the HTTP port; only in the file.
    #[arg(skip)]
    pub http_tls: TlsSettings,

    /// The users who may pull images; only in the file.
    #[arg(skip)]
    pub distribution: DistributionSettings,

    /// The registry client.
    #[command(flatten)]
    pub registries: RegistrySettings,

    /// Limits of unpacked images; only in the file.
    #[arg(skip)]
    pub limits: Option<LimitSettings>,

    /// Limits of the cache of pulled blobs; only in the file.
    #[arg(skip)]
    pub cache: CacheSettings,

    /// The log.
    #[command(flatten)]
    pub log: LogSettings,
}

/// The users who may pull images.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributionSettings {
    /// Files with users, in the format of `htpasswd -B`.
    pub user_files: Option<Vec<PathBuf>>,
    /// The way in which clients log in.
    pub flow: Option<Flow>,
}

/// Limits of the cache of pulled blobs that no revision uses.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// The age limit.
    pub max_age: Option<Time>,
    /// The size limit, in bytes.
    pub max_bytes: Option<u64>,
}

impl Settings {
    /// Reads a file. Relative paths in it, including those of sources, start at
    /// the folder of the file, so that they do not depend on the working
    /// directory.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
            .map_err(read)?;
        if text.len() as u64 > MAX_FILE {
            return Err(read(std::io::Error::other("it is larger than 1 MiB")));
        }
        let mut settings: Self =
            toml::from_str(&text).map_err(|error| ConfigError::file(path, &text, error))?;
        if let Some(folder) = path.parent() {
            settings.make_paths_relative_to(folder);
        }
        Ok(settings)
    }

    /// These settings, completed by those of the `lower` layer. A list replaces
    /// the whole list of the lower layer.
    // Each literal names every field, so that a new one cannot be forgotten.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        Self {
            catalogs: if self.catalogs.is_empty() {
                lower.catalogs
            } else {
                self.catalogs
            },
            data_dir: self.data_dir.or(lower.data_dir),
            grpc: self.grpc.or(lower.grpc),
            http: self.http.or(lower.http),
            admin: self.admin.or(lower.admin),
            drain: self.drain.or(lower.drain),
            max_connections: self.max_connections.or(lower.max_connections),
            poll: self.poll.or(lower.poll),
            kube_version: self.kube_version.or(lower.kube_version),
            platform: self.platform.or(lower.platform),
            on_invalid: self.on_invalid.or(lower.on_invalid),
            offline: self.offline || lower.offline,
            default_catalog: self.default_catalog.or(lower.default_catalog),
            cors_origins: self.cors_origins.or(lower.cors_origins),
            connections: self.connections.over(lower.connections),
            grpc_tls: self.grpc_tls.over(lower.grpc_tls),
            http_tls: self.http_tls.over(lower.http_tls),
            distribution: self.distribution.over(lower.distribution),
            registries: self.registries.over(lower.registries),
            limits: self.limits.or(lower.limits),
            cache: CacheSettings {
                max_age: self.cache.max_age.or(lower.cache.max_age),
                max_bytes: self.cache.max_bytes.or(lower.cache.max_bytes),
            },
            log: self.log.over(lower.log),
        }
    }

    fn make_paths_relative_to(&mut self, folder: &Path) {
        let registries = &mut self.registries;
        let files = [
            &mut registries.auth_files,
            &mut registries.ca_files,
            &mut registries.certs_dirs,
            &mut registries.registries_conf,
            &mut registries.mirror_files,
        ];
        let files = files.into_iter().flatten().flatten();
        let files = files.chain(&mut registries.policy_file);
        let sources = self.catalogs.iter_mut();
        let sources = sources.filter_map(|catalog| match &mut catalog.source {
            WrittenSource::Plain(
                Source::File(path) | Source::Layout(LayoutSource { path, .. }),
            ) => Some(path),
            WrittenSource::Plain(Source::Image(_) | Source::Curated(_))
            | WrittenSource::Template(_) => None,
        });
        for path in self.data_dir.iter_mut().chain(files).chain(sources) {
            *path = folder.join(&path);
        }
        let tls = [&mut self.grpc_tls, &mut self.http_tls].into_iter();
        let tls = tls.flat_map(TlsSettings::files_mut);
        let tokens = self.catalogs.iter_mut();
        let tokens =
            tokens.flat_map(|catalog| catalog.token_files.iter_mut().chain(&mut catalog.image_set));
        let users = self.distribution.user_files.iter_mut().flatten();
        for path in tls.chain(tokens).chain(users) {
            *path = folder.join(&path);
        }
    }
}

impl DistributionSettings {
    fn over(self, lower: Self) -> Self {
        Self {
            user_files: self.user_files.or(lower.user_files),
            flow: self.flow.or(lower.flow),
        }
    }

    /// The settings of the pull endpoint.
    pub(in crate::config) fn resolve(self) -> GateSettings {
        GateSettings {
            user_files: self.user_files.unwrap_or_default(),
            flow: self.flow.unwrap_or_default(),
        }
    }
}
