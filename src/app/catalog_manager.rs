//! The catalogs that are followed and served, each with what belongs to it
//! alone: its follower, its rule of access, its own port. A configuration is
//! taken in two steps: what may fail is prepared, then all is changed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{CatalogConfig, Config};
use crate::ingest::{self, Followed, Workshop};
use crate::name::CatalogName;
use crate::serve;
use crate::serve::access::{Access, Rule, Tokens};
use crate::serve::net::credential;
use crate::serve::net::tls::Tls;
use crate::serve::{Listener, grpc};
use crate::snapshot::{
    Catalog, Catalogs, CatalogsPublisher, ImagePublisher, ImageSlot, Images, Mirrored, Publisher,
    Routing,
};
use ::images::{Registries, layers as unpack};

/// How long a port that another catalog gives up may take to become free.
const FREE_PORT: Duration = Duration::from_secs(5);

/// What all catalogs share.
pub(super) struct Shared {
    /// Decides which catalogs clients see.
    pub(super) publisher: CatalogsPublisher,
    /// What can be pulled of them.
    pub(super) images: Images,
    /// Whether no source is looked at.
    pub(super) offline: bool,
    /// Who may read them.
    pub(super) access: Access,
    /// Answers on their own ports.
    pub(super) registry: grpc::Service,
    /// TLS of these.
    pub(super) tls: Option<Tls>,
    /// Open connections, to be waited for at the end.
    pub(super) connections: TaskTracker,
    /// Followers, to be waited for at the end.
    pub(super) followers: TaskTracker,
    /// Told at the end of almanac.
    pub(super) stopping: CancellationToken,
}

/// The catalogs that are followed and served.
pub(super) struct Fleet {
    shared: Shared,
    workshop: Workshop,
    registries: images::Settings,
    members: BTreeMap<CatalogName, Member>,
}

/// One of them.
struct Member {
    config: CatalogConfig,
    catalog: Arc<Catalog>,
    publisher: Publisher,
    image: ImageSlot,
    maker: ImagePublisher,
    /// What follows the catalog, and what keeps its image; none when no source
    /// is looked at.
    work: Vec<Task>,
    rule: Rule,
    tokens: Option<Task>,
    port: Option<Task>,
}

/// Something that runs until it is stopped.
struct Task {
    stop: CancellationToken,
    handle: JoinHandle<()>,
}

impl Task {
    async fn end(self) {
        self.stop.cancel();
        // A panic of it has been shown.
        let _ = self.handle.await;
    }
}

/// What a configuration needs that may not be had, opened.
pub(super) struct Prepared {
    /// Of each catalog whose access changes.
    rules: BTreeMap<CatalogName, (Rule, Option<credential::Followed<Tokens>>)>,
    /// Of each catalog whose own port changes.
    ports: BTreeMap<CatalogName, Port>,
}

/// A catalog's own port.
enum Port {
    None,
    Bound(Listener),
    /// Another catalog has it until the new configuration counts.
    Taken(SocketAddr),
}

impl Prepared {
    /// For the catalogs of a first configuration.
    pub(super) async fn first(config: &Config) -> anyhow::Result<Self> {
        Self::new(config, &BTreeMap::new()).await
    }

    async fn new(config: &Config, members: &BTreeMap<CatalogName, Member>) -> anyhow::Result<Self> {
        let mut rules = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for catalog in &config.catalogs {
            let old = members.get(&catalog.name).map(|member| &member.config);
            if old.is_none_or(|old| old.access != catalog.access) {
                let rule = Rule::open(&catalog.name, &catalog.access).context("bearer tokens")?;
                rules.insert(catalog.name.clone(), rule);
            }
            if old.is_none_or(|old| old.grpc != catalog.grpc) {
                let taken = |address| {
                    let mut others = members.values();
                    others.any(|other| other.config.grpc == Some(address))
                };
                let port = match catalog.grpc {
                    None => Port::None,
                    Some(address) if address.port() != 0 && taken(address) => Port::Taken(address),
                    Some(address) => Port::Bound(bind(&catalog.name, address).await?),
                };
                ports.insert(catalog.name.clone(), port);
            }
        }
        let asked = rules.values().any(|(rule, _)| rule.has_tokens());
        if asked && config.http_tls.is_none() {
            tracing::warn!(
                "bearer tokens are asked for without TLS: whoever listens can read them"
            );
        }
        Ok(Self { rules, ports })
    }
}

