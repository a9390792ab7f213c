//! The catalogs that are followed and served. A configuration is applied in two
//! steps: first everything that can fail is prepared, then all changes are made
//! at once.

mod member;
mod prepared;
mod shared;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};

pub(super) use prepared::Prepared;
pub(super) use shared::Shared;

use crate::app::listeners;
use crate::config::Config;
use crate::ingest::{self, PassContext};
use crate::name::CatalogName;
use crate::serve::access::Rule;
use ::images::signing::SigningKey;
use ::images::{Registries, layers as unpack};
use member::Member;
use prepared::Port;

/// The number of stored revisions that are opened at a time. Each takes a processor for
/// some milliseconds, and memory.
const RESTORED: usize = 4;

/// Follows and serves the catalogs of the active configuration.
pub(super) struct CatalogManager {
    shared: Shared,
    context: PassContext,
    registries: images::Settings,
    members: BTreeMap<CatalogName, Member>,
}

impl CatalogManager {
    /// A manager without catalogs.
    pub(super) fn new(shared: Shared, context: PassContext, registries: images::Settings) -> Self {
        Self {
            shared,
            context,
            registries,
            members: BTreeMap::new(),
        }
    }

    /// Makes a configuration active. A catalog that stays the same is served
    /// without interruption.
    ///
    /// # Errors
    /// When a port, token file, webhook or registry setting cannot be used. Then nothing
    /// has changed.
    pub(super) async fn reconfigure(&mut self, config: &Config) -> anyhow::Result<()> {
        let prepared = Prepared::new(config, &self.members).await?;
        let registries = if config.registries == self.registries {
            None
        } else {
            let registries = Registries::new(&config.registries);
            Some(registries.context("cannot set up the registry client")?)
        };
        let limits = &config.unpack;
        self.apply(config, prepared, registries, limits).await;
        Ok(())
    }

    /// Makes the first configuration active, which is prepared already.
    pub(super) async fn start(&mut self, config: &Config, prepared: Prepared) {
        self.apply(config, prepared, None, &config.unpack).await;
    }

    /// Changes what all passes share. Returns whether that has other registries, limits or
    /// another key than before.
    fn change_context(
        &mut self,
        config: &Config,
        prepared: &mut Prepared,
        registries: Option<Registries>,
        limits: &unpack::Limits,
    ) -> bool {
        let id = |key: Option<&Arc<SigningKey>>| key.map(|key| key.public_key_digest());
        let has_changed = registries.is_some()
            || self.context.limits != *limits
            || id(self.context.signing_key.as_ref()) != id(prepared.signing_key.as_ref());
        self.context.signing_key = prepared.signing_key.take();
        if let Some(registries) = registries {
            self.context.registries = registries;
            self.registries = config.registries.clone();
        }
        self.context.limits = limits.clone();
        self.context
            .scrub
            .send_if_modified(|scrub| std::mem::replace(scrub, config.scrub) != config.scrub);
        self.context.history.send_replace(config.history);
        let receivers = std::mem::take(&mut prepared.receivers);
        let (tasks, stopping) = (&self.shared.followers, &self.shared.stopping);
        self.context.webhooks.set(receivers, tasks, stopping);
        has_changed
    }

    async fn apply(
        &mut self,
        config: &Config,
        mut prepared: Prepared,
        registries: Option<Registries>,
        limits: &unpack::Limits,
    ) {
        let context_changed = self.change_context(config, &mut prepared, registries, limits);
        log_warnings(config);
        let mut old = std::mem::take(&mut self.members);
        let mut new = Vec::with_capacity(config.catalogs.len());
        let (mut starting, mut ending) = (Vec::new(), Vec::new());
        let (shared, context) = (&self.shared, &self.context);
        let added = config.catalogs.iter();
        let added = added.filter(|catalog| !old.contains_key(&catalog.name));
        let restored: Vec<_> = added
            .map(|catalog| async {
                let member = Member::restored(catalog, shared, context).await;
                (catalog.name.clone(), member)
            })
            .collect();
        let restored = stream::iter(restored).buffer_unordered(RESTORED);
        let mut restored: BTreeMap<CatalogName, Member> = restored.collect().await;
        for catalog in &config.catalogs {
            let mut member = match old.remove(&catalog.name) {
                Some(member) => {
                    let changed = member.reconfigured(catalog, context_changed, shared, context);
                    changed.await
                }
                None => match restored.remove(&catalog.name) {
                    Some(member) => member,
                    None => Member::restored(catalog, shared, context).await,
                },
            };
            if let Some((rule, tokens)) = prepared.rules.remove(&catalog.name) {
                member.rule = rule;
                let tokens = tokens.map(|files| shared.spawn(|stop| files.follow(stop)));
                ending.extend(std::mem::replace(&mut member.tokens, tokens));
            }
            if let Some(port) = prepared.ports.remove(&catalog.name) {
                ending.extend(member.port.take());
                starting.push((catalog.name.clone(), port));
            }
            new.push(member);
        }

        self.publish(config, &new, &old);
        let available = member::available(&new);
        for mut member in new {
            member.start(shared, context, &available);
            self.members.insert(member.config.name.clone(), member);
        }
        for (name, mut member) in old {
            tracing::info!(catalog = %name, "the catalog was removed from the configuration");
            member.end_work().await;
            ingest::forget(&name);
            ending.extend(member.tokens.into_iter().chain(member.port));
        }
        // Ports become free before others take them.
        for task in ending {
            task.end().await;
        }
        for (name, port) in starting {
            self.open(&name, port).await;
        }
    }

