//! The certificates, passwords and token rules that the program reads first, and
//! the listeners that all catalogs share. Both come before any catalog is read: a
//! port in use is the most common mistake, so it is reported at once.

use anyhow::Context as _;
use rustls::ServerConfig;

use crate::config::Config;
use crate::serve::access::Access;
use crate::serve::net::tls::Tls;
use crate::serve::net::{credential, tls};
use crate::serve::oci::{Authorizer, Users};
use crate::serve::{self, Listener};

/// The credentials of the server, and the means to check those of clients.
pub(super) struct Credentials {
    pub(super) grpc: Option<Tls>,
    pub(super) http: Option<Tls>,
    pub(super) certificates: Vec<credential::Followed<ServerConfig>>,
    pub(super) authorizer: Authorizer,
    pub(super) users: Option<credential::Followed<Users>>,
}

impl Credentials {
    pub(super) fn open(config: &Config, access: &Access) -> anyhow::Result<Self> {
        let mut certificates = Vec::new();
        let mut open = |service, settings: &Option<tls::Settings>, protocols| {
            let Some(settings) = settings else {
                return anyhow::Ok(None);
            };
            let (tls, files) = Tls::open(service, settings, protocols)
                .with_context(|| format!("TLS of {service}"))?;
            certificates.push(files);
            Ok(Some(tls))
        };
        let grpc = open("grpc", &config.grpc_tls, &["h2"])?;
        let http = open("http", &config.http_tls, &["h2", "http/1.1"])?;
        let authorizer = Authorizer::open(&config.distribution, access.clone());
        let (authorizer, users) = authorizer.context("users who may pull images")?;
        if users.is_some() && http.is_none() {
            tracing::warn!("passwords are sent without TLS: anyone on the network can read them");
        }
        Ok(Self {
            grpc,
            http,
            certificates,
            authorizer,
            users,
        })
    }
}

/// The bound ports.
pub(super) struct Listeners {
    pub(super) grpc: Listener,
    pub(super) http: Listener,
    pub(super) admin: Listener,
    /// The admission webhook, with the certificate of the HTTP port.
    pub(super) webhook: Option<Listener>,
}

impl Listeners {
    pub(super) async fn bind(config: &Config, credentials: &Credentials) -> anyhow::Result<Self> {
        let mut ports = Self {
            grpc: serve::bind("grpc", config.grpc).await?,
            http: serve::bind("http", config.http).await?,
            admin: serve::bind("admin", config.admin).await?,
            webhook: match config.kubernetes.as_ref().and_then(|one| one.webhook) {
                Some(address) => Some(serve::bind("webhook", address).await?),
                None => None,
            },
        };
        ports.grpc.tls.clone_from(&credentials.grpc);
        ports.http.tls.clone_from(&credentials.http);
        if let Some(webhook) = &mut ports.webhook {
            webhook.tls.clone_from(&credentials.http);
        }
        Ok(ports)
    }

    pub(super) fn log(&self) {
        let webhook = self.webhook.iter();
        for listener in [&self.grpc, &self.http, &self.admin]
            .into_iter()
            .chain(webhook)
        {
            log(listener);
        }
    }
}

/// Logs the address of a listener.
pub(super) fn log(listener: &Listener) {
    tracing::info!(
        service = listener.service,
        address = %listener.address,
        catalog = listener.catalog.as_ref().map(tracing::field::display),
        tls = listener.tls.is_some(),
        "listening"
    );
}