async fn bind(name: &CatalogName, address: SocketAddr) -> anyhow::Result<Listener> {
    let bound = serve::bind("grpc", address)
        .await
        .with_context(|| format!("port of the catalog {name}"))?;
    Ok(bound.of_catalog(name.clone()))
}

impl Fleet {
    /// Without any catalogs yet.
    pub(super) fn new(shared: Shared, workshop: Workshop, registries: images::Settings) -> Self {
        Self {
            shared,
            workshop,
            registries,
            members: BTreeMap::new(),
        }
    }

    /// Follows and serves the catalogs of a configuration from now on, and no
    /// others. What a catalog serves is not touched when it stays the same.
    ///
    /// # Errors
    /// When something that it needs cannot be had. Then nothing has changed.
    pub(super) async fn take(&mut self, config: &Config) -> anyhow::Result<()> {
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

    /// The same with what is prepared already, for the first time.
    pub(super) async fn start(&mut self, config: &Config, prepared: Prepared) {
        self.apply(config, prepared, None, &config.unpack).await;
    }

    async fn apply(
        &mut self,
        config: &Config,
        mut prepared: Prepared,
        registries: Option<Registries>,
        limits: &unpack::Limits,
    ) {
        let other_workshop = registries.is_some() || self.workshop.limits != *limits;
        if let Some(registries) = registries {
            self.workshop.registries = registries;
            self.registries = config.registries.clone();
        }
        self.workshop.limits = limits.clone();

        warn_of_shared_paths(config);
        warn_of_shadowed_names(config);
        let mut old = std::mem::take(&mut self.members);
        let mut starts = Vec::new();
        let mut ended = Vec::new();
        let mut joined = Vec::new();
        for catalog in &config.catalogs {
            let followed = followed(catalog);
            if let Some(reason) = &catalog.fallback {
                tracing::warn!(
                    catalog = %catalog.name, source = %catalog.source, reason,
                    "the image template gives no image, so the plain one is taken"
                );
            }
            let mut plan = match old.remove(&catalog.name) {
                Some(member) => {
                    let same = self::followed(&member.config) == followed
                        && member.config.mirror == catalog.mirror
                        && !other_workshop;
                    self.kept(member, catalog, &followed, same).await
                }
                None => self.added(catalog, &followed).await,
            };
            if let Some((rule, tokens)) = prepared.rules.remove(&catalog.name) {
                plan.rule = rule;
                let tokens = tokens.map(|files| self.spawn(|stop| files.follow(stop)));
                ended.extend(std::mem::replace(&mut plan.tokens, tokens));
            }
            if let Some(port) = prepared.ports.remove(&catalog.name) {
                ended.extend(plan.port.take());
                starts.push((catalog.name.clone(), port));
            }
            joined.push((followed, plan));
        }

        // A rule counts before its catalog is seen, and until it is not any more.
        let rules = joined
            .iter()
            .map(|(_, plan)| (&plan.config.name, &plan.rule));
        let old_rules = old.iter().map(|(name, member)| (name, &member.rule));
        let both = old_rules.chain(rules.clone());
        let owned = |(name, rule): (&CatalogName, &Rule)| (name.clone(), rule.clone());
        self.shared.access.set(both.map(owned));
        let catalogs = joined.iter().map(|(_, plan)| Arc::clone(&plan.catalog));
        let default = config.default_catalog.clone();
        self.shared.publisher.set(catalogs, default);
        let images = joined.iter().filter(|(_, plan)| plan.config.available);
        let images = images.map(|(_, plan)| {
            let (name, image) = (plan.config.name.clone(), plan.image.clone());
            (name, image, mirrored(&plan.config))
        });
        self.shared.images.set(images);
        self.shared.access.set(rules.map(owned));

        let at_hand = at_hand(&joined);
        for (followed, mut plan) in joined {
            let work = match plan.work.take() {
                Some(work) => work,
                None => self.follow(followed, &plan, &at_hand),
            };
            let member = Member {
                config: plan.config,
                catalog: plan.catalog,
                publisher: plan.publisher,
                image: plan.image,
                maker: plan.maker,
                work,
                rule: plan.rule,
                tokens: plan.tokens,
                port: plan.port,
            };
            self.members.insert(member.config.name.clone(), member);
        }
        for (name, member) in old {
            tracing::info!(catalog = %name, "the catalog is not followed or served any more");
            for task in member.work {
                task.end().await;
            }
            ingest::forget(&name);
            ended.extend(member.tokens.into_iter().chain(member.port));
        }
        // Ports become free before others take them.
        for task in ended {
            task.end().await;
        }
        for (name, port) in starts {
            self.open(name, port).await;
        }
    }

    /// A catalog that was there before.
    async fn kept(
        &self,
        member: Member,
        config: &CatalogConfig,
        followed: &Followed,
        same: bool,
    ) -> Plan {
        let Member {
            catalog,
            publisher,
            image,
            maker,
            work,
            rule,
            tokens,
            port,
            config: old,
        } = member;
        let mut plan = Plan {
            config: config.clone(),
            catalog,
            publisher,
            image,
            maker,
            work: Some(work),
            rule,
            tokens,
            port,
        };
        if !same {
            for task in plan.work.take().into_iter().flatten() {
                task.end().await;
            }
            let snapshot = plan.publisher.snapshot();
            let fits = snapshot.is_none_or(|s| followed.may_serve(s.revision()));
            if old.source != config.source {
                tracing::info!(
                    catalog = %config.name, from = %old.source, to = %config.source,
                    "the catalog comes from another source now"
                );
            }
            if fits {
                let source = followed.source.to_string();
                plan.publisher.update(|status| status.source = source);
            } else {
                let added = self.added(config, followed).await;
                (plan.catalog, plan.publisher) = (added.catalog, added.publisher);
                (plan.image, plan.maker) = (added.image, added.maker);
            }
        }
        let routing = routing(config);
        if plan.catalog.routing != routing {
            plan.catalog = Arc::new(plan.catalog.routed(routing));
        }
        plan
    }

    /// A catalog that is new, with what the store has of it.
    async fn added(&self, config: &CatalogConfig, followed: &Followed) -> Plan {
        let (catalog, publisher) = self
            .shared
            .publisher
            .slot(config.name.clone(), routing(config));
        ingest::restore(&self.workshop, followed, &publisher).await;
        let (image, maker) = ImageSlot::new();
        ingest::restore_image(&self.workshop, &publisher, followed, &maker).await;
        Plan {
            config: config.clone(),
            catalog: Arc::new(catalog),
            publisher,
            image,
            maker,
            work: None,
            rule: Rule::default(),
            tokens: None,
            port: None,
        }
    }

    /// Starts following a catalog and keeping its image. Without a network that
    /// is only done for those that are made of what is at hand.
    fn follow(
        &self,
        followed: Followed,
        plan: &Plan,
        at_hand: &BTreeSet<CatalogName>,
    ) -> Vec<Task> {
        let publisher = plan.publisher.clone();
        if self.shared.offline && !is_made_of(&followed, at_hand) {
            if publisher.snapshot().is_none() {
                tracing::warn!(
                    catalog = %followed.name,
                    "nothing is stored of the catalog, and no source is looked at: import it"
                );
            }
            publisher.update(|status| status.first_attempt_done = true);
            return Vec::new();
        }
        let catalogs = self.workshop.catalogs.clone();
        let (maker, mirror) = (plan.maker.clone(), plan.config.mirror);
        let keep = {
            let (workshop, followed) = (self.workshop.clone(), followed.clone());
            |stop| ingest::keep_image(workshop, followed, mirror, catalogs, maker, stop)
        };
        let workshop = self.workshop.clone();
        let follow = |stop| ingest::follow(workshop, followed, publisher, stop);
        vec![self.spawn_tracked(keep), self.spawn_tracked(follow)]
    }

    /// Spawns what is waited for at the end.
    fn spawn_tracked<F>(&self, work: impl FnOnce(CancellationToken) -> F) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.shared.stopping.child_token();
        let handle = self.shared.followers.spawn(work(stop.clone()));
        Task { stop, handle }
    }

