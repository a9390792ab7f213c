//! The steps of a new configuration that can fail. They run before anything
//! changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use crate::app::catalog_manager::member::Member;
use crate::config::Config;
use crate::name::CatalogName;
use crate::serve::access::{Rule, Tokens};
use crate::serve::net::credential;
use crate::serve::{self, Listener};
use crate::webhooks::Receiver;
use ::images::signing::SigningKey;

/// How long to wait for a port that another catalog releases.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts to bind it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Opened token files and ports of a new configuration.
pub(in crate::app) struct Prepared {
    /// One for each catalog whose access changes.
    pub(super) rules: BTreeMap<CatalogName, (Rule, Option<credential::Followed<Tokens>>)>,
    /// One for each catalog whose own port changes.
    pub(super) ports: BTreeMap<CatalogName, Port>,
    /// The key that signs images.
    pub(super) signing_key: Option<Arc<SigningKey>>,
    /// The receivers of webhooks.
    pub(super) receivers: Vec<Receiver>,
}

impl Prepared {
    /// Prepares the first configuration.
    pub(in crate::app) async fn first(config: &Config) -> anyhow::Result<Self> {
        Self::new(config, &BTreeMap::new()).await
    }

    pub(super) async fn new(
        config: &Config,
        members: &BTreeMap<CatalogName, Member>,
    ) -> anyhow::Result<Self> {
        let mut rules = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for catalog in &config.catalogs {
            let old = members.get(&catalog.name).map(|member| &member.config);
            if old.is_none_or(|old| old.access != catalog.access) {
                let rule = Rule::open(&catalog.name, &catalog.access).context("bearer tokens")?;
                rules.insert(catalog.name.clone(), rule);
            }
            if old.is_none_or(|old| old.grpc != catalog.grpc) {
                let held = |address| {
                    let mut others = members.values();
                    others.any(|other| other.config.grpc == Some(address))
                };
                let port = match catalog.grpc {
                    None => Port::None,
                    Some(address) if address.port() != 0 && held(address) => {
                        Port::HeldByOther(address)
                    }
                    Some(address) => Port::Bound(bind(&catalog.name, address).await?),
                };
                ports.insert(catalog.name.clone(), port);
            }
        }
        let has_tokens = rules.values().any(|(rule, _)| rule.has_tokens());
        if has_tokens && config.http_tls.is_none() {
            tracing::warn!(
                "bearer tokens are sent without TLS: anyone on the network can read them"
            );
        }
        let signing_key = match config.signing_key.clone() {
            Some(source) => {
                // To decrypt it takes a core for a while.
                let key = tokio::task::spawn_blocking(move || source.read()).await?;
                // The error tells its cause itself.
                let key = key.map_err(|error| anyhow!("signatures of images: {error}"));
                Some(Arc::new(key?))
            }
            None => None,
        };
        let webhooks = config.webhooks.clone();
        let receivers = tokio::task::spawn_blocking(move || {
            let receivers = webhooks.iter().map(Receiver::new);
            receivers.collect::<Result<_, _>>()
        });
        Ok(Self {
            rules,
            ports,
            signing_key,
            receivers: receivers.await??,
        })
    }
}

/// The gRPC port that belongs to one catalog.
pub(super) enum Port {
    /// The catalog has none.
    None,
    /// The port is bound.
    Bound(Listener),
    /// Another catalog holds it until the new configuration is active.
    HeldByOther(SocketAddr),
}

impl Port {
    /// The listener, once the port is free.
    pub(super) async fn listener(self, name: &CatalogName) -> Option<Listener> {
        let address = match self {
            Self::None => return None,
            Self::Bound(listener) => return Some(listener),
            Self::HeldByOther(address) => address,
        };
        // The last accept of the other listener may still be finishing.
        let bound = tokio::time::timeout(RELEASE_TIMEOUT, async {
            loop {
                match bind(name, address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
                }
            }
        });
        let listener = bound.await.ok();
        if listener.is_none() {
            tracing::error!(
                catalog = %name, %address,
                "the port of the catalog is still in use, so the catalog has no port of its own"
            );
        }
        listener
    }
}

/// Binds the port of a catalog.
async fn bind(name: &CatalogName, address: SocketAddr) -> anyhow::Result<Listener> {
    let bound = serve::bind("grpc", address).await;
    let mut listener = bound.with_context(|| format!("port of the catalog {name}"))?;
    listener.catalog = Some(name.clone());
    Ok(listener)
}
