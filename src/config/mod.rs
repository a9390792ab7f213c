//! What was written ─► what the program needs, checked once.
//!
//! Flags, the environment (`ALMANAC_…`) and the file are layers of one type,
//! [`Settings`], in that order of weight. [`Config`] is what comes of them:
//! complete, without contradictions, in the types of the parts that it is
//! handed down to. Nothing is opened or bound here, and nobody else reads the
//! environment.

mod curated;
mod environment;
mod error;
mod limits;
mod names;
mod ports;
mod proxies;
mod reload;
mod settings;
mod template;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

pub use curated::{
    ChannelSettings, CuratedError, PackageSettings, image_set_source, read_image_set,
};
pub use environment::Environment;
pub use error::{ConfigError, Place};
pub use limits::LimitSettings;
pub use names::suggest as suggest_name;
pub use ports::{ConnectionSettings, TlsSettings};
pub use proxies::Proxies;
pub use reload::Written;
pub use settings::{
    CacheSettings, CatalogError, CatalogSettings, DistributionSettings, LogSettings,
    RegistrySettings, Settings,
};
pub use template::{ImageTemplate, KubeVersion, WrittenSource};
pub use value::{
    Address, Authority, ClientCertificates, Host, LogFormat, Origin, Poll, Refusal, Time, Timeout,
    TlsVersion, ValueError,
};

use crate::ingest::{Mirror, OnInvalid, Source};
use crate::name::CatalogName;
use crate::serve::Limits;
use crate::serve::access::AccessSettings;
use crate::serve::http::Origins;
use crate::serve::net::tls;
use crate::serve::oci::GateSettings;
use crate::store::CacheLimits;
use ::images::{Platform, layers as unpack};

/// Where data is kept unless set: below the folder the program is started in.
const DATA_DIR: &str = "data";
const GRPC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 50051);
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
const DRAIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_mins(10);
const LOG_FILTER: &str = "info";

/// Everything the program needs to know to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder.
    pub data_dir: PathBuf,
    /// Where gRPC listens.
    pub grpc: SocketAddr,
    /// Where HTTP listens.
    pub http: SocketAddr,
    /// Where status, health and metrics listen.
    pub admin: SocketAddr,
    /// How long open streams may take to finish once the program is asked to
    /// end.
    pub drain: Duration,
    /// What clients may take of the ports.
    pub connections: Limits,
    /// TLS of the gRPC ports, if they have it.
    pub grpc_tls: Option<tls::Settings>,
    /// TLS of the HTTP port, if it has it.
    pub http_tls: Option<tls::Settings>,
    /// What whoever pulls images is asked for.
    pub distribution: GateSettings,
    /// The pages that may ask over HTTP.
    pub origins: Origins,
    /// The catalogs, at least one, no two with one name or authority.
    pub catalogs: Vec<CatalogConfig>,
    /// Files that say more about them, and were read for this.
    pub files: Vec<PathBuf>,
    /// Whether what is stored is served and no source is looked at.
    pub offline: bool,
    /// The one of them for clients whose address names none.
    pub default_catalog: Option<CatalogName>,
    /// How to speak to registries.
    pub registries: images::Settings,
    /// The proxies that those are asked through.
    pub proxies: Proxies,
    /// How much of an image is taken.
    pub unpack: unpack::Limits,
    /// How much is kept of blobs that nothing was made from.
    pub cache: CacheLimits,
    /// What is logged, and how.
    pub log: LogConfig,
}

