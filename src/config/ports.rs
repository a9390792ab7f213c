//! The settings of ports besides their addresses: TLS and limits.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::declaration::settings;
use crate::config::error::ConfigError;
use crate::config::value::{ClientCertificates, Timeout, TlsVersion};
use crate::kubernetes::tls_rules_file;
use crate::serve::Limits;
use crate::serve::net::tls;

settings! {
    /// Limits of calls and connections.
    #[derive(Clone, Copy, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ConnectionSettings {
        /// Concurrent gRPC calls on all ports.
        pub calls: Option<NonZeroUsize> = at_least_one(Limits::default().calls);
        /// Concurrent gRPC calls per connection.
        pub calls_per_connection: Option<NonZeroUsize> =
            at_least_one(Limits::default().calls_per_connection);
        /// HTTP: time without a request, and for its head; all: time to the first bytes. gRPC
        /// that answers pings may idle.
        pub idle_timeout: Option<Timeout> = Timeout(Limits::default().idle_timeout);
        /// Time to accept 4 KiB of a waiting answer; then the stream or connection ends.
        pub stall_timeout: Option<Timeout> = Timeout(Limits::default().stall_timeout);
        /// TLS handshake.
        pub handshake_timeout: Option<Timeout> = Timeout(Limits::default().handshake_timeout);
    }
}

settings! {
    /// TLS of a port; enabled by a certificate.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct TlsSettings {
        /// PEM: certificate and intermediates.
        pub certificate: Option<PathBuf>, example "tls/tls.crt";
        /// PEM: private key.
        pub key: Option<PathBuf>, example "tls/tls.key";
        /// PEM: authorities of client certificates, which are requested then.
        pub client_ca: Option<PathBuf>, example "tls/ca.crt";
        /// `required`, or `optional` for `client_certificate` of a catalog.
        pub client_certificates: Option<ClientCertificates> = ClientCertificates::Required;
        /// `1.2`, `1.3`, or `cluster`: the TLS profile of
        /// [OpenShift](#tls-profile-of-the-cluster).
        pub min_version: Option<TlsVersion> = TlsVersion::Fixed(tls::Version::default());
    }
}

impl ConnectionSettings {
    /// The limits of the ports, with the connection limit of each.
    pub(super) fn resolve(self, connections: NonZeroUsize) -> Limits {
        Limits {
            connections: connections.get(),
            calls: self.calls().get(),
            calls_per_connection: self.calls_per_connection().get(),
            idle_timeout: self.idle_timeout().0,
            stall_timeout: self.stall_timeout().0,
            handshake_timeout: self.handshake_timeout().0,
            ..Limits::default()
        }
    }
}

/// A default that is never zero.
pub(super) fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

impl TlsSettings {
    /// Whether the port has the TLS profile of the cluster.
    pub(super) fn follows_cluster(&self) -> bool {
        self.min_version == Some(TlsVersion::Cluster)
    }

    /// The TLS settings of the port, or `None` without any. `table` is the table
    /// in the file, for errors. Rules of the cluster are kept in `data_dir`.
    pub(super) fn resolve(
        &self,
        table: &'static str,
        data_dir: &Path,
    ) -> Result<Option<tls::Settings>, ConfigError> {
        let missing = |key| ConfigError::Tls { table, key };
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            // The order names the first missing key.
            let others = self.client_ca.is_some()
                || self.client_certificates.is_some()
                || self.min_version.is_some();
            return match (&self.certificate, &self.key) {
                (None, None) if !others => Ok(None),
                (None, _) => Err(missing("certificate")),
                _ => Err(missing("key")),
            };
        };
        if self.client_certificates.is_some() && self.client_ca.is_none() {
            return Err(missing("client_ca"));
        }
        let optional = self.client_certificates() == ClientCertificates::Optional;
        Ok(Some(tls::Settings {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.client_ca.clone(),
            client_optional: optional,
            min_version: match self.min_version() {
                TlsVersion::Fixed(version) => version,
                TlsVersion::Cluster => tls::Version::default(),
            },
            rules: self.follows_cluster().then(|| tls_rules_file(data_dir)),
        }))
    }
}
