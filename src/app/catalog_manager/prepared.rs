//! The steps of a new configuration that can fail. They run before anything
//! changes.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::app::catalog_manager::member::Member;
use crate::app::catalog_manager::port::{self, Port};
use crate::config::Config;
use crate::name::CatalogName;
use crate::serve::access::{Rule, Tokens};
use crate::serve::net::credential;

/// Opened token files and ports of a new configuration.
pub(in crate::app) struct Prepared {
    /// One for each catalog whose access changes.
    pub(super) rules: BTreeMap<CatalogName, (Rule, Option<credential::Followed<Tokens>>)>,
    /// One for each catalog whose own port changes.
    pub(super) ports: BTreeMap<CatalogName, Port>,
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
                    Some(address) => Port::Bound(port::bind(&catalog.name, address).await?),
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
        Ok(Self { rules, ports })
    }
}
