//! The steps of a new configuration that can fail. They run before anything
//! changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use crate::app::catalog_manager::member::Member;
use crate::config::{CatalogConfig, Config};
use crate::error_chain::error_chain;
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
pub(crate) struct Prepared {
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
    pub(crate) async fn first(config: &Config) -> anyhow::Result<Self> {
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
                rules.insert(catalog.name.clone(), open_rule(catalog)?);
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
        if has_tokens {
            warn_without_tls(config);
        }
        let signing_key = signing_key(config).await?;
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

    /// All errors of a first configuration, and warnings in the log. The ports of
    /// catalogs are bound meanwhile.
    pub(crate) async fn check(config: &Config) -> Vec<anyhow::Error> {
        let mut problems = Vec::new();
        let mut ports = Vec::new();
        let mut has_tokens = false;
        for catalog in &config.catalogs {
            match open_rule(catalog) {
                Err(error) => problems.push(error),
                Ok((rule, _)) => {
                    has_tokens |= rule.has_tokens();
                    if rule.admits_nobody() {
                        problems.push(anyhow!(
                            "bearer tokens of the catalog {}: {} has no token, so nobody can read it",
                            catalog.name,
                            shown(&catalog.access.token_files)
                        ));
                    }
                }
            }
            if let Some(address) = catalog.grpc {
                match bind(&catalog.name, address).await {
                    Ok(port) => ports.push(port),
                    Err(error) => problems.push(error),
                }
            }
        }
        if has_tokens {
            warn_without_tls(config);
        }
        problems.extend(signing_key(config).await.err());
        let webhooks = config.webhooks.clone();
        let errors = tokio::task::spawn_blocking(move || {
            let receivers = webhooks.iter().map(Receiver::new);
            receivers.filter_map(Result::err).collect::<Vec<_>>()
        });
        problems.extend((errors.await.into_iter().flatten()).map(anyhow::Error::new));
        problems
    }
}

/// The access rule of a catalog, with its files.
fn open_rule(
    catalog: &CatalogConfig,
) -> anyhow::Result<(Rule, Option<credential::Followed<Tokens>>)> {
    let opened = Rule::open(&catalog.name, &catalog.access);
    opened.with_context(|| format!("bearer tokens of the catalog {}", catalog.name))
}

/// The key that signs images. To decrypt it takes a core for a while.
async fn signing_key(config: &Config) -> anyhow::Result<Option<Arc<SigningKey>>> {
    let Some(source) = config.signing_key.clone() else {
        return Ok(None);
    };
    let key = tokio::task::spawn_blocking(move || source.read()).await?;
    let key = key.map_err(|error| anyhow!("signatures of images: {}", error_chain(&error)));
    Ok(Some(Arc::new(key?)))
}

fn warn_without_tls(config: &Config) {
    if config.http_tls.is_none() {
        tracing::warn!("bearer tokens are sent without TLS: anyone on the network can read them");
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
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
