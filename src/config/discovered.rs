//! A configuration with the catalogs and files that the cluster adds to it.

use std::path::PathBuf;

use crate::config::cluster_names::{Namespace, Selector};
use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::resolved::{CatalogConfig, Config, KubernetesConfig};
use crate::config::settings::{KubernetesSettings, ServiceUrl, Settings};
use crate::config::value::Address;
use crate::ingest::{FolderOptions, Mirror, Source};
use crate::kubernetes::{self, ClusterCatalogs, DiscoveredCatalog, RegistryFiles};
use crate::serve::access::AccessSettings;
use ::images::config_files::AwaitedFile;

/// The longest URL: with the longest name of a catalog, the status takes 525 bytes.
const MAX_SERVICE_URL: usize = 525 - "/catalogs/".len() - 253;

/// Why nothing is pulled before the first list of image policies.
const POLICIES_UNKNOWN: &str = "the image policies of the cluster were not read yet by \
    almanac serve; a role must grant list and watch on clusterimagepolicies.config.openshift.io, \
    and with image_policy_namespace on imagepolicies.config.openshift.io";
/// The same about mirror sets.
const MIRRORS_UNKNOWN: &str = "the mirror sets of the cluster were not read yet by \
    almanac serve; a role must grant list and watch on imagedigestmirrorsets.config.openshift.io, \
    imagetagmirrorsets.config.openshift.io and imagecontentsourcepolicies.operator.openshift.io";

impl KubernetesConfig {
    /// These settings, with those for all catalogs.
    pub(super) fn new(settings: kubernetes::Settings, all: &Settings) -> Self {
        Self {
            settings,
            webhook: all.kubernetes.webhook.map(|Address(address)| address),
            platform: all.platform(),
            on_invalid: all.on_invalid().0,
            name_prefix: all.signing.name_prefix.clone(),
        }
    }

    fn catalog(&self, catalog: &DiscoveredCatalog) -> CatalogConfig {
        let name = catalog.name.clone();
        let prefix = self.name_prefix.as_ref();
        CatalogConfig {
            source: Source::Image(catalog.reference.clone()),
            fallback: None,
            unread_document: None,
            poll: catalog.poll,
            platform: self.platform.clone(),
            on_invalid: self.on_invalid,
            folder: FolderOptions::default(),
            authorities: Vec::new(),
            available: true,
            grpc: None,
            access: AccessSettings::default(),
            mirror: Mirror::default(),
            announced: catalog.announced,
            signed_name: prefix.map(|prefix| prefix.join(name.as_str())),
            name,
        }
    }
}

impl KubernetesSettings {
    /// Settings of the cluster; `None` if nothing is read from it.
    pub(super) fn resolve(
        self,
        policy_namespace: Option<&Namespace>,
        tls_profile: bool,
        offline: bool,
        environment: &Environment,
    ) -> Result<Option<kubernetes::Settings>, ConfigError> {
        let cluster_catalogs = self.cluster_catalogs();
        if cluster_catalogs != ClusterCatalogs::Own {
            if self.webhook.is_some() {
                return Err(ConfigError::Admission);
            }
            for (key, is_set) in [
                ("namespace", self.namespace.is_some()),
                ("service_url", self.service_url.is_some()),
            ] {
                if is_set {
                    return Err(ConfigError::OnlyOwn(key));
                }
            }
        }
        let ServiceUrl(service_url) = self.service_url();
        let (mirror_sets, image_policies) = (self.mirror_sets(), self.image_policies());
        let image_pull_secrets = self.image_pull_secrets();
        let selector = self.selector.map(|Selector(text)| text);
        let settings = kubernetes::Settings {
            cluster_catalogs,
            mirror_sets,
            image_policies,
            image_pull_secrets,
            selector: selector.filter(|selector| !selector.is_empty()),
            kubeconfig: self.kubeconfig.or_else(|| environment.kubeconfig()),
            namespace: self.namespace.map(|Namespace(name)| name),
            pod: environment.host_name(),
            service_url: checked_service_url(&service_url)?,
            policy_namespace: policy_namespace.map(|Namespace(name)| name.clone()),
            tls_profile,
            pull_secret: self.pull_secret,
        };
        if !settings.is_on() {
            return Ok(None);
        }
        if offline {
            return Err(ConfigError::OfflineCluster);
        }
        Ok(Some(settings))
    }
}

/// The URL that clients of `ClusterCatalogs` get, without a slash at its end.
fn checked_service_url(written: &str) -> Result<String, ConfigError> {
    let url = written.trim_end_matches('/');
    let host = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    // Clients append a path.
    let is_plain = |host: &str| {
        let is_sign = |byte: u8| byte.is_ascii_graphic() && !b"?#@".contains(&byte);
        host.bytes().all(is_sign)
    };
    let is_good =
        host.is_some_and(|host| !host.is_empty() && !host.starts_with('/') && is_plain(host));
    if is_good && url.len() <= MAX_SERVICE_URL {
        Ok(url.to_owned())
    } else {
        Err(ConfigError::ServiceUrl(url.chars().take(300).collect()))
    }
}

impl Config {
    /// Whether the cluster names catalogs besides the configured ones.
    pub fn names_catalogs_later(&self) -> bool {
        let cluster = self.kubernetes.as_ref();
        cluster.is_some_and(|one| one.settings.cluster_catalogs != ClusterCatalogs::Off)
    }

    /// Adds catalogs of the cluster. A configured catalog of the same name takes
    /// precedence.
    pub fn add_discovered(&mut self, catalogs: &[DiscoveredCatalog]) {
        let Some(kubernetes) = &self.kubernetes else {
            return;
        };
        for discovered in catalogs {
            let is_same = |one: &CatalogConfig| one.name == discovered.name;
            if self.catalogs.iter().any(is_same) {
                tracing::warn!(
                    catalog = %discovered.name,
                    "a catalog of the configuration has the name of a ClusterCatalog, whose image \
                     is not followed"
                );
                continue;
            }
            self.catalogs.push(kubernetes.catalog(discovered));
        }
    }

    /// Adds files of the cluster to those of the registry client. Configured
    /// credentials take precedence.
    pub fn add_registry_files(&mut self, files: &RegistryFiles) {
        add_files(&mut self.registries, files);
    }
}

impl Settings {
    /// Adds the files that `serve` with these settings keeps of the cluster. So a command
    /// pulls no image that `serve` refuses.
    ///
    /// # Errors
    /// When the settings of the cluster are not valid.
    pub fn add_cluster_files(
        &self,
        registries: &mut images::Settings,
        environment: &Environment,
    ) -> Result<(), ConfigError> {
        let policy_namespace = self.registries.image_policy_namespace.as_ref();
        let cluster = self.kubernetes.clone();
        let cluster = cluster.resolve(policy_namespace, false, self.offline, environment)?;
        if let Some(cluster) = cluster {
            let cluster = KubernetesConfig::new(cluster, self).settings;
            add_files(
                registries,
                &RegistryFiles::new(&cluster, &self.data_folder()),
            );
        }
        Ok(())
    }
}

fn add_files(registries: &mut images::Settings, files: &RegistryFiles) {
    let awaited = |path: &Option<PathBuf>, unknown: &str| {
        let (path, unknown) = (path.clone()?, unknown.to_owned());
        Some(AwaitedFile { path, unknown })
    };
    registries.mirrors.awaited = awaited(&files.mirrors, MIRRORS_UNKNOWN);
    registries.policy.awaited = awaited(&files.policies, POLICIES_UNKNOWN);
    let credentials = files.credentials.iter().cloned();
    registries.usual_auth_files.splice(..0, credentials);
}
