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
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use catalog::{CatalogError, CatalogSettings, ChannelSettings, PackageSettings};
pub use fleet::{FleetSettings, WrittenDatabase, WrittenObjects};
pub use kubernetes::{KubernetesSettings, ServiceUrl};
pub use pages::PagesSettings;
pub use registries::RegistrySettings;
pub use signing::{NamePrefix, SignedName, SigningSettings};
pub use webhook::WebhookSettings;
pub(crate) use webhook::resolve as resolve_webhooks;

use crate::config::declaration::{Setting as _, command_flags, settings};
use crate::config::error::ConfigError;
use crate::config::log::LogSettings;
use crate::config::ports::{ConnectionSettings, TlsSettings, at_least_one};
use crate::config::template::KubeVersion;
use crate::config::value::{Address, OnInvalidSetting, Origin, Poll, Time};
use crate::ingest::{OnInvalid, Scrub};
use crate::name::CatalogName;
use crate::serve;
use crate::serve::oci::{AuthorizerSettings, Flow};
use crate::store::{CacheLimits, KeptHistory};
use ::images::Platform;
use ::images::layers::Limits;

/// The size limit of a file of settings, in bytes.
const MAX_FILE: u64 = 1 << 20;

settings! {
    /// Settings of one layer. The names of the fields are the keys of the file.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Settings {
        /// The catalogs to serve: each an image reference, `oci:FOLDER`, `oci-archive:FILE` or
        /// `docker-archive:FILE` (with `:TAG` or `@DIGEST` where there are several images), or
        /// `file:PATH`. Those of the command line replace all of the file.
        pub catalogs as "catalog": Vec<CatalogSettings>,
            flag "[NAME=]SOURCE", variable "ALMANAC_CATALOGS", table "[[catalog]]";

        /// The data folder, created if missing: the only folder written to, one per process,
        /// neither inside nor around a source.
        pub data_dir: Option<PathBuf> = PathBuf::from("data"), example "/var/lib/almanac",
            flag "--data-dir DIR", variable "ALMANAC_DATA_DIR";

        /// The address of the Operator Registry API, gRPC over HTTP/2.
        pub grpc: Option<Address> = Address(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 50051))),
            flag "--grpc ADDR" in "Ports", variable "ALMANAC_GRPC";

        /// The address of all HTTP APIs and pages, HTTP/1.1 and HTTP/2.
        pub http: Option<Address> = Address(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080))),
            flag "--http ADDR" in "Ports", variable "ALMANAC_HTTP";

        /// The address of `/status`, `/metrics`, `/readyz` and `/livez`; keep it private.
        pub admin: Option<Address> = Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 9090))),
            flag "--admin ADDR" in "Ports", variable "ALMANAC_ADMIN";

        /// Time for open streams during shutdown.
        pub drain: Option<Time> = Time(Duration::from_secs(20)),
            flag "--drain TIME" in "Ports", variable "ALMANAC_DRAIN";

        /// Connections per listener; concurrent HTTP/2 requests.
        pub max_connections: Option<NonZeroUsize> = at_least_one(serve::Limits::default().connections),
            flag "--max-connections NUMBER" in "Ports", variable "ALMANAC_MAX_CONNECTIONS";

        /// Interval between polls, ±10 %, at least `100ms`; `never`: until the first success.
        /// Digests are not polled again.
        pub poll: Option<Poll> = Poll(Some(Duration::from_mins(10))),
            flag "--poll TIME" in "Catalogs", variable "ALMANAC_POLL";

        /// Version of Kubernetes for [image templates](#image-templates) with
        /// `{kube_major_version}`, `{kube_minor_version}` or `{kube_patch_version}`.
        pub kube_version: Option<KubeVersion>, example "1.33.2",
            flag "--kube-version VERSION" in "Catalogs", variable "ALMANAC_KUBE_VERSION";

        /// Platform of images, for sources with several.
        pub platform: Option<Platform> = Platform::default(),
            flag "--platform OS/ARCH" in "Catalogs", variable "ALMANAC_PLATFORM";

        /// Invalid packages: `quarantine` omits them from gRPC, `reject` keeps the previous
        /// revision.
        pub on_invalid: Option<OnInvalidSetting> = OnInvalidSetting(OnInvalid::default()),
            flag "--on-invalid WAY" in "Catalogs", variable "ALMANAC_ON_INVALID";

        /// Serve stored revisions, poll no source; curated catalogs and slim images are built.
        pub offline: bool,
            flag "--offline" in "Catalogs", variable "ALMANAC_OFFLINE";

        /// Catalog for gRPC hosts that name no catalog, present or removed.
        pub default_catalog: Option<CatalogName>, otherwise "the only catalog", example "catalog",
            flag "--default-catalog NAME" in "Catalogs", variable "ALMANAC_DEFAULT_CATALOG";

        // It may have a password, and others can read command lines, so it is no flag.
        /// `postgres://USER@HOST/DATABASE`, of a [fleet](#fleet).
        pub database: Option<WrittenDatabase>,
            example "postgres://almanac@db.example/almanac", variable "ALMANAC_DATABASE";

        /// `s3://`, `gs://` or `az://BUCKET[/PREFIX]`, of a [fleet](#fleet).
        pub objects: Option<WrittenObjects>,
            example "s3://catalogs/almanac?region=eu-west-1", variable "ALMANAC_OBJECTS";

        /// Web origins with access to the HTTP port, or `["*"]`.
        pub cors_origins: Option<Vec<Origin>>;

        /// Files of a fleet, with `database` and `objects` above.
        pub fleet: FleetSettings, table "[fleet]";

        /// Pages for browsers on the HTTP port, beginning at `/`. `pages = false` turns them off
        /// as well.
        pub pages: PagesSettings, table "[pages]";

        /// Limits for clients. Calls above a limit get `RESOURCE_EXHAUSTED`.
        pub connections: ConnectionSettings, table "[connections]";

        /// TLS of all gRPC ports, only with a certificate. Operator Lifecycle Manager cannot speak
        /// TLS there.
        pub grpc_tls: TlsSettings, table "[grpc_tls]";

        /// TLS of the HTTP port, with the same keys.
        pub http_tls: TlsSettings, table "[http_tls]";

        /// Access to images over the HTTP port.
        pub distribution: DistributionSettings, table "[distribution]";

        /// Access to registries.
        pub registries: RegistrySettings, table "[registries]";

        /// The cluster that almanac runs in. Nothing of it is read by default.
        pub kubernetes: KubernetesSettings, table "[kubernetes]";

        /// Limits of an image. A larger one is refused.
        pub limits: LimitSettings, table "[limits]";

        /// Blobs of failed passes, kept for the next pass. Blobs of served revisions are always
        /// kept.
        pub cache: CacheSettings, table "[cache]";

        /// The verification of stored files, besides that after each publication.
        pub scrub: ScrubSettings, table "[scrub]";

        /// Signatures of the slim images, in the format of cosign.
        pub signing: SigningSettings, table "[signing]";

        /// The history of each catalog: its last revisions, and before these the last revision of
        /// each day.
        pub history: HistorySettings, table "[history]";

        /// Receivers of signed `CloudEvents`: new revisions, refused ones and recoveries. `almanac
        /// webhook test` tries them.
        pub webhooks as "webhook": Vec<WebhookSettings>, table "[[webhook]]";

        /// The log, on standard error.
        pub log: LogSettings, table "[log]";
    }
}