/// A catalog to follow and serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogConfig {
    /// Its name.
    pub name: CatalogName,
    /// Where it comes from.
    pub source: Source,
    /// Why this is the plain image, where a template was given as well.
    pub fallback: Option<String>,
    /// The time between two looks at the source; `None` is never.
    pub poll: Option<Duration>,
    /// Which image of a list is taken.
    pub platform: Platform,
    /// What happens to packages that are not valid.
    pub on_invalid: OnInvalid,
    /// The hosts under which clients ask for it: lower case, without a port.
    pub authorities: Vec<String>,
    /// Whether clients may have it. It is followed either way.
    pub available: bool,
    /// Where it has a gRPC port of its own.
    pub grpc: Option<SocketAddr>,
    /// What it asks of those who read it over HTTP.
    pub access: AccessSettings,
    /// What can be pulled of it.
    pub mirror: Mirror,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How a line is written.
    pub format: LogFormat,
    /// Which events are written, as `tracing_subscriber::EnvFilter` reads it;
    /// it has been tried.
    pub filter: String,
}

impl Config {
    /// What comes of the flags, of the environment and of a file: the one
    /// given, else the one that the environment names, else none.
    pub fn load(
        flags: Settings,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let settings = Settings::gather(flags, file, environment)?;
        let file = file.or(environment.config_file());
        let catalogs = catalogs(&settings).map_err(|error| error.in_file(file))?;
        let files = (settings.catalogs.iter())
            .filter_map(|catalog| catalog.image_set.clone())
            .collect();
        let data_dir = settings.data_folder();
        let mut config = Self {
            grpc: settings.grpc.map_or(GRPC, |Address(address)| address),
            http: settings.http.map_or(HTTP, |Address(address)| address),
            admin: settings.admin_address(),
            drain: settings.drain.map_or(DRAIN, |Time(time)| time),
            connections: settings.connections.resolve(settings.max_connections),
            grpc_tls: settings.grpc_tls.resolve("grpc_tls")?,
            http_tls: settings.http_tls.resolve("http_tls")?,
            distribution: settings.distribution.resolve(),
            origins: origins(settings.cors_origins),
            registries: settings.registries.resolve(environment),
            log: settings.log.resolve(LOG_FILTER)?,
            proxies: Proxies::default(),
            data_dir,
            unpack: settings.limits.unwrap_or_default().resolve(),
            cache: settings.cache.resolve(),
            offline: settings.offline,
            default_catalog: settings.default_catalog,
            catalogs,
            files,
        };
        config.check_authorities()?;
        config.check_default()?;
        config.check_addresses()?;
        config.check_access()?;
        config.check_mirrors()?;
        config.check_data_dir(&config.data_dir)?;
        let is_image = |catalog: &CatalogConfig| matches!(catalog.source, Source::Image(_));
        if !config.offline && config.catalogs.iter().any(is_image) {
            config.proxies = environment.proxies()?;
        }
        Ok(config)
    }

    /// Holds that no source has this data folder in it, or lies in it, behind
    /// links either.
    ///
    /// # Errors
    /// With the catalog that has, or does.
    pub fn check_data_dir(&self, data_dir: &Path) -> Result<(), ConfigError> {
        let folder = real(data_dir);
        for catalog in &self.catalogs {
            let Some(path) = catalog.source.path().map(real) else {
                continue;
            };
            let (data_dir, name) = (data_dir.to_owned(), catalog.name.clone());
            let from = Box::new(catalog.source.clone());
            if folder.starts_with(&path) {
                return Err(ConfigError::DataInSource {
                    data_dir,
                    catalog: name,
                    from,
                });
            }
            if path.starts_with(&folder) {
                return Err(ConfigError::SourceInData {
                    data_dir,
                    catalog: name,
                    from,
                });
            }
        }
        Ok(())
    }

