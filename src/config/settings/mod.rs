//! The settings that flags, the environment and the file have in common: one
//! type for all three layers, in which every setting may be absent.

mod catalog;
mod fleet;
mod kubernetes;
mod pages;
mod registries;
mod signing;
mod webhook;

use std::fs::File;
use std::io::{self, Read as _};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use catalog::{CatalogError, CatalogSettings, ChannelSettings, PackageSettings};
pub use fleet::{FleetSettings, WrittenDatabase, WrittenObjects};
pub use kubernetes::KubernetesSettings;
pub use registries::RegistrySettings;
pub use signing::{NamePrefix, SignedName, SigningSettings};
pub use webhook::WebhookSettings;
pub(crate) use webhook::resolve as resolve_webhooks;

use crate::config::error::ConfigError;
use crate::config::layer::layer;
use crate::config::log::LogSettings;
use crate::config::ports::{ConnectionSettings, TlsSettings};
use crate::config::settings::pages::PagesSettings;
use crate::config::template::{KubeVersion, WrittenSource};
use crate::config::value::{Address, OnInvalidSetting, Origin, Poll, Time};
use crate::ingest::{LayoutSource, Source};
use crate::name::CatalogName;
use crate::serve::oci::{AuthorizerSettings, Flow};
use ::images::Platform;
use ::images::layers::Limits;

/// The size limit of a file of settings, in bytes.
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
    #[arg(long, value_name = "ADDR", help_heading = "Ports")]
    pub grpc: Option<Address>,

    /// The address of HTTP [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDR", help_heading = "Ports")]
    pub http: Option<Address>,

    /// The address of status, health and metrics [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR", help_heading = "Ports")]
    pub admin: Option<Address>,

    /// How long open streams may take to finish on shutdown [default: 20s]
    #[arg(long, value_name = "TIME", help_heading = "Ports")]
    pub drain: Option<Time>,

    /// The connection limit of each listener [default: 10000]
    #[arg(long, value_name = "NUMBER", help_heading = "Ports")]
    pub max_connections: Option<NonZeroUsize>,

    /// The time between two checks of a source, or "never" [default: 10m]
    #[arg(long, value_name = "TIME", help_heading = "Catalogs")]
    pub poll: Option<Poll>,

    /// The version of Kubernetes, for images with `{kube_major_version}`,
    /// `{kube_minor_version}` or `{kube_patch_version}` in their reference
    #[arg(long, value_name = "VERSION", help_heading = "Catalogs")]
    pub kube_version: Option<KubeVersion>,

    /// The platform of images, for sources with several [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH", help_heading = "Catalogs")]
    pub platform: Option<Platform>,

    /// The treatment of invalid packages: "quarantine" leaves them out,
    /// "reject" refuses the whole revision [default: quarantine]
    #[arg(long, value_name = "WAY", help_heading = "Catalogs")]
    pub on_invalid: Option<OnInvalidSetting>,

    /// Serve stored revisions only, and never read a source
    #[arg(long, help_heading = "Catalogs")]
    pub offline: bool,

    /// The catalog for clients whose authority names none
    #[arg(long, value_name = "NAME", help_heading = "Catalogs")]
    pub default_catalog: Option<CatalogName>,

    /// The `PostgreSQL` database of a fleet. It may have a password, so it is no flag.
    #[arg(skip)]
    pub database: Option<WrittenDatabase>,

    /// The bucket of a fleet.
    #[arg(skip)]
    pub objects: Option<WrittenObjects>,

    /// The files of a fleet; only in the file.
    #[arg(skip)]
    pub fleet: FleetSettings,

    /// The origins of pages that may use the HTTP API; only in the file.
    #[arg(skip)]
    pub cors_origins: Option<Vec<Origin>>,

    /// The pages for browsers; only in the file.
    #[arg(skip)]
    pub pages: PagesSettings,

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

    /// The cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesSettings,

    /// Limits of unpacked images; only in the file.
    #[arg(skip)]
    pub limits: Option<LimitSettings>,

    /// Limits of the cache of pulled blobs; only in the file.
    #[arg(skip)]
    pub cache: CacheSettings,

    /// The verification of stored files; only in the file.
    #[arg(skip)]
    pub scrub: ScrubSettings,

    /// Signatures of the images that are made here; only in the file.
    #[arg(skip)]
    pub signing: SigningSettings,

    /// The history of revisions; only in the file.
    #[arg(skip)]
    pub history: HistorySettings,

    /// The webhooks; only in the file.
    #[arg(skip)]
    #[serde(rename = "webhook")]
    pub webhooks: Vec<WebhookSettings>,

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
    /// Files with the keys of tokens.
    pub token_key_files: Option<Vec<PathBuf>>,
}