    fn spawn<F>(&self, work: impl FnOnce(CancellationToken) -> F) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.shared.stopping.child_token();
        let handle = tokio::spawn(work(stop.clone()));
        Task { stop, handle }
    }

    /// Opens a catalog's own port.
    async fn open(&mut self, name: CatalogName, port: Port) {
        let listener = match port {
            Port::None => return,
            Port::Bound(listener) => listener,
            Port::Taken(address) => {
                // Its last accept may be just over.
                let bound = tokio::time::timeout(FREE_PORT, async {
                    loop {
                        match bind(&name, address).await {
                            Ok(listener) => return listener,
                            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                        }
                    }
                });
                if let Ok(listener) = bound.await {
                    listener
                } else {
                    tracing::error!(
                        catalog = %name, %address,
                        "the port of the catalog is not free, and is not listened on"
                    );
                    return;
                }
            }
        };
        let listener = listener.secured(self.shared.tls.clone());
        log(&listener);
        let registry = self.shared.registry.clone();
        let connections = self.shared.connections.clone();
        let task = self.spawn(|stop| registry.serve(listener, stop, connections));
        if let Some(member) = self.members.get_mut(&name) {
            member.port = Some(task);
        }
    }
}

/// A member to be.
struct Plan {
    config: CatalogConfig,
    catalog: Arc<Catalog>,
    publisher: Publisher,
    image: ImageSlot,
    maker: ImagePublisher,
    /// What goes on, if it does.
    work: Option<Vec<Task>>,
    rule: Rule,
    tokens: Option<Task>,
    port: Option<Task>,
}

