//! What is written about the ports, apart from where they are: TLS, and how much
//! clients may take of them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;

use crate::config::error::ConfigError;
use crate::config::value::{ClientCertificates, Timeout, TlsVersion};
use crate::serve::Limits;
use crate::serve::net::tls;

/// What clients may take of the ports.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionSettings {
    /// The most gRPC calls that are answered at once.
    pub calls: Option<NonZeroUsize>,
    /// The most of them on one connection.
    pub calls_per_connection: Option<NonZeroUsize>,
    /// The longest time of an HTTP connection without a request.
    pub idle_timeout: Option<Timeout>,
    /// The longest time in which a client takes nothing of an answer.
    pub stall_timeout: Option<Timeout>,
    /// The longest time for a TLS handshake.
    pub handshake_timeout: Option<Timeout>,
}

/// TLS of a port; without a certificate there is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate and those above it, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
    /// The authorities that clients' certificates are verified with, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Whether clients have to show one.
    pub client_certificates: Option<ClientCertificates>,
    /// The lowest version.
    pub min_version: Option<TlsVersion>,
}

impl ConnectionSettings {
    /// What the ports need, with the most connections of each.
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

    pub(super) fn over(self, lower: Self) -> Self {
        let Self {
            calls,
            calls_per_connection,
            idle_timeout,
            stall_timeout,
            handshake_timeout,
        } = self;
        Self {
            calls: calls.or(lower.calls),
            calls_per_connection: calls_per_connection.or(lower.calls_per_connection),
            idle_timeout: idle_timeout.or(lower.idle_timeout),
            stall_timeout: stall_timeout.or(lower.stall_timeout),
            handshake_timeout: handshake_timeout.or(lower.handshake_timeout),
        }
    }
}

impl TlsSettings {
    /// The files that are named.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.certificate, &mut self.key, &mut self.client_ca];
        files.into_iter().flatten()
    }

    /// What the port needs; nothing when nothing is written. `table` is the
    /// one that it is written in.
    pub(super) fn resolve(
        &self,
        table: &'static str,
    ) -> Result<Option<tls::Settings>, ConfigError> {
        let missing = |key| ConfigError::Tls { table, key };
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            // In this order, so that the first that is missing is named.
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
            min_version: self
                .min_version
                .map(|TlsVersion(version)| version)
                .unwrap_or_default(),
        }))
    }

    pub(super) fn over(self, lower: Self) -> Self {
        let Self {
            certificate,
            key,
            client_ca,
            client_certificates,
            min_version,
        } = self;
        Self {
            certificate: certificate.or(lower.certificate),
            key: key.or(lower.key),
            client_ca: client_ca.or(lower.client_ca),
            client_certificates: client_certificates.or(lower.client_certificates),
            min_version: min_version.or(lower.min_version),
        }
    }
}
