//! What was written, as flags, in the environment or in the file: one type for
//! all three, in which everything may be absent.

use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use super::error::ConfigError;
use super::ports::{ConnectionSettings, TlsSettings};
use super::value::{Address, Authority, Host, LogFormat, Origin, Poll, Refusal, Time, Timeout};
use crate::ingest::{Source, SourceError};
use crate::name::{CatalogName, NameError};
use crate::oci::Platform;
use crate::unpack::Limits;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Settings of one layer. The names of the fields are the keys of the file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The catalogs to serve: each an image reference, `oci:FOLDER[:TAG]` or
    /// `file:PATH`. They replace all catalogs of the file
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

    /// Which image of a list is taken [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<Platform>,

    /// What happens to packages that are not valid: "quarantine" leaves them
    /// out, "reject" refuses the whole revision [default: quarantine]
    #[arg(long, value_name = "WAY")]
    pub on_invalid: Option<Refusal>,

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

    /// How to speak to registries.
    #[command(flatten)]
    pub registries: RegistrySettings,

    /// How much of an image is taken; in a file only.
    #[arg(skip)]
    pub limits: Option<Limits>,

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
    /// Where it comes from.
    pub source: Source,
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
    /// A gRPC port of its own.
    #[serde(default)]
    pub grpc: Option<Address>,
    /// Files with tokens that let clients read it over HTTP.
    #[serde(default)]
    pub token_files: Vec<PathBuf>,
    /// Whether a client's certificate lets it read it over HTTP.
    #[serde(default)]
    pub client_certificate: bool,
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
            platform,
            on_invalid,
            default_catalog,
            cors_origins,
            connections,
            grpc_tls,
            http_tls,
            registries,
            limits,
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
            platform: platform.or(lower.platform),
            on_invalid: on_invalid.or(lower.on_invalid),
            default_catalog: default_catalog.or(lower.default_catalog),
            cors_origins: cors_origins.or(lower.cors_origins),
            connections: connections.over(lower.connections),
            grpc_tls: grpc_tls.over(lower.grpc_tls),
            http_tls: http_tls.over(lower.http_tls),
            registries: registries.over(lower.registries),
            limits: limits.or(lower.limits),
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
            Source::File(path) | Source::Layout { folder: path, .. } => Some(path),
            Source::Image(_) => None,
        });
        for path in self.data_dir.iter_mut().chain(files).chain(sources) {
            *path = folder.join(&path);
        }
        let tls = [&mut self.grpc_tls, &mut self.http_tls].into_iter();
        let tls = tls.flat_map(TlsSettings::files_mut);
        let tokens = self.catalogs.iter_mut();
        let tokens = tokens.flat_map(|catalog| &mut catalog.token_files);
        for path in tls.chain(tokens) {
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
            poll: None,
            platform: None,
            on_invalid: None,
            authorities: Vec::new(),
            grpc: None,
            token_files: Vec::new(),
            client_certificate: false,
        })
    }
}