    fn check_authorities(&self) -> Result<(), ConfigError> {
        let mut seen = BTreeMap::new();
        for catalog in &self.catalogs {
            for authority in &catalog.authorities {
                if let Some(first) = seen.insert(authority, &catalog.name) {
                    return Err(ConfigError::SameAuthority {
                        authority: authority.clone(),
                        first: first.clone(),
                        second: catalog.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn check_default(&self) -> Result<(), ConfigError> {
        let names: Vec<_> = self.catalogs.iter().map(|catalog| &catalog.name).collect();
        match &self.default_catalog {
            Some(name) if !names.contains(&name) => Err(ConfigError::UnknownDefault {
                name: name.clone(),
                known: names
                    .iter()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
            _ => Ok(()),
        }
    }

    /// A port of 0 is another one for each listener.
    fn check_addresses(&self) -> Result<(), ConfigError> {
        let own = self.catalogs.iter().filter_map(|catalog| {
            let name = format!("grpc of the catalog {}", catalog.name);
            Some((name, catalog.grpc?))
        });
        let mut listeners = vec![
            ("grpc".to_owned(), self.grpc),
            ("http".to_owned(), self.http),
            ("admin".to_owned(), self.admin),
        ];
        listeners.extend(own);
        for (index, (second, address)) in listeners.iter().enumerate() {
            let same = listeners[..index]
                .iter()
                .find(|(_, earlier)| earlier == address);
            if let Some((first, _)) = same
                && address.port() != 0
            {
                return Err(ConfigError::SameAddress {
                    first: first.clone(),
                    second: second.clone(),
                    address: *address,
                });
            }
        }
        Ok(())
    }

    fn check_mirrors(&self) -> Result<(), ConfigError> {
        let is_file = |catalog: &&CatalogConfig| {
            matches!(catalog.source, Source::File(_) | Source::Curated(_))
        };
        let mut full = self.catalogs.iter().filter(|c| c.mirror == Mirror::Full);
        match full.find(is_file) {
            Some(catalog) => Err(ConfigError::NoImage {
                catalog: catalog.name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn check_access(&self) -> Result<(), ConfigError> {
        let verifies = self
            .http_tls
            .as_ref()
            .is_some_and(|tls| tls.client_ca.is_some());
        let mut asking = self.catalogs.iter().filter(|c| c.access.client_certificate);
        match asking.next() {
            Some(catalog) if !verifies => Err(ConfigError::NoClientAuthority {
                catalog: catalog.name.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Settings {
    /// The layers as one.
    pub fn gather(
        flags: Self,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let settings = flags.over(environment.settings()?);
        Ok(match file.or(environment.config_file()) {
            Some(file) => settings.over(Self::read(file)?),
            None => settings,
        })
    }

    /// The names of the catalogs, none where there are none.
    pub fn catalog_names(&self) -> Result<Vec<CatalogName>, ConfigError> {
        if self.catalogs.is_empty() {
            return Ok(Vec::new());
        }
        let catalogs = catalogs(self)?.into_iter();
        Ok(catalogs.map(|catalog| catalog.name).collect())
    }

    /// The data folder.
    pub fn data_folder(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| DATA_DIR.into())
    }

    /// Where status, health and metrics listen.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.map_or(ADMIN, |Address(address)| address)
    }
}

impl RegistrySettings {
    /// What the registry client needs. Where no files are given, they are
    /// those that other tools would use.
    pub fn resolve(self, environment: &Environment) -> images::Settings {
        let default = images::Settings::default();
        let time = |set: Option<Timeout>, default| set.map_or(default, |Timeout(time)| time);
        let insecure = self.insecure.unwrap_or_default();
        let (auth_files, usual_auth_files) = match self.auth_files {
            Some(named) => (named, Vec::new()),
            None => environment.auth_files(),
        };
        let conf = self.registries_conf.map_or_else(
            || environment.registries_conf(),
            |named| images::MirrorFiles {
                named,
                ..images::MirrorFiles::default()
            },
        );
        images::Settings {
            user_agent: concat!("almanac/", env!("CARGO_PKG_VERSION")).into(),
            insecure: insecure.into_iter().map(|Host(host)| host).collect(),
            auth_files,
            usual_auth_files,
            ca_files: self.ca_files.unwrap_or_default(),
            certificate_folders: self
                .certs_dirs
                .unwrap_or_else(|| environment.certificate_folders()),
            mirrors: images::MirrorFiles {
                kubernetes: self.mirror_files.unwrap_or_default(),
                ..conf
            },
            policy: images::PolicyFiles {
                usual: environment.policies(),
                named: self.policy_file,
            },
            connect_timeout: time(self.connect_timeout, default.connect_timeout),
            idle_timeout: time(self.idle_timeout, default.idle_timeout),
            manifest_timeout: time(self.manifest_timeout, default.manifest_timeout),
            blob_timeout: time(self.blob_timeout, default.blob_timeout),
            attempts: self.attempts.unwrap_or(default.attempts),
            requests_per_host: self.requests_per_host.unwrap_or(default.requests_per_host),
        }
    }
}

impl CacheSettings {
    /// What the store needs.
    pub fn resolve(self) -> CacheLimits {
        let default = CacheLimits::default();
        CacheLimits {
            max_age: self.max_age.map_or(default.max_age, |Time(time)| time),
            max_bytes: self.max_bytes.unwrap_or(default.max_bytes),
        }
    }
}

impl LogSettings {
    /// What telemetry needs; `default` is the filter where none is given.
    pub fn resolve(self, default: &str) -> Result<LogConfig, ConfigError> {
        let filter = self.filter.unwrap_or_else(|| default.to_owned());
        if let Err(error) = EnvFilter::builder().parse(&filter) {
            return Err(ConfigError::Filter {
                filter,
                problem: error.to_string(),
            });
        }
        Ok(LogConfig {
            format: self.format.unwrap_or_default(),
            filter,
        })
    }
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(there) = above.canonicalize() {
            return there.join(path.strip_prefix(above).unwrap_or(Path::new("")));
        }
    }
    path
}

fn origins(written: Option<Vec<Origin>>) -> Origins {
    let written = written.unwrap_or_default();
    if written.is_empty() {
        return Origins::None;
    }
    if written.iter().any(|Origin(origin)| origin == "*") {
        return Origins::Any;
    }
    let values = written.iter();
    // What an origin is made of is good in a header.
    Origins::These(
        values
            .filter_map(|Origin(origin)| origin.parse().ok())
            .collect(),
    )
}

/// The catalogs, each with what holds for all where it is silent.
fn catalogs(settings: &Settings) -> Result<Vec<CatalogConfig>, ConfigError> {
    if settings.catalogs.is_empty() {
        return Err(ConfigError::NoCatalog);
    }
    let mut sources = BTreeMap::new();
    let mut catalogs = Vec::with_capacity(settings.catalogs.len());
    for written in &settings.catalogs {
        let version = settings.kube_version.as_ref();
        let (source, fallback) = curated::source(written, version)?;
        let name = written.name.clone().or_else(|| names::suggest(&source));
        let name = name.ok_or_else(|| ConfigError::NoName {
            source_text: source.to_string(),
        })?;
        let source = source.absolute();
        if let Some(first) = sources.insert(name.clone(), source.clone()) {
            return Err(ConfigError::SameName {
                name,
                first: Box::new(first),
                second: Box::new(source.clone()),
            });
        }
        let platform = written.platform.as_ref().or(settings.platform.as_ref());
        let on_invalid = written.on_invalid.or(settings.on_invalid);
        catalogs.push(CatalogConfig {
            name,
            source,
            fallback,
            poll: written
                .poll
                .or(settings.poll)
                .map_or(Some(POLL), |Poll(poll)| poll),
            platform: platform.cloned().unwrap_or_default(),
            on_invalid: on_invalid.map(|Refusal(way)| way).unwrap_or_default(),
            authorities: written
                .authorities
                .iter()
                .map(|Authority(host)| host.clone())
                .collect(),
            available: written.available.unwrap_or(true),
            grpc: written.grpc.map(|Address(address)| address),
            access: AccessSettings {
                token_files: written.token_files.clone(),
                client_certificate: written.client_certificate,
            },
            mirror: written.mirror,
        });
    }
    curated::resolve(settings, &mut catalogs)?;
    Ok(catalogs)
}
