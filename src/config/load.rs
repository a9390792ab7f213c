//! Loads a configuration: gathers the layers and resolves them to the types of
//! the modules that use them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::cluster_names::Namespace;
use crate::config::curated;
use crate::config::declaration::Setting as _;
use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::ports::TlsSettings;
use crate::config::proxies::Proxies;
use crate::config::resolved::{CatalogConfig, Config, KubernetesConfig};
use crate::config::settings::{
    CacheSettings, HistorySettings, RegistrySettings, ScrubSettings, Settings, resolve_webhooks,
};
use crate::config::value::{Address, Authority, Host, Origin};
use crate::fleet;
use crate::ingest::{FolderOptions, LayoutSource, Scrub, Source};
use crate::name::CatalogName;
use crate::objects::Store;
use crate::serve::access::AccessSettings;
use crate::serve::http::Origins;
use crate::snapshot::AnnouncedBy;
use crate::store::{CacheLimits, KeptHistory};
use crate::webhooks::Webhook;
use ::images::signing::{KeySource, Password};

const DEFAULT_LOG_FILTER: &str = "info";
/// Extensions of catalog files, which are no part of the name.
const ENDINGS: [&str; 5] = [".yaml", ".yml", ".json", ".tar", ".db"];

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
        let data_dir = settings.data_dir();
        let mut config = Self {
            signing_key: signing_key(&settings, environment)?,
            files: settings.read_files(),
            webhooks: settings.webhooks()?,
            kubernetes: settings.cluster(environment)?,
            fleet: settings.fleet(environment)?,
            grpc: settings.grpc().0,
            http: settings.http().0,
            admin: settings.admin_address(),
            drain: settings.drain().0,
            connections: settings.connections.resolve(settings.max_connections()),
            grpc_tls: settings.grpc_tls.resolve("grpc_tls", &data_dir)?,
            http_tls: settings.http_tls.resolve("http_tls", &data_dir)?,
            distribution: settings.distribution.resolve(),
            origins: origins(settings.cors_origins),
            pages: settings.pages.resolve(),
            registries: settings.registries.resolve(environment),
            log: settings.log.resolve(DEFAULT_LOG_FILTER)?,
            proxies: Proxies::default(),
            data_dir,
            unpack: settings.limits.resolve(),
            cache: settings.cache.resolve(),
            scrub: settings.scrub.resolve(),
            history: settings.history.resolve(),
            offline: settings.offline,
            default_catalog: settings.default_catalog,
            catalogs,
        };
        config.check()?;
        let is_image = |catalog: &CatalogConfig| matches!(catalog.source, Source::Image(_));
        let has_images = config.names_catalogs_later() || config.catalogs.iter().any(is_image);
        if !config.offline && has_images {
            config.proxies = environment.proxies()?;
        }
        Ok(config)
    }
}

impl Settings {
    /// These flags, completed by the environment.
    pub fn over(self, environment: &Environment) -> Result<Self, ConfigError> {
        Ok(self.or_lower(environment.settings()?))
    }

    /// The three layers as one.
    pub fn gather(
        flags: Self,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let settings = flags.over(environment)?;
        Ok(match file.or(environment.config_file()) {
            Some(file) => settings.or_lower(Self::read(file)?),
            None => settings,
        })
    }

