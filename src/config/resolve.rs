//! Resolves the settings of the registry client and of the cache.

use crate::config::environment::Environment;
use crate::config::settings::{CacheSettings, RegistrySettings};
use crate::config::value::{Host, Time, Timeout};
use crate::store::CacheLimits;

impl RegistrySettings {
    /// The settings of the registry client. Without explicit files, it uses
    /// those of podman and docker.
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
    /// The limits that the store enforces.
    pub fn resolve(self) -> CacheLimits {
        let default = CacheLimits::default();
        CacheLimits {
            max_age: self.max_age.map_or(default.max_age, |Time(time)| time),
            max_bytes: self.max_bytes.unwrap_or(default.max_bytes),
        }
    }
}
