//! The HTTP clients: one for all hosts without certificates of their own, and
//! one for each host with such.

use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};
use quick_cache::sync::Cache;
use rustls::ClientConfig;

use crate::config_files::FileError;
use crate::error::causes;
use crate::registry::certificates::{Certificates, Chosen, Identity, Loaded};
use crate::registry::outside::OutsideHost;
use crate::registry::proxies::Proxies;
use crate::server_trust::Verifier;
use crate::settings::Settings;

/// The most HTTP clients that are kept. Further ones replace those used least.
const MAX_CLIENTS: usize = 64;
/// The most headers of a response. Some gateways add more than a hundred.
pub const MAX_HEADERS: usize = 1000;
/// The most bytes of the headers of a response.
const MAX_HEADER_BYTES: u32 = 256 << 10;

/// The HTTP clients of a program.
pub(super) struct HttpClients {
    settings: Settings,
    pub(super) certificates: Certificates,
    pub(super) proxies: Proxies,
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
            proxies: Proxies::from_environment(),
            clients: Cache::new(MAX_CLIENTS),
        }
    }

    /// The client for a key. It reads certificate files, so it blocks.
    pub(super) fn get(&self, key: &ClientKey) -> Result<reqwest::Client, ClientError> {
        self.clients.get_or_insert_with(key, || self.build(key))
    }

    fn build(&self, key: &ClientKey) -> Result<reqwest::Client, ClientError> {
        let declined = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let builder = reqwest::Client::builder()
            .user_agent(self.settings.user_agent.as_str())
            .default_headers(HeaderMap::from_iter([declined]))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.settings.connect_timeout)
            .read_timeout(self.settings.idle_timeout)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .tls_backend_preconfigured(tls(key)?);
        let builder = match &key.outside {
            Some(outside) => builder.dns_resolver(Arc::new(outside.clone())),
            None => builder,
        };
        let builder = if key.direct {
            builder.no_proxy()
        } else {
            builder
        };
        let built = builder.build();
        built.map_err(|error| ClientError::Build(causes(&error)))
    }
}

/// The TLS settings of a client.
fn tls(key: &ClientKey) -> Result<ClientConfig, ClientError> {
    let Loaded { trusted, identity } = key.certificates.load()?;
    let failed = |error: rustls::Error| ClientError::Build(error.to_string());
    let verifier = if key.unverified {
        Verifier::with_any_certificate()
    } else {
        Verifier::with_system_and(trusted.clone()).or_else(|error| {
            // Without system certificates, plain http still works, and https
            // with the configured authorities.
            tracing::warn!(%error, "cannot load the system's certificate authorities; only configured ones are trusted");
            Verifier::with_certificates(trusted).map_err(failed)
        })?
    };
    let builder = verifier.client().map_err(failed)?;
    let mut tls = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { chain, key }) => {
            builder.with_client_auth_cert(chain, key).map_err(failed)?
        }
    };
    tls.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
    Ok(tls)
}
