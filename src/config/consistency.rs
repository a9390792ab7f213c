//! Checks for settings that contradict each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::error::ConfigError;
use crate::config::resolved::{CatalogConfig, Config};
use crate::ingest::{Mirror, Source};
use crate::serve::oci::Flow;

impl Config {
    /// Makes all checks.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.check_authorities()?;
        self.check_default()?;
        self.check_addresses()?;
        self.check_access()?;
        self.check_mirrors()?;
        self.check_webhooks()?;
        self.check_admission()?;
        let distribution = &self.distribution;
        let has_tokens = distribution.flow == Flow::Token;
        if self.fleet.is_some() && has_tokens && distribution.token_key_files.is_empty() {
            return Err(ConfigError::TokenKeys);
        }
        self.check_data_dir(&self.data_dir)
    }

    /// Checks that no source contains this data folder or lies in it. Symbolic
    /// links are followed.
    ///
    /// # Errors
    /// With the catalog whose source does.
    pub fn check_data_dir(&self, data_dir: &Path) -> Result<(), ConfigError> {
        let folder = real(data_dir);
        for catalog in &self.catalogs {
            let Some(path) = catalog.source.path().map(real) else {
                continue;
            };
            let (data_dir, name) = (data_dir.to_owned(), catalog.name.clone());
            let from = Box::new(catalog.source.clone());
            if folder.starts_with(&path) {
                return Err(ConfigError::DataInSource(data_dir, name, from));
            }
            if path.starts_with(&folder) {
                return Err(ConfigError::SourceInData(data_dir, name, from));
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
        let names = self.catalogs.iter().map(|catalog| catalog.name.as_str());
        let names: Vec<&str> = names.collect();
        match &self.default_catalog {
            // The cluster may name it later.
            Some(_) if self.names_catalogs_later() => Ok(()),
            Some(name) if !names.contains(&name.as_str()) => Err(ConfigError::UnknownDefault {
                name: name.clone(),
                known: names.join(", "),
            }),
            _ => Ok(()),
        }
    }

    /// Port 0 is a different port for each listener.
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
        let webhook = self.kubernetes.as_ref().and_then(|one| one.webhook);
        listeners.extend(webhook.map(|address| ("webhook of [kubernetes]".to_owned(), address)));
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

    fn check_webhooks(&self) -> Result<(), ConfigError> {
        let names: Vec<&str> = self.catalogs.iter().map(|it| it.name.as_str()).collect();
        if self.names_catalogs_later() {
            return Ok(());
        }
        for webhook in &self.webhooks {
            let mut catalogs = webhook.catalogs.iter();
            if let Some(name) = catalogs.find(|name| !names.contains(&name.as_str())) {
                return Err(ConfigError::Webhook {
                    name: webhook.name.clone(),
                    problem: format!(
                        "catalogs names {name}, but the catalogs are: {}",
                        names.join(", ")
                    ),
                });
            }
        }
        Ok(())
    }

    /// The API server asks the webhook over TLS.
    fn check_admission(&self) -> Result<(), ConfigError> {
        let mut cluster = self.kubernetes.iter();
        if !cluster.any(|one| one.webhook.is_some()) {
            return Ok(());
        }
        match &self.http_tls {
            Some(tls) if tls.client_ca.is_some() && !tls.client_optional => {
                Err(ConfigError::AdmissionAsks)
            }
            Some(_) => Ok(()),
            None => Err(ConfigError::AdmissionTls),
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

/// The path with its links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(there) = above.canonicalize() {
            return there.join(path.strip_prefix(above).unwrap_or(Path::new("")));
        }
    }
    path
}
