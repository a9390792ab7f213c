//! What was written, as flags, in the environment or in the file: one type for
//! all three, in which everything may be absent.

use std::fs::File;
use std::io::Read as _;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::config::curated::PackageSettings;
use crate::config::error::ConfigError;
use crate::config::limits::LimitSettings;
use crate::config::ports::{ConnectionSettings, TlsSettings};
use crate::config::template::{ImageTemplate, KubeVersion, WrittenSource};
use crate::config::value::{
    Address, Authority, Host, LogFormat, Origin, Poll, Refusal, Time, Timeout,
};
use crate::ingest::{LayoutSource, Mirror, Source, SourceError};
use crate::name::{CatalogName, NameError};
use crate::serve::oci::{Flow, GateSettings};
use ::images::Platform;

/// The largest file that is read, in bytes.
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

    /// Where revisions are kept; made when it is missing [default: data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Where gRPC listens [default: 0.0.0.0:50051]
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<Address>,

    /// Where HTTP listens [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<Address>,

    /// Where status, health and metrics listen [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<Address>,

    /// How long open streams may take to finish at the end [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub drain: Option<Time>,

    /// The most connections of each listener [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    pub max_connections: Option<NonZeroUsize>,

    /// How often sources are looked at, or "never" [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub poll: Option<Poll>,

    /// The version of Kubernetes, for images that are written with
    /// `{kube_major_version}`, `{kube_minor_version}` or `{kube_patch_version}`
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<KubeVersion>,

    /// Which image of a list is taken [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<Platform>,

    /// What happens to packages that are not valid: "quarantine" leaves them
    /// out, "reject" refuses the whole revision [default: quarantine]
    #[arg(long, value_name = "WAY")]
    pub on_invalid: Option<Refusal>,

    /// Serve what is stored, and look at no source
    #[arg(long)]
    pub offline: bool,

    /// The catalog for clients whose address names none
    #[arg(long, value_name = "NAME")]
    pub default_catalog: Option<CatalogName>,

    /// The origins of pages that may ask over HTTP; in a file only.
    #[arg(skip)]
    pub cors_origins: Option<Vec<Origin>>,

    /// What clients may take of the ports; in a file only.
    #[arg(skip)]
    pub connections: ConnectionSettings,

    /// TLS of the gRPC ports; in a file only.
    #[arg(skip)]
    pub grpc_tls: TlsSettings,

    /// TLS of the HTTP port; in a file only.
    #[arg(skip)]
    pub http_tls: TlsSettings,

    /// Who may pull images; in a file only.
    #[arg(skip)]
    pub distribution: DistributionSettings,

    /// How to speak to registries.
    #[command(flatten)]
    pub registries: RegistrySettings,

    /// How much of an image is taken; in a file only.
    #[arg(skip)]
    pub limits: Option<LimitSettings>,

    /// How much is kept of what passes brought that came to nothing; in a
    /// file only.
    #[arg(skip)]
    pub cache: CacheSettings,

    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogSettings,
}

/// One catalog.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogSettings {
    /// Its name; else one is made from the source.
    #[serde(default)]
    pub name: Option<CatalogName>,
    /// Where it comes from; absent for a curated catalog.
    #[serde(default)]
    pub source: WrittenSource,
    /// The image to take instead, with parts of the version of Kubernetes.
    #[serde(default)]
    pub image_template: Option<ImageTemplate>,
    /// The catalogs that it is a selection of.
    #[serde(default)]
    pub from: Vec<CatalogName>,
    /// An `ImageSetConfiguration` that says what is selected.
    #[serde(default)]
    pub image_set: Option<PathBuf>,
    /// Whether all versions are selected, and not heads only.
    #[serde(default)]
    pub full: bool,
    /// Whether what is selected brings along what it needs.
    #[serde(default)]
    pub dependencies: bool,
    /// The packages that are selected.
    #[serde(default)]
    pub packages: Vec<PackageSettings>,
    /// How often the source is looked at.
    #[serde(default)]
    pub poll: Option<Poll>,
    /// Which image of a list is taken.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// What happens to packages that are not valid.
    #[serde(default)]
    pub on_invalid: Option<Refusal>,
    /// The hosts under which clients ask for it.
    #[serde(default)]
    pub authorities: Vec<Authority>,
    /// Whether clients may have it.
    #[serde(default)]
    pub available: Option<bool>,
    /// A gRPC port of its own.
    #[serde(default)]
    pub grpc: Option<Address>,
    /// Files with tokens that let clients read it over HTTP.
    #[serde(default)]
    pub token_files: Vec<PathBuf>,
    /// Whether a client's certificate lets it read it over HTTP.
    #[serde(default)]
    pub client_certificate: bool,
    /// What can be pulled of it.
    #[serde(default)]
    pub mirror: Mirror,
}

