//! The HTTP clients: one for all hosts without certificates of their own, and
//! one for each host with such.

use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};
use quick_cache::sync::Cache;

use crate::config_files::FileError;
use crate::error::causes;
use crate::registry::certificates::{Certificates, Chosen};
use crate::registry::outside::OutsideHost;
use crate::settings::Settings;

/// The most HTTP clients that are kept. Further ones replace those used least.
const MAX_CLIENTS: usize = 64;

/// The HTTP clients of a program.
pub(super) struct HttpClients {
    settings: Settings,
    pub(super) certificates: Certificates,
    clients: Cache<ClientKey, reqwest::Client>,
}

/// The properties in which HTTP clients differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientKey {
    /// Whether proxies are ignored.
    pub(super) direct: bool,
    /// Whether any certificate is accepted.
    pub(super) unverified: bool,
    /// The certificate files.
    pub(super) certificates: Chosen,
    /// The host whose name must not lead to this machine.
    pub(super) outside: Option<OutsideHost>,
}

/// Why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    Build(String),
}

impl HttpClients {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            certificates: Certificates::new(&settings.ca_files, &settings.certificate_folders),
            clients: Cache::new(MAX_CLIENTS),
        }
    }

    /// The client for a key. It reads certificate files, so it blocks.
    pub(super) fn get(&self, key: &ClientKey) -> Result<reqwest::Client, ClientError> {
        self.clients.get_or_insert_with(key, || self.build(key))
    }

    fn build(&self, key: &ClientKey) -> Result<reqwest::Client, ClientError> {
        let (authorities, identity) = key.certificates.load()?;
        let builder = || {
            let declined = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let builder = reqwest::Client::builder()
                .user_agent(self.settings.user_agent.as_str())
                .default_headers(HeaderMap::from_iter([declined]))
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(self.settings.connect_timeout)
                .read_timeout(self.settings.idle_timeout)
                .tls_danger_accept_invalid_certs(key.unverified)
                .tls_certs_merge(authorities.iter().cloned());
            let builder = match &identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            };
            let builder = match &key.outside {
                Some(outside) => builder.dns_resolver(Arc::new(outside.clone())),
                None => builder,
            };
            if key.direct {
                builder.no_proxy()
            } else {
                builder
            }
        };
        let built = builder().build().or_else(|error| {
            // Without system certificates, plain http still works, and https
            // with the configured authorities.
            tracing::warn!(error = %causes(&error), "cannot load the system's certificate authorities; only configured ones are trusted");
            builder()
                .tls_certs_only(authorities.iter().cloned())
                .build()
        });
        built.map_err(|error| ClientError::Build(causes(&error)))
    }
}
