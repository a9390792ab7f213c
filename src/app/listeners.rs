//! The certificates, passwords and token rules that the program reads first, and
//! the listeners that all catalogs share. Both come before any catalog is read: a
//! port in use is the most common mistake, so it is reported at once.

use anyhow::Context as _;
use rustls::ServerConfig;

use crate::config::Config;
use crate::serve::access::Access;
use crate::serve::net::tls::Tls;
use crate::serve::net::{credential, tls};
use crate::serve::oci::{Authorizer, OpenedAuthorizer, TokenKeys, Users};
use crate::serve::{self, Listener};

/// The credentials of the server, and the means to check those of clients.
pub(super) struct Credentials {
    pub(super) grpc: Option<Tls>,
    pub(super) http: Option<Tls>,
    pub(super) certificates: Vec<credential::Followed<ServerConfig>>,
    pub(super) authorizer: Authorizer,
    pub(super) users: Option<credential::Followed<Users>>,
    pub(super) token_keys: Option<credential::Followed<TokenKeys>>,
}

impl Credentials {
    pub(super) fn open(config: &Config, access: &Access) -> anyhow::Result<Self> {
        let (grpc, http) = (open_grpc(config)?, open_http(config)?);
        let (authorizer, users, token_keys) = open_users(config, access)?;
        if users.is_some() && http.is_none() {
            tracing::warn!("{USERS_WITHOUT_TLS}");
        }
        let (grpc, grpc_files) = grpc.unzip();
        let (http, http_files) = http.unzip();
        Ok(Self {
            grpc,
            http,
            certificates: grpc_files.into_iter().chain(http_files).collect(),
            authorizer,
            users,
            token_keys,
        })
    }

    /// The errors of all files, not only the first one.
    pub(super) fn check(config: &Config) -> Vec<anyhow::Error> {
        let users = open_users(config, &Access::default());
        if config.http_tls.is_none() && users.as_ref().is_ok_and(|(_, users, _)| users.is_some()) {
            tracing::warn!("{USERS_WITHOUT_TLS}");
        }
        let errors = [
            open_grpc(config).err(),
            open_http(config).err(),
            users.err(),
        ];
        errors.into_iter().flatten().collect()
    }
}

const USERS_WITHOUT_TLS: &str =
    "passwords are sent without TLS: anyone on the network can read them";

type OpenTls = (Tls, credential::Followed<ServerConfig>);

fn open_grpc(config: &Config) -> anyhow::Result<Option<OpenTls>> {
    open_tls("grpc", config.grpc_tls.as_ref(), &["h2"])
}

fn open_http(config: &Config) -> anyhow::Result<Option<OpenTls>> {
    open_tls("http", config.http_tls.as_ref(), &["h2", "http/1.1"])
}

fn open_tls(
    service: &'static str,
    settings: Option<&tls::Settings>,
    protocols: &'static [&'static str],
) -> anyhow::Result<Option<OpenTls>> {
    let opened = settings.map(|settings| Tls::open(service, settings, protocols));
    opened
        .transpose()
        .with_context(|| format!("TLS of {service}"))
}

fn open_users(config: &Config, access: &Access) -> anyhow::Result<OpenedAuthorizer> {
    let opened = Authorizer::open(&config.distribution, access.clone());
    opened.context("users who may pull images")
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