    /// The address of status, health and metrics, also with a file that `serve` would
    /// refuse: a running almanac keeps its configuration then. The error is that of
    /// such a file.
    ///
    /// # Errors
    /// When the environment cannot be used, or the file cannot be opened.
    pub fn find_admin_address(
        flags: Self,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<(SocketAddr, Option<ConfigError>), ConfigError> {
        let flags = flags.over(environment)?;
        let Some(file) = file.or(environment.config_file()) else {
            return Ok((flags.admin_address(), None));
        };
        let (settings, error) = match Self::read(file) {
            Ok(settings) => (settings, None),
            Err(ConfigError::Read { path, source }) if source.kind() != ErrorKind::InvalidData => {
                return Err(ConfigError::Read { path, source });
            }
            Err(error) => (Self::read_admin(file), Some(error)),
        };
        Ok((flags.or_lower(settings).admin_address(), error))
    }

    /// The names of the configured catalogs.
    pub fn catalog_names(&self) -> Result<Vec<CatalogName>, ConfigError> {
        if self.catalogs.is_empty() {
            return Ok(Vec::new());
        }
        let catalogs = catalogs(self)?.into_iter();
        Ok(catalogs.map(|catalog| catalog.name).collect())
    }

    /// The names of the configured catalogs that not everybody may read.
    pub fn restricted_catalogs(&self) -> Result<Vec<CatalogName>, ConfigError> {
        if self.catalogs.is_empty() {
            return Ok(Vec::new());
        }
        let restricted = catalogs(self)?.into_iter();
        let restricted = restricted.filter(|one| one.access != AccessSettings::default());
        Ok(restricted.map(|catalog| catalog.name).collect())
    }

    /// The sources of the configured catalogs, by their names.
    pub fn catalog_sources(&self) -> Result<BTreeMap<CatalogName, Source>, ConfigError> {
        if self.catalogs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let catalogs = catalogs(self)?.into_iter();
        Ok(catalogs
            .map(|catalog| (catalog.name, catalog.source))
            .collect())
    }

    /// The webhooks.
    pub fn webhooks(&self) -> Result<Vec<Webhook>, ConfigError> {
        resolve_webhooks(&self.webhooks)
    }

    /// What replicas share, if these settings have a fleet.
    pub fn fleet(&self, environment: &Environment) -> Result<Option<fleet::Settings>, ConfigError> {
        let (database, objects) = (self.database.clone(), self.objects.clone());
        let fleet = self.fleet.clone();
        let usual = |store: &Store| environment.object_credentials(store);
        fleet.resolve(database, objects, usual, environment.host_name())
    }

    /// The cluster, if anything of it is read.
    fn cluster(&self, environment: &Environment) -> Result<Option<KubernetesConfig>, ConfigError> {
        let mut ports = [&self.grpc_tls, &self.http_tls].into_iter();
        let follows_profile = ports.any(TlsSettings::follows_cluster);
        let policy_namespace = self.registries.image_policy_namespace.as_ref();
        let cluster = self.kubernetes.clone();
        let cluster =
            cluster.resolve(policy_namespace, follows_profile, self.offline, environment)?;
        Ok(cluster.map(|cluster| KubernetesConfig::new(cluster, self)))
    }

    /// Further files whose changes reload the configuration.
    fn read_files(&self) -> Vec<PathBuf> {
        let image_sets = self.catalogs.iter();
        let image_sets = image_sets.filter_map(|catalog| catalog.image_set.clone());
        let signing = [&self.signing.key_file, &self.signing.password_file];
        let signing = signing.into_iter().flatten().cloned();
        image_sets.chain(signing).collect()
    }

    /// The data folder.
    pub fn data_folder(&self) -> PathBuf {
        self.data_dir()
    }

    /// The address of HTTP.
    pub fn http_address(&self) -> SocketAddr {
        self.http().0
    }

    /// The address of status, health and metrics.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin().0
    }
}

/// The key that signs images, if there is one.
fn signing_key(
    settings: &Settings,
    environment: &Environment,
) -> Result<Option<KeySource>, ConfigError> {
    let signing = &settings.signing;
    let mut named = settings
        .catalogs
        .iter()
        .filter_map(|it| it.signed_name.as_ref());
    let named_catalog = named.next().is_some();
    let Some(key) = &signing.key_file else {
        return match (&signing.password_file, &signing.name_prefix) {
            (None, None) if !named_catalog => Ok(None),
            _ => Err(ConfigError::Signing("key_file")),
        };
    };
    if signing.name_prefix.is_none() && !named_catalog {
        return Err(ConfigError::Signing("name_prefix"));
    }
    let password = match (&signing.password_file, environment.signing_password()) {
        (Some(file), _) => Password::File(file.clone()),
        (None, Some(text)) => Password::Text(text),
        (None, None) => Password::Empty,
    };
    Ok(Some(KeySource {
        key: key.clone(),
        password,
    }))
}

fn origins(written: Option<Vec<Origin>>) -> Origins {
    let written = written.unwrap_or_default();
    if written.is_empty() {
        return Origins::None;
    }
    if written.iter().any(|Origin(origin)| origin == "*") {
        return Origins::Any;
    }
    // A valid origin is always a valid header value.
    let values = written.iter().filter_map(|Origin(it)| it.parse().ok());
    Origins::These(values.collect())
}

