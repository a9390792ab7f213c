//! The resolved configuration: complete and consistent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::log::LogConfig;
use crate::config::proxies::Proxies;
use crate::config::settings::NamePrefix;
use crate::config::unread_document::UnreadDocument;
use crate::fleet;
use crate::ingest::{
    FolderOptions, Followed, ImageOptions, Mirror, OnInvalid, Scrub, Source, track_identity,
};
use crate::kubernetes;
use crate::name::CatalogName;
use crate::serve::Limits;
use crate::serve::access::AccessSettings;
use crate::serve::http::{Origins, PageOptions};
use crate::serve::net::tls;
use crate::serve::oci::AuthorizerSettings;
use crate::snapshot::AnnouncedBy;
use crate::store::{CacheLimits, KeptHistory};
use crate::webhooks::Webhook;
use ::images::signing::KeySource;
use ::images::{Platform, layers as unpack};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder.
    pub data_dir: PathBuf,
    /// The address of gRPC.
    pub grpc: SocketAddr,
    /// The address of HTTP.
    pub http: SocketAddr,
    /// The address of status, health and metrics.
    pub admin: SocketAddr,
    /// How long open streams may take to finish on shutdown.
    pub drain: Duration,
    /// Limits of connections and calls.
    pub connections: Limits,
    /// TLS of the gRPC ports, if enabled.
    pub grpc_tls: Option<tls::Settings>,
    /// TLS of the HTTP port, if enabled.
    pub http_tls: Option<tls::Settings>,
    /// The users who may pull images.
    pub distribution: AuthorizerSettings,
    /// The pages that may use the HTTP API.
    pub origins: Origins,
    /// The pages for browsers.
    pub pages: PageOptions,
    /// The catalogs, with unique names and authorities: at least one, unless the
    /// cluster names more.
    pub catalogs: Vec<CatalogConfig>,
    /// Further files that were read for them.
    pub files: Vec<PathBuf>,
    /// The database and the bucket that several replicas share, if they do.
    pub fleet: Option<fleet::Settings>,
    /// Whether only stored revisions are served, and no source is read.
    pub offline: bool,
    /// The catalog for clients whose authority names none.
    pub default_catalog: Option<CatalogName>,
    /// The cluster, if anything of it is read.
    pub kubernetes: Option<KubernetesConfig>,
    /// The registry client.
    pub registries: images::Settings,
    /// The proxies for registries.
    pub proxies: Proxies,
    /// Limits of unpacked images.
    pub unpack: unpack::Limits,
    /// Limits of the cache of pulled blobs.
    pub cache: CacheLimits,
    /// When and how fast stored files are verified.
    pub scrub: Scrub,
    /// The key that signs the images made here, if there is one.
    pub signing_key: Option<KeySource>,
    /// How much of the history is kept.
    pub history: KeptHistory,
    /// The webhooks, with unique names.
    pub webhooks: Vec<Webhook>,
    /// The log.
    pub log: LogConfig,
}

/// Settings of the cluster: the objects to read, and the way to follow its catalogs.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// Settings of the cluster.
    pub settings: kubernetes::Settings,
    /// The address of the admission webhook, if there is one.
    pub webhook: Option<SocketAddr>,
    pub(super) platform: Platform,
    pub(super) on_invalid: OnInvalid,
    pub(super) name_prefix: Option<NamePrefix>,
}

/// A catalog to follow and serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogConfig {
    /// Its name.
    pub name: CatalogName,
    /// Its source.
    pub source: Source,
    /// The reason why an image template was not used, if there is one.
    pub fallback: Option<String>,
    /// A document of its `image_set` that is not read.
    pub unread_document: Option<UnreadDocument>,
    /// The time between two checks of the source; `None` is never.
    pub poll: Option<Duration>,
    /// The platform of the image, for a source with several.
    pub platform: Platform,
    /// The treatment of invalid packages.
    pub on_invalid: OnInvalid,
    /// How a folder is read.
    pub folder: FolderOptions,
    /// The hosts under which clients reach it: lower case, without a port.
    pub authorities: Vec<String>,
    /// Whether it is visible to clients. It is followed in either case.
    pub available: bool,
    /// Its own gRPC port, if it has one.
    pub grpc: Option<SocketAddr>,
    /// Its access rule for HTTP.
    pub access: AccessSettings,
    /// The images that clients can pull.
    pub mirror: Mirror,
    /// The party that announces its digests in the cluster.
    pub announced: AnnouncedBy,
    /// The name outside of almanac (`HOST/REPOSITORY`) under which its image is
    /// signed.
    pub signed_name: Option<String>,
}

impl CatalogConfig {
    /// The way to follow it.
    pub fn followed(&self) -> Followed {
        Followed {
            name: self.name.clone(),
            source: self.source.clone(),
            poll: self.poll,
            platform: self.platform.clone(),
            on_invalid: self.on_invalid,
            folder: self.folder.clone(),
            image: ImageOptions {
                mirror: self.mirror,
                signed_name: self.signed_name.clone(),
            },
        }
    }

    /// Identifies its configuration: replicas of a fleet with equal ones share a track.
    pub fn track_identity(&self) -> String {
        track_identity(&self.followed())
    }
}