/// Says where a service listens.
pub(super) fn log(listener: &Listener) {
    tracing::info!(
        service = listener.service(),
        address = %listener.address(),
        catalog = listener.catalog().map(tracing::field::display),
        tls = listener.has_tls(),
        "listening"
    );
}

/// How many catalogs there are, and how many of them are served.
pub(super) fn count(catalogs: &Catalogs) -> (usize, usize) {
    let all = catalogs.all();
    let loaded = all.iter().filter(|c| c.snapshot().is_some());
    (all.len(), loaded.count())
}

/// The catalogs that are stored, and those that can be made of these.
fn at_hand(plans: &[(Followed, Plan)]) -> BTreeSet<CatalogName> {
    let stored = plans
        .iter()
        .filter(|(_, plan)| plan.publisher.snapshot().is_some());
    let mut names: BTreeSet<CatalogName> =
        stored.map(|(followed, _)| followed.name.clone()).collect();
    loop {
        let known = names.len();
        for (followed, _) in plans {
            if is_made_of(followed, &names) {
                names.insert(followed.name.clone());
            }
        }
        if names.len() == known {
            return names;
        }
    }
}

/// Whether a catalog is curated, and all that it is made of among these.
fn is_made_of(followed: &Followed, names: &BTreeSet<CatalogName>) -> bool {
    match &followed.source {
        ingest::Source::Curated(curation) => curation.from.iter().all(|name| names.contains(name)),
        _ => false,
    }
}

/// What a catalog is a full mirror of.
fn mirrored(catalog: &CatalogConfig) -> Option<Mirrored> {
    match &catalog.source {
        ingest::Source::Image(reference) if catalog.mirror == ingest::Mirror::Full => {
            Some(Mirrored {
                registry: reference.registry().to_owned(),
                repository: reference.repository().to_owned(),
            })
        }
        _ => None,
    }
}

/// Says which mirrors can be told apart below `/v2/` only by their registry.
fn warn_of_shared_paths(config: &Config) {
    for (number, catalog) in config.catalogs.iter().enumerate() {
        let Some(own) = mirrored(catalog) else {
            continue;
        };
        let path = own.repository.as_str();
        for (other_number, other) in config.catalogs.iter().enumerate() {
            let same_path = mirrored(other).filter(|other| other.repository == path);
            if other_number < number && same_path.is_some_and(|o| o.registry != own.registry) {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "two registries have this path: what differs can be pulled under it only \
                     with ns=REGISTRY, as containerd asks, and under the names of the catalogs"
                );
            }
            if number != other_number && other.name.as_str() == path {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "this path is the name of another catalog, which is found first under it"
                );
            }
        }
    }
}

/// Says whose name is an authority of another: that outweighs it, so clients
/// that call a catalog by its bare name get the other.
fn warn_of_shadowed_names(config: &Config) {
    for catalog in &config.catalogs {
        let others = config.catalogs.iter().map(|other| &other.name);
        for other in others.filter(|other| **other != catalog.name) {
            if catalog
                .authorities
                .iter()
                .any(|host| host == other.as_str())
            {
                tracing::warn!(
                    catalog = %catalog.name, %other,
                    "an authority of this catalog is the name of the other: clients that ask \
                     for that host get this one"
                );
            }
        }
    }
}

fn routing(catalog: &CatalogConfig) -> Routing {
    Routing {
        authorities: catalog.authorities.clone(),
        withheld: !catalog.available,
    }
}

fn followed(catalog: &CatalogConfig) -> Followed {
    Followed {
        name: catalog.name.clone(),
        source: catalog.source.clone(),
        poll: catalog.poll,
        platform: catalog.platform.clone(),
        on_invalid: catalog.on_invalid,
    }
}