settings! {
    /// The users who may pull images.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct DistributionSettings {
        /// `htpasswd -B` files (bcrypt, cost 4 to 15); every pull then needs a user.
        pub user_files: Option<Vec<PathBuf>>, example r#"["users"]"#;
        /// `basic`: password per request; `token`: from `/v2/token`, as in Docker's registry.
        pub flow: Option<Flow> = Flow::default();
        /// Files with one key each, at least 32 bytes; the first signs, all verify.
        pub token_key_files: Option<Vec<PathBuf>>, otherwise "own key", example r#"["token-key"]"#;
    }
}

settings! {
    /// Bounds on an image while it is unpacked.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct LimitSettings {
        /// Uncompressed bytes of all layers.
        pub bytes: Option<u64> = Limits::default().bytes;
        /// Bytes of the files in the catalog folder.
        pub catalog_bytes: Option<u64> = Limits::default().folder_bytes;
        /// Archive entries of all layers.
        pub entries: Option<u64> = Limits::default().entries;
        /// Files, folders and links in the catalog folder.
        pub files: Option<u64> = Limits::default().files;
        /// Bytes of one path or link target.
        pub path: Option<usize> = Limits::default().path;
    }
}

settings! {
    /// Limits of the cache of pulled blobs that no revision uses.
    #[derive(Clone, Copy, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct CacheSettings {
        /// Time since last use; `0s` keeps nothing.
        pub max_age: Option<Time> = Time(CacheLimits::default().max_age);
        /// Total bytes, newest first.
        pub max_bytes: Option<u64> = CacheLimits::default().max_bytes;
    }
}

settings! {
    /// The verification of stored files.
    #[derive(Clone, Copy, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ScrubSettings {
        /// Time between verifications of a catalog, at least `100ms`; `never`: only after
        /// publications, starts and changes.
        pub interval: Option<Poll> = Poll(Scrub::default().interval);
        /// Bytes per second, all catalogs together.
        pub rate: Option<NonZeroU64> = Scrub::default().rate;
    }
}

settings! {
    /// How much of the history is kept, by catalog.
    #[derive(Clone, Copy, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct HistorySettings {
        /// Number of last revisions that are kept, at least 1.
        pub revisions: Option<NonZeroUsize> = at_least_one(KeptHistory::default().revisions);
        /// Days for which the last revision of each earlier day is kept; 0 for none.
        pub days: Option<usize> = KeptHistory::default().days;
    }
}

command_flags!(Settings, RegistrySettings, LogSettings);

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
            settings.visit_paths(&mut |path| *path = folder.join(&path));
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
            flow: self.flow(),
            user_files: self.user_files.unwrap_or_default(),
            token_key_files: self.token_key_files.unwrap_or_default(),
        }
    }
}

impl LimitSettings {
    /// The limits, with defaults for missing settings.
    pub fn resolve(&self) -> Limits {
        Limits {
            bytes: self.bytes(),
            folder_bytes: self.catalog_bytes(),
            entries: self.entries(),
            files: self.files(),
            path: self.path(),
        }
    }
}

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
