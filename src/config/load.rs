//! Loads a configuration: gathers the layers and resolves them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::proxies::Proxies;
use crate::config::resolved::{CatalogConfig, Config};
use crate::config::settings::Settings;
use crate::config::value::{Address, Authority, OnInvalidSetting, Origin, Poll, Time};
use crate::config::{curated, names};
use crate::ingest::Source;
use crate::name::CatalogName;
use crate::serve::access::AccessSettings;
use crate::serve::http::Origins;

/// The default data folder, relative to the working directory.
const DATA_DIR: &str = "data";
const GRPC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 50051);
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
const DRAIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_mins(10);
const DEFAULT_LOG_FILTER: &str = "info";

impl Config {
    /// Resolves the flags, the environment and a file: the given one, else the
    /// one that the environment names, else none.
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
            log: settings.log.resolve(DEFAULT_LOG_FILTER)?,
            proxies: Proxies::default(),
            data_dir,
            unpack: settings.limits.unwrap_or_default().resolve(),
            cache: settings.cache.resolve(),
            offline: settings.offline,
            default_catalog: settings.default_catalog,
            catalogs,
            files,
        };
        config.check()?;
        let is_image = |catalog: &CatalogConfig| matches!(catalog.source, Source::Image(_));
        if !config.offline && config.catalogs.iter().any(is_image) {
            config.proxies = environment.proxies()?;
        }
        Ok(config)
    }
}

impl Settings {
    /// The three layers as one.
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

    /// The names of the configured catalogs.
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

    /// The address of status, health and metrics.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.map_or(ADMIN, |Address(address)| address)
    }
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
    // A valid origin is always a valid header value.
    Origins::These(
        values
            .filter_map(|Origin(origin)| origin.parse().ok())
            .collect(),
    )
}

/// The catalogs, each completed by the settings for all catalogs.
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
            on_invalid: on_invalid
                .map(|OnInvalidSetting(way)| way)
                .unwrap_or_default(),
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