/// The catalogs, each completed by the settings for all catalogs.
fn catalogs(settings: &Settings) -> Result<Vec<CatalogConfig>, ConfigError> {
    if settings.catalogs.is_empty() && !settings.kubernetes.names_catalogs() {
        return Err(ConfigError::NoCatalog);
    }
    let prefix = settings.signing.name_prefix.as_ref();
    let mut sources = BTreeMap::new();
    let mut catalogs = Vec::with_capacity(settings.catalogs.len());
    for written in &settings.catalogs {
        let version = settings.kube_version.as_ref();
        let (source, fallback) = curated::source(written, version)?;
        let name = written.name.clone().or_else(|| suggest_name(&source));
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
        let on_invalid = written.on_invalid.unwrap_or_else(|| settings.on_invalid());
        catalogs.push(CatalogConfig {
            source,
            fallback,
            unread_document: None,
            poll: written.poll.unwrap_or_else(|| settings.poll()).0,
            platform: written
                .platform
                .clone()
                .unwrap_or_else(|| settings.platform()),
            on_invalid: on_invalid.0,
            folder: FolderOptions {
                link_folders: written.link_folders.clone(),
                read_changing: written.read_changing,
            },
            authorities: written
                .authorities
                .iter()
                .map(|Authority(host)| host.clone())
                .collect(),
            available: written.available(),
            grpc: written.grpc.map(|Address(address)| address),
            access: AccessSettings {
                token_files: written.token_files.clone(),
                client_certificate: written.client_certificate,
            },
            mirror: written.mirror(),
            announced: AnnouncedBy::Nobody,
            signed_name: match &written.signed_name {
                Some(own) => Some(own.to_string()),
                None => prefix.map(|prefix| prefix.join(name.as_str())),
            },
            name,
        });
    }
    curated::resolve(settings, &mut catalogs)?;
    Ok(catalogs)
}

impl RegistrySettings {
    /// The settings of the registry client. Without explicit files, it uses
    /// those of podman and docker.
    pub fn resolve(self, environment: &Environment) -> images::Settings {
        let limits = images::Settings {
            connect_timeout: self.connect_timeout().0,
            idle_timeout: self.idle_timeout().0,
            manifest_timeout: self.manifest_timeout().0,
            blob_timeout: self.blob_timeout().0,
            attempts: self.attempts(),
            requests_per_host: self.requests_per_host(),
            ..images::Settings::default()
        };
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
                objects: self.image_policy_files.unwrap_or_default(),
                awaited: None,
                namespace: self.image_policy_namespace.map(|Namespace(name)| name),
                stores: images::SignatureStoreFiles {
                    named: self.registries_d,
                    ..environment.signature_stores()
                },
            },
            bundle_scopes: self.bundle_scopes.unwrap_or_default(),
            ..limits
        }
    }
}

impl ScrubSettings {
    /// When and how fast stored files are verified.
    pub fn resolve(self) -> Scrub {
        Scrub {
            interval: self.interval().0,
            rate: self.rate(),
        }
    }
}

impl HistorySettings {
    /// How much of the history is kept.
    pub fn resolve(self) -> KeptHistory {
        KeptHistory {
            revisions: self.revisions().get(),
            days: self.days(),
        }
    }
}

impl CacheSettings {
    /// The limits that the store enforces.
    pub fn resolve(self) -> CacheLimits {
        CacheLimits {
            max_age: self.max_age().0,
            max_bytes: self.max_bytes(),
        }
    }
}

/// A name from the last part of the source, or `None` if that has no letter or
/// digit.
pub fn suggest_name(source: &Source) -> Option<CatalogName> {
    match source {
        Source::Image(reference) => valid_name(reference.repository().rsplit('/').next()?),
        Source::Layout(LayoutSource { path, .. }) | Source::File(path) => {
            let name = path.file_name()?.to_str()?;
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
            valid_name(stem.unwrap_or(name))
        }
        Source::Curated(_) => None,
    }
}

/// The text as a name: in lower case, with '-' for characters that a name cannot
/// have.
fn valid_name(text: &str) -> Option<CatalogName> {
    let allowed = |sign: char| sign.is_ascii_alphanumeric() || sign == '.';
    let text = text
        .replace(|sign| !allowed(sign), "-")
        .to_ascii_lowercase();
    let labels = text.split('.').map(|label| label.trim_matches('-'));
    let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
    labels.join(".").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_the_source() {
        for (source, name) in [
            ("quay.io/org/catalog:v4.20", Some("catalog")),
            ("localhost:5000/redhat_index", Some("redhat-index")),
            ("oci:a/Layout.v1:tag", Some("layout.v1")),
            ("oci-archive:a/catalog.tar:v1", Some("catalog")),
            ("file:deploy/catalog", Some("catalog")),
            ("file:deploy/catalog/", Some("catalog")),
            ("file:a/lantern.yaml", Some("lantern")),
            ("file:a/v4.20", Some("v4.20")),
            ("file:a/My Catalog!", Some("my-catalog")),
            ("file:a/-x-.-", Some("x")),
            ("file:/", None),
            ("file:..", None),
            ("file:a/___", None),
        ] {
            let found = suggest_name(&source.parse().unwrap());
            assert_eq!(found.as_ref().map(CatalogName::as_str), name, "{source}");
        }
    }
}