/// Bounds on an image while it is unpacked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    bytes: Option<u64>,
    /// Bytes of the files in the catalog folder.
    catalog_bytes: Option<u64>,
    entries: Option<u64>,
    files: Option<u64>,
    path: Option<usize>,
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

/// The verification of stored files.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScrubSettings {
    /// The time between two verifications of a catalog.
    pub interval: Option<Poll>,
    /// Bytes per second.
    pub rate: Option<NonZeroU64>,
}

/// How much of the history is kept, by catalog.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistorySettings {
    /// The last revisions.
    pub revisions: Option<NonZeroUsize>,
    /// Before these, the last revision of each of so many days.
    pub days: Option<usize>,
}

impl Settings {
    /// Reads a file. Relative paths in it, including those of sources, start at
    /// the folder of the file, so that they do not depend on the working
    /// directory.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut settings: Self =
            toml::from_str(&text).map_err(|error| ConfigError::file(path, &text, error))?;
        if let Some(folder) = path.parent() {
            settings.make_paths_relative_to(folder);
        }
        Ok(settings)
    }

    /// Only the address of the admin port, from a file that cannot be used as a
    /// whole. Without a valid one, nothing.
    pub fn read_admin(path: &Path) -> Self {
        let text = read_text(path).unwrap_or_default();
        let (table, _) = toml::de::DeTable::parse_recoverable(&text);
        let admin = table.get_ref().get("admin");
        let admin = admin.and_then(|value| value.get_ref().as_str()?.parse().ok());
        Self {
            admin,
            ..Self::default()
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
            &mut registries.image_policy_files,
        ];
        let files = files.into_iter().flatten().flatten();
        let files = files.chain(&mut registries.policy_file);
        let files = files.chain(&mut registries.registries_d);
        let files = files.chain(&mut self.kubernetes.kubeconfig);
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
        let tokens = tokens.flat_map(|catalog| {
            let links = catalog.link_folders.iter_mut();
            links
                .chain(&mut catalog.token_files)
                .chain(&mut catalog.image_set)
        });
        let distribution = &mut self.distribution;
        let users = [
            &mut distribution.user_files,
            &mut distribution.token_key_files,
        ];
        let users = users.into_iter().flatten().flatten();
        let signing = &mut self.signing;
        let signing = signing
            .key_file
            .iter_mut()
            .chain(&mut signing.password_file);
        let webhooks = self.webhooks.iter_mut();
        let webhooks = webhooks.flat_map(WebhookSettings::files_mut);
        let fleet = self.fleet.files_mut();
        let files = tls.chain(tokens).chain(users).chain(signing).chain(fleet);
        for path in files.chain(webhooks) {
            *path = folder.join(&path);
        }
    }
}

/// Reads a file of settings.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(MAX_FILE + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

impl DistributionSettings {
    /// The settings of the pull endpoint.
    pub(crate) fn resolve(self) -> AuthorizerSettings {
        AuthorizerSettings {
            user_files: self.user_files.unwrap_or_default(),
            flow: self.flow.unwrap_or_default(),
            token_key_files: self.token_key_files.unwrap_or_default(),
        }
    }
}

impl LimitSettings {
    /// The limits, with defaults for missing settings.
    pub fn resolve(self) -> Limits {
        let default = Limits::default();
        Limits {
            bytes: self.bytes.unwrap_or(default.bytes),
            folder_bytes: self.catalog_bytes.unwrap_or(default.folder_bytes),
            entries: self.entries.unwrap_or(default.entries),
            files: self.files.unwrap_or(default.files),
            path: self.path.unwrap_or(default.path),
        }
    }
}

layer!(DistributionSettings: user_files, flow, token_key_files);
layer!(CacheSettings: max_age, max_bytes);
layer!(ScrubSettings: interval, rate);
layer!(HistorySettings: revisions, days);
layer!(
    Settings: catalogs, data_dir, grpc, http, admin, drain, max_connections, poll, kube_version,
    platform, on_invalid, offline, default_catalog, database, objects, fleet, cors_origins, pages, connections, grpc_tls, http_tls,
    distribution, registries, kubernetes, limits, cache, scrub, history, webhooks, signing,
    log
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_in_part_and_without_unknown_keys() {
        let settings: LimitSettings = serde_json::from_str(r#"{"entries": 7}"#).unwrap();
        assert_eq!(
            settings.resolve(),
            Limits {
                entries: 7,
                ..Limits::default()
            }
        );
        let settings: LimitSettings = serde_json::from_str(r#"{"catalog_bytes": 9}"#).unwrap();
        assert_eq!(settings.resolve().folder_bytes, 9);
        assert!(serde_json::from_str::<LimitSettings>(r#"{"entry": 7}"#).is_err());
    }
}