/// Who may pull images.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributionSettings {
    /// Files with users, as `htpasswd -B` writes them.
    pub user_files: Option<Vec<PathBuf>>,
    /// How clients show who they are.
    pub flow: Option<Flow>,
}

/// How to speak to registries.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// A registry (HOST or HOST:PORT) to speak to over plain http; may be
    /// given again
    #[arg(long, value_name = "HOST")]
    pub insecure: Option<Vec<Host>>,

    /// A file with credentials (auth.json, config.json); may be given again
    /// [default: where podman and docker keep theirs]
    #[arg(long = "auth-file", value_name = "FILE")]
    pub auth_files: Option<Vec<PathBuf>>,

    /// A PEM file of authorities to trust besides the system's; may be given
    /// again
    #[arg(long = "ca-file", value_name = "FILE")]
    pub ca_files: Option<Vec<PathBuf>>,

    /// A folder with certificates by registry (certs.d); may be given again
    /// [default: where podman and docker have theirs]
    #[arg(long = "certs-dir", value_name = "DIR")]
    pub certs_dirs: Option<Vec<PathBuf>>,

    /// A registries.conf, or a folder of such files; may be given again
    /// [default: where podman has it]
    #[arg(long, value_name = "PATH")]
    pub registries_conf: Option<Vec<PathBuf>>,

    /// A file with an `ImageDigestMirrorSet`, `ImageTagMirrorSet` or
    /// `ImageContentSourcePolicy`, or a folder of such files; may be given
    /// again
    #[arg(long = "mirror-file", value_name = "PATH")]
    pub mirror_files: Option<Vec<PathBuf>>,

    /// The policy.json that says which images are let in [default: where
    /// podman has it]
    #[arg(long, value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// The longest time to connect; in a file only.
    #[arg(skip)]
    pub connect_timeout: Option<Timeout>,

    /// The longest time without a byte; in a file only.
    #[arg(skip)]
    pub idle_timeout: Option<Timeout>,

    /// The longest time for a manifest; in a file only.
    #[arg(skip)]
    pub manifest_timeout: Option<Timeout>,

    /// The longest time for a blob; in a file only.
    #[arg(skip)]
    pub blob_timeout: Option<Timeout>,

    /// How often the same is tried; in a file only.
    #[arg(skip)]
    pub attempts: Option<NonZeroU32>,

    /// How many requests a registry gets at once; in a file only.
    #[arg(skip)]
    pub requests_per_host: Option<NonZeroUsize>,
}

/// How much is kept of pulled blobs that no revision was made from.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// For how long.
    pub max_age: Option<Time>,
    /// How many bytes.
    pub max_bytes: Option<u64>,
}

/// What is logged, and how.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// What is logged, such as "error" or "info,almanac=debug"
    /// [default: info for `serve`, warn for the others]
    #[arg(long = "log", value_name = "FILTER")]
    pub filter: Option<String>,

    /// How: "text" or "json" [default: text]
    #[arg(long = "log-format", value_name = "FORMAT")]
    pub format: Option<LogFormat>,
}