    /// Shows clients the new catalogs in place of the old ones. A rule applies
    /// before its catalog becomes visible, and until it is hidden.
    fn publish(&self, config: &Config, new: &[Member], old: &BTreeMap<CatalogName, Member>) {
        let rule = |member: &Member| (member.config.name.clone(), member.rule.clone());
        let rules = new.iter().map(rule);
        let both: Vec<(CatalogName, Rule)> = old.values().map(rule).chain(rules.clone()).collect();
        self.shared.access.set(both);
        let catalogs = new.iter().map(|member| Arc::clone(&member.catalog));
        let default = config.default_catalog.clone();
        self.shared.publisher.set(catalogs, default);
        let images = new.iter().filter(|member| member.config.available);
        let images = images.map(|member| {
            let (name, image) = (member.config.name.clone(), member.image.clone());
            (name, image, member::mirrored(&member.config))
        });
        self.shared.images.set(images);
        self.shared.access.note_removed(old.values().map(rule));
        self.shared.access.set(rules);
    }

    /// Serves a catalog on its own port.
    async fn open(&mut self, name: &CatalogName, port: Port) {
        let Some(mut listener) = port.listener(name).await else {
            return;
        };
        listener.tls.clone_from(&self.shared.tls);
        listeners::log(&listener);
        let registry = self.shared.registry.clone();
        let connections = self.shared.connections.clone();
        let serve = |stop| registry.serve(listener, stop, connections);
        let task = self.shared.spawn(serve);
        if let Some(member) = self.members.get_mut(name) {
            member.port = Some(task);
        }
    }
}

/// Logs all warnings about a configuration.
fn log_warnings(config: &Config) {
    for catalog in &config.catalogs {
        if let Some(reason) = &catalog.fallback {
            tracing::warn!(
                catalog = %catalog.name, source = %catalog.source, reason,
                "the image template gives no image, so the plain source is used"
            );
        }
    }
    warn_of_unread(config);
    warn_of_shared_services(config);
    shared_paths(config);
    shadowed_names(config);
}

/// Warns of documents that no catalog is made of.
pub(super) fn warn_of_unread(config: &Config) {
    for catalog in &config.catalogs {
        if let Some(unread) = &catalog.unread_document {
            tracing::warn!(catalog = %catalog.name, "{unread}");
        }
    }
}

/// Warns of catalogs of which a cluster could have only one Service.
pub(super) fn warn_of_shared_services(config: &Config) {
    let mut services = BTreeMap::new();
    for catalog in &config.catalogs {
        let service = catalog.name.service_name();
        if let Some(other) = services.insert(service.clone(), &catalog.name) {
            tracing::warn!(
                catalog = %catalog.name, %other, service,
                "both catalogs would have this Service in a cluster: give one of them another name"
            );
        }
    }
}

/// Mirrors that only their registry tells apart below `/v2/`.
fn shared_paths(config: &Config) {
    for (number, catalog) in config.catalogs.iter().enumerate() {
        let Some(own) = member::mirrored(catalog) else {
            continue;
        };
        let path = own.repository.as_str();
        for (other_number, other) in config.catalogs.iter().enumerate() {
            let same_path = member::mirrored(other).filter(|other| other.repository == path);
            if other_number < number && same_path.is_some_and(|o| o.registry != own.registry) {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "two mirrored registries have this path: pull with ns=REGISTRY, as \
                     containerd does, or by the names of the catalogs"
                );
            }
            if number != other_number && other.name.as_str() == path {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "this path is also the name of another catalog, which takes precedence"
                );
            }
        }
    }
}

/// Authorities that equal the name of another catalog. An authority takes
/// precedence over a name, so clients that call a catalog by its bare name get
/// the other one.
fn shadowed_names(config: &Config) {
    for catalog in &config.catalogs {
        let others = config.catalogs.iter().map(|other| &other.name);
        for other in others.filter(|other| **other != catalog.name) {
            if catalog.authorities.iter().any(|it| it == other.as_str()) {
                tracing::warn!(
                    catalog = %catalog.name, %other,
                    "an authority of this catalog is the name of another: clients that ask \
                     for that host get this catalog"
                );
            }
        }
    }
}
