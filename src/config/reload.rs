//! The inputs of a configuration, kept for reloads, and the keys that need a
//! restart.

use std::path::{Path, PathBuf};

use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::resolved::{Config, KubernetesConfig};
use crate::config::settings::Settings;

/// The inputs of a configuration. Flags and the environment never change; the
/// file may.
#[derive(Clone)]
pub struct Written {
    flags: Settings,
    file: Option<PathBuf>,
    environment: Environment,
}

impl Written {
    /// The flags, the file that they name, and the environment, which may name
    /// one too.
    pub fn new(flags: Settings, file: Option<PathBuf>, environment: &Environment) -> Self {
        Self {
            flags,
            file: file.or_else(|| environment.config_file().map(Path::to_owned)),
            environment: environment.clone(),
        }
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The settings, before they are resolved.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        Settings::gather(self.flags.clone(), self.file(), &self.environment)
    }

    /// Loads the configuration from the current content of the file.
    pub fn load(&self) -> Result<Config, ConfigError> {
        Config::load(self.flags.clone(), self.file(), &self.environment)
    }
}

impl Config {
    /// The keys whose new values take effect after a restart.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        // The pattern names every field, so that a new one cannot be forgotten.
        let Self {
            data_dir,
            grpc,
            http,
            admin,
            connections,
            grpc_tls,
            http_tls,
            distribution,
            cache,
            offline,
            fleet,
            kubernetes,
            origins,
            pages,
            log,
            // These take effect at once.
            drain: _,
            catalogs: _,
            files: _,
            default_catalog: _,
            registries: _,
            // The environment never changes.
            proxies: _,
            unpack: _,
            scrub: _,
            signing_key: _,
            history: _,
            webhooks: _,
        } = self;
        let most = connections.connections != new.connections.connections;
        let others = {
            let mut others = new.connections.clone();
            others.connections = connections.connections;
            others != *connections
        };
        let read = |config: &Option<KubernetesConfig>| {
            let config = config.as_ref();
            config.map(|config| (config.settings.clone(), config.webhook))
        };
        let (database, objects, files) = match (fleet, &new.fleet) {
            (Some(old), Some(new)) => {
                let mut same = new.clone();
                same.database = old.database.clone();
                same.objects.location = old.objects.location.clone();
                let is_moved = old.objects.location != new.objects.location;
                (old.database != new.database, is_moved, *old != same)
            }
            (None, None) => (false, false, false),
            _ => (true, true, false),
        };
        [
            ("data_dir", *data_dir != new.data_dir),
            ("grpc", *grpc != new.grpc),
            ("http", *http != new.http),
            ("admin", *admin != new.admin),
            ("max_connections", most),
            ("connections", others),
            ("grpc_tls", *grpc_tls != new.grpc_tls),
            ("http_tls", *http_tls != new.http_tls),
            ("distribution", *distribution != new.distribution),
            ("cache", *cache != new.cache),
            ("offline", *offline != new.offline),
            ("database", database),
            ("objects", objects),
            ("fleet", files),
            ("kubernetes", read(kubernetes) != read(&new.kubernetes)),
            ("cors_origins", *origins != new.origins),
            ("pages", *pages != new.pages),
            ("log", *log != new.log),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("almanac.toml");
        let text = text.replace("HERE", folder.path().to_str().unwrap());
        std::fs::write(&file, text).unwrap();
        let environment = Environment::default();
        let written = Written::new(Settings::default(), Some(file), &environment);
        written.load().unwrap()
    }

    #[test]
    fn what_is_bound_or_opened_at_the_start_is_named_by_its_key() {
        let old = config("data_dir = '/data/a'\n[[catalog]]\nsource = 'file:/a'\n");
        let new = config(
            "data_dir = '/data/b'\ngrpc = '127.0.0.1:1'\nmax_connections = 7\ndrain = '1s'\n\
             cors_origins = ['*']\npages = false\n[connections]\ncalls = 3\n[log]\nformat = 'json'\n\
             [registries]\ninsecure = ['a:1']\n[[catalog]]\nsource = 'file:/b'\n",
        );
        assert_eq!(
            old.needs_restart(&new),
            [
                "data_dir",
                "grpc",
                "max_connections",
                "connections",
                "cors_origins",
                "pages",
                "log"
            ]
        );
        assert!(old.needs_restart(&old).is_empty());
    }
}
