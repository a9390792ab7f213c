//! The settings of ports besides their addresses: TLS and limits.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::error::ConfigError;
use crate::config::layer::layer;
use crate::config::value::{ClientCertificates, Timeout, TlsVersion};
use crate::kubernetes::tls_rules_file;
use crate::serve::Limits;
use crate::serve::net::tls;

/// Limits of calls and connections.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionSettings {
    /// The most concurrent gRPC calls.
    pub calls: Option<NonZeroUsize>,
    /// The most concurrent gRPC calls of one connection.
    pub calls_per_connection: Option<NonZeroUsize>,
    /// The longest time of an HTTP connection without a request.
    pub idle_timeout: Option<Timeout>,
    /// The longest time in which a client reads nothing of an answer.
    pub stall_timeout: Option<Timeout>,
    /// The longest time for a TLS handshake.
    pub handshake_timeout: Option<Timeout>,
}

/// TLS of a port; enabled by a certificate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
    /// The authorities of client certificates, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Whether clients must present a certificate.
    pub client_certificates: Option<ClientCertificates>,
    /// The lowest version of TLS.
    pub min_version: Option<TlsVersion>,
}

impl ConnectionSettings {
    /// The limits of the ports, with the connection limit of each.
    pub(super) fn resolve(self, connections: Option<NonZeroUsize>) -> Limits {
        let default = Limits::default();
        let number = |set: Option<NonZeroUsize>, default| set.map_or(default, Into::into);
        let time = |set: Option<Timeout>, default| set.map_or(default, |Timeout(time)| time);
        Limits {
            connections: number(connections, default.connections),
            calls: number(self.calls, default.calls),
            calls_per_connection: number(self.calls_per_connection, default.calls_per_connection),
            idle_timeout: time(self.idle_timeout, default.idle_timeout),
            stall_timeout: time(self.stall_timeout, default.stall_timeout),
            handshake_timeout: time(self.handshake_timeout, default.handshake_timeout),
            ..default
        }
    }
}

impl TlsSettings {
    /// Whether the port has the TLS profile of the cluster.
    pub(super) fn follows_cluster(&self) -> bool {
        self.min_version == Some(TlsVersion::Cluster)
    }

    /// The files of the settings.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.certificate, &mut self.key, &mut self.client_ca];
        files.into_iter().flatten()
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
        let optional = self.client_certificates == Some(ClientCertificates::Optional);
        Ok(Some(tls::Settings {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.client_ca.clone(),
            client_optional: optional,
            min_version: match self.min_version {
                Some(TlsVersion::Fixed(version)) => version,
                Some(TlsVersion::Cluster) | None => tls::Version::default(),
            },
            rules: self.follows_cluster().then(|| tls_rules_file(data_dir)),
        }))
    }
}

layer!(
    ConnectionSettings: calls, calls_per_connection, idle_timeout, stall_timeout, handshake_timeout
);
layer!(TlsSettings: certificate, key, client_ca, client_certificates, min_version);