/// A text that is no `[NAME=]SOURCE`.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// What stands before the `=`.
    #[error(transparent)]
    Name(#[from] NameError),
    /// What stands behind it.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Settings {
    /// Reads a file. Relative paths in it, those of sources included, are
    /// taken from the folder of the file, so that it means the same wherever
    /// the program is started.
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
            settings.start_paths_at(folder);
        }
        Ok(settings)
    }

    /// These settings, and where they are silent, those of the `lower` layer.
    /// A list replaces the whole list below it.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        // Taken apart, so that a new setting cannot be forgotten.
        let Self {
            catalogs,
            data_dir,
            grpc,
            http,
            admin,
            drain,
            max_connections,
            poll,
            kube_version,
            platform,
            on_invalid,
            offline,
            default_catalog,
            cors_origins,
            connections,
            grpc_tls,
            http_tls,
            distribution,
            registries,
            limits,
            cache,
            log,
        } = self;
        Self {
            catalogs: if catalogs.is_empty() {
                lower.catalogs
            } else {
                catalogs
            },
            data_dir: data_dir.or(lower.data_dir),
            grpc: grpc.or(lower.grpc),
            http: http.or(lower.http),
            admin: admin.or(lower.admin),
            drain: drain.or(lower.drain),
            max_connections: max_connections.or(lower.max_connections),
            poll: poll.or(lower.poll),
            kube_version: kube_version.or(lower.kube_version),
            platform: platform.or(lower.platform),
            on_invalid: on_invalid.or(lower.on_invalid),
            offline: offline || lower.offline,
            default_catalog: default_catalog.or(lower.default_catalog),
            cors_origins: cors_origins.or(lower.cors_origins),
            connections: connections.over(lower.connections),
            grpc_tls: grpc_tls.over(lower.grpc_tls),
            http_tls: http_tls.over(lower.http_tls),
            distribution: distribution.over(lower.distribution),
            registries: registries.over(lower.registries),
            limits: limits.or(lower.limits),
            cache: CacheSettings {
                max_age: cache.max_age.or(lower.cache.max_age),
                max_bytes: cache.max_bytes.or(lower.cache.max_bytes),
            },
            log: LogSettings {
                filter: log.filter.or(lower.log.filter),
                format: log.format.or(lower.log.format),
            },
        }
    }

    fn start_paths_at(&mut self, folder: &Path) {
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

impl RegistrySettings {
    fn over(self, lower: Self) -> Self {
        let Self {
            insecure,
            auth_files,
            ca_files,
            certs_dirs,
            registries_conf,
            mirror_files,
            policy_file,
            connect_timeout,
            idle_timeout,
            manifest_timeout,
            blob_timeout,
            attempts,
            requests_per_host,
        } = self;
        Self {
            insecure: insecure.or(lower.insecure),
            auth_files: auth_files.or(lower.auth_files),
            ca_files: ca_files.or(lower.ca_files),
            certs_dirs: certs_dirs.or(lower.certs_dirs),
            registries_conf: registries_conf.or(lower.registries_conf),
            mirror_files: mirror_files.or(lower.mirror_files),
            policy_file: policy_file.or(lower.policy_file),
            connect_timeout: connect_timeout.or(lower.connect_timeout),
            idle_timeout: idle_timeout.or(lower.idle_timeout),
            manifest_timeout: manifest_timeout.or(lower.manifest_timeout),
            blob_timeout: blob_timeout.or(lower.blob_timeout),
            attempts: attempts.or(lower.attempts),
            requests_per_host: requests_per_host.or(lower.requests_per_host),
        }
    }
}

impl DistributionSettings {
    fn over(self, lower: Self) -> Self {
        let Self { user_files, flow } = self;
        Self {
            user_files: user_files.or(lower.user_files),
            flow: flow.or(lower.flow),
        }
    }

    /// What the gate needs.
    pub(super) fn resolve(self) -> GateSettings {
        GateSettings {
            user_files: self.user_files.unwrap_or_default(),
            flow: self.flow.unwrap_or_default(),
        }
    }
}

impl FromStr for CatalogSettings {
    type Err = CatalogError;

    fn from_str(text: &str) -> Result<Self, CatalogError> {
        // A '=' behind a '/' or ':' belongs to a path.
        let named = text
            .split_once('=')
            .filter(|(name, _)| !name.contains(['/', ':']));
        let (name, source) = match named {
            Some((name, source)) => (Some(name.parse()?), source),
            None => (None, text),
        };
        Ok(Self {
            name,
            source: source.parse()?,
            image_template: None,
            from: Vec::new(),
            image_set: None,
            full: false,
            dependencies: false,
            packages: Vec::new(),
            poll: None,
            platform: None,
            on_invalid: None,
            authorities: Vec::new(),
            available: None,
            grpc: None,
            token_files: Vec::new(),
            client_certificate: false,
            mirror: Mirror::default(),
        })
    }
}
