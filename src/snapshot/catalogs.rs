//! The catalogs, between those that configure them and those that serve them.
//! [`CatalogsPublisher`] replaces all of them at once; [`Catalogs`] finds one by
//! name or by the authority of a call.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::snapshot::announced::AnnouncedBy;
use crate::snapshot::catalog::{self, Catalog, Publisher, Routing};

/// The current catalogs. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs {
    table: watch::Receiver<Arc<Table>>,
    publications: watch::Receiver<u64>,
    readiness: Arc<Readiness>,
    /// The catalogs that the cluster names and sets unavailable. They are not followed.
    unavailable: Arc<RwLock<BTreeSet<CatalogName>>>,
}

/// Publishes which catalogs exist.
pub struct CatalogsPublisher {
    table: watch::Sender<Arc<Table>>,
    publications: watch::Sender<u64>,
    readiness: Arc<Readiness>,
}

/// Whether clients can be served what the sources of the catalogs have.
#[derive(Default)]
struct Readiness {
    /// Whether the cluster has yet to name its catalogs.
    awaits_cluster: AtomicBool,
    /// Whether there were catalogs, and the first attempt of all was done.
    reached: AtomicBool,
}

impl Readiness {
    /// Whether almanac is or was ready with these catalogs.
    fn is_reached(&self, table: &Table) -> bool {
        let mut all = table.all.iter();
        let is_reached = self.reached.load(Ordering::Relaxed)
            || table.is_set
                && !self.awaits_cluster.load(Ordering::Relaxed)
                && all.all(|catalog| catalog.first_attempt_done());
        if is_reached {
            self.reached.store(true, Ordering::Relaxed);
        }
        is_reached
    }
}

/// The catalogs, sorted by name.
#[derive(Clone, Default)]
struct Table {
    all: Vec<Arc<Catalog>>,
    default: Option<CatalogName>,
    /// The Services with other names than their catalogs.
    services: BTreeMap<String, CatalogName>,
    /// Removed catalogs and their authorities.
    gone: BTreeMap<CatalogName, Vec<String>>,
    /// The same as `services`, of removed catalogs.
    gone_services: BTreeMap<String, CatalogName>,
    /// Whether it is known which catalogs exist.
    is_set: bool,
}

impl CatalogsPublisher {
    /// No catalogs yet, and the reading end.
    pub fn new() -> (Self, Catalogs) {
        let (table, tables) = watch::channel(Arc::default());
        let (publications, publication_count) = watch::channel(0);
        let readiness = Arc::<Readiness>::default();
        let publisher = Self {
            table,
            publications,
            readiness: Arc::clone(&readiness),
        };
        let catalogs = Catalogs {
            table: tables,
            publications: publication_count,
            readiness,
            unavailable: Arc::default(),
        };
        (publisher, catalogs)
    }

    /// A slot for a catalog, which nobody sees before [`CatalogsPublisher::set`].
    pub fn slot(&self, name: CatalogName, routing: Routing) -> (Catalog, Publisher) {
        catalog::slot(name, routing, self.publications.clone())
    }

    /// Remembers catalogs of earlier starts: a call for one of them is never
    /// answered by another catalog.
    pub fn remember(&self, names: impl IntoIterator<Item = CatalogName>) {
        self.table.send_modify(|table| {
            let gone = names.into_iter().map(|name| (name, Vec::new()));
            let table = Arc::make_mut(table);
            table.gone.extend(gone);
            table.gone_services = services(table.gone.keys());
        });
    }

    /// Replaces all catalogs at once. Readers of a removed catalog keep its
    /// snapshot; their connections are asked to reconnect.
    pub fn set(
        &self,
        catalogs: impl IntoIterator<Item = Arc<Catalog>>,
        default: Option<CatalogName>,
    ) {
        let mut all: Vec<_> = catalogs.into_iter().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        self.table.send_modify(|table| {
            // Those that follow do not change it, whether anybody asked before or not.
            self.readiness.is_reached(table);
            let mut gone = table.gone.clone();
            gone.extend(table.all.iter().map(|catalog| {
                let authorities = catalog.routing.authorities.iter().cloned();
                (catalog.name.clone(), authorities.collect())
            }));
            for catalog in &all {
                gone.remove(&catalog.name);
            }
            let names = all.iter().map(|catalog| &catalog.name);
            *table = Arc::new(Table {
                services: services(names),
                gone_services: services(gone.keys()),
                all,
                default,
                gone,
                is_set: true,
            });
        });
        self.publications.send_modify(|count| *count += 1);
    }
}

impl Catalogs {
    /// Catalogs that stay the same, and their writing ends in the same order.
    pub fn new(
        catalogs: impl IntoIterator<Item = (CatalogName, Routing)>,
        default: Option<CatalogName>,
    ) -> (Self, Vec<Publisher>) {
        let (publisher, reader) = CatalogsPublisher::new();
        let slots = catalogs.into_iter();
        let slots = slots.map(|(name, routing)| publisher.slot(name, routing));
        let (catalogs, publishers): (Vec<_>, Vec<_>) = slots.unzip();
        publisher.set(catalogs.into_iter().map(Arc::new), default);
        (reader, publishers)
    }

    /// Notes whether the cluster has yet to name its catalogs.
    pub fn set_awaits_cluster(&self, awaits: bool) {
        self.readiness
            .awaits_cluster
            .store(awaits, Ordering::Relaxed);
    }

    /// Whether the cluster has yet to name its catalogs: more may come.
    pub fn awaits_cluster(&self) -> bool {
        self.readiness.awaits_cluster.load(Ordering::Relaxed)
    }

    /// Notes which catalogs the cluster sets unavailable.
    pub fn set_unavailable(&self, names: BTreeSet<CatalogName>) {
        *self.unavailable.write() = names;
    }

    /// Whether the cluster sets the catalog of that name unavailable.
    pub fn is_unavailable(&self, name: &str) -> bool {
        self.sets_unavailable(name) && self.get(name).is_none()
    }

    /// Whether the cluster sets this name unavailable. A configured catalog may have it.
    fn sets_unavailable(&self, name: &str) -> bool {
        let unavailable = self.unavailable.read();
        unavailable.iter().any(|one| one.as_str() == name)
    }

    /// The catalog that a call to this authority means, if the cluster sets it unavailable.
    pub fn unavailable_at(&self, authority: &str) -> Option<CatalogName> {
        let host = host(authority).to_ascii_lowercase();
        let label = host.split('.').next().unwrap_or(&host);
        let names = [host.as_str(), label];
        let found = names.into_iter().find(|name| self.is_unavailable(name));
        found?.parse().ok()
    }

    /// The catalogs, sorted by name.
    pub fn all(&self) -> Vec<Arc<Catalog>> {
        self.table.borrow().all.clone()
    }

    /// The catalog of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Catalog>> {
        self.table.borrow().get(name).cloned()
    }

    /// The snapshot of the catalog of that name, if clients may find it.
    pub fn snapshot(&self, name: &str) -> Option<Arc<Snapshot>> {
        let table = self.table.borrow();
        let catalog = table.get(name).filter(|one| !one.routing.withheld)?;
        catalog.snapshot()
    }

    /// Whether a cluster names the catalog of that name.
    pub fn is_announced(&self, name: &str) -> bool {
        let table = self.table.borrow();
        table
            .get(name)
            .is_some_and(|one| one.routing.announced != AnnouncedBy::Nobody)
    }

    /// Whether a catalog of that name existed and was removed, or is set unavailable in the
    /// cluster.
    pub fn is_gone(&self, name: &str) -> bool {
        self.is_unavailable(name) || self.table.borrow().is_gone(name)
    }

    /// The catalog for a call to this authority (`host[:port]`): the catalog with
    /// this authority, else the one that the host or its first label names, else the one
    /// whose Service has this label as its name, else the default or the only one. `None`
    /// for the name of a removed catalog, or of one that the cluster sets unavailable.
    pub fn route(&self, authority: &str) -> Option<Arc<Catalog>> {
        let mut host = Cow::Borrowed(host(authority));
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            host.to_mut().make_ascii_lowercase();
        }
        let host = &*host;
        let label = host.split('.').next().unwrap_or(host);
        let table = self.table.borrow();
        let named = table
            .all
            .iter()
            .find(|catalog| catalog.routing.authorities.iter().any(|one| one == host))
            .or_else(|| table.get(host))
            .or_else(|| table.get(label));
        let is_gone = || {
            let is_unavailable = self.sets_unavailable(host) || self.sets_unavailable(label);
            is_unavailable || table.meant_gone(host) || table.is_gone(label)
        };
        if named.is_none() && is_gone() {
            return None;
        }
        let named = named.or_else(|| table.get(table.services.get(label)?.as_str()));
        if named.is_none() && table.gone_services.contains_key(label) {
            return None;
        }
        let found = named.or_else(|| match (&table.default, &*table.all) {
            (Some(default), _) => table.get(default.as_str()),
            // While the cluster has yet to name its catalogs, it may be one of several.
            (None, [only]) if !self.awaits_cluster() => Some(only),
            _ => None,
        });
        found.cloned()
    }

    /// Changes whenever any catalog gets another snapshot, and when the catalogs
    /// are replaced.
    pub fn publications(&self) -> watch::Receiver<u64> {
        self.publications.clone()
    }

    /// Whether the first attempt of every catalog is done, or was at any time: catalogs
    /// that are added later do not change it.
    pub fn are_ready(&self) -> bool {
        self.readiness.is_reached(&self.table.borrow())
    }
}

impl Table {
    fn get(&self, name: &str) -> Option<&Arc<Catalog>> {
        let at = self
            .all
            .binary_search_by(|catalog| catalog.name.as_str().cmp(name));
        Some(&self.all[at.ok()?])
    }

    fn is_gone(&self, name: &str) -> bool {
        self.gone.keys().any(|gone| gone.as_str() == name)
    }

    /// Whether a host is the name or an authority of a removed catalog.
    fn meant_gone(&self, host: &str) -> bool {
        let mut authorities = self.gone.values().flatten();
        self.is_gone(host) || authorities.any(|authority| authority == host)
    }
}

/// The names of Services that differ from those of their catalogs. Of two catalogs with
/// one Service, the first has it.
fn services<'a>(names: impl Iterator<Item = &'a CatalogName>) -> BTreeMap<String, CatalogName> {
    let mut services = BTreeMap::new();
    for name in names {
        let service = name.service_name();
        if service != name.as_str() {
            services.entry(service).or_insert_with(|| name.clone());
        }
    }
    services
}

/// The host of `host[:port]` or `[v6]:port`, without a dot at its end.
fn host(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
        .trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(authority: &str, names: &[&str], default: Option<&str>) -> Option<String> {
        let catalogs = names.iter().map(|name| {
            let authorities = match *name {
                "b" => vec!["catalogs.example.com".to_owned()],
                _ => Vec::new(),
            };
            let routing = Routing {
                authorities,
                ..Routing::default()
            };
            (name.parse().unwrap(), routing)
        });
        let default = default.map(|name| name.parse().unwrap());
        let (catalogs, _writers) = Catalogs::new(catalogs, default);
        Some(catalogs.route(authority)?.name.to_string())
    }

    #[test]
    fn a_call_for_a_catalog_that_is_gone_gets_no_other() {
        let (publisher, catalogs) = CatalogsPublisher::new();
        let name = |name: &str| name.parse::<CatalogName>().unwrap();
        let slot = |text: &str| Arc::new(publisher.slot(name(text), Routing::default()).0);
        let found = |authority: &str| Some(catalogs.route(authority)?.name.to_string());
        publisher.remember([name("stored")]);
        let routing = Routing {
            authorities: ["fruit.example.com".to_owned()].into(),
            ..Routing::default()
        };
        let known = Arc::new(publisher.slot(name("known"), routing).0);
        publisher.set([slot("a"), known], None);
        publisher.set([slot("a"), slot("b")], None);
        publisher.set([slot("a")], None);
        assert_eq!(found("b.olm.svc:50051"), None);
        assert_eq!(found("stored.olm.svc:50051"), None);
        assert_eq!(found("fruit.example.com:50051"), None);
        // An unknown name means the only catalog.
        assert_eq!(found("10.0.0.1:50051").as_deref(), Some("a"));
        publisher.set([slot("a")], Some(name("a")));
        assert_eq!(found("b:50051"), None);
        publisher.set([slot("b")], None);
        assert_eq!(found("b:50051").as_deref(), Some("b"));
        assert_eq!(found("a:50051"), None);
    }

    #[test]
    fn a_call_for_a_catalog_that_is_unavailable_gets_no_other() {
        let names = ["only"].map(|name| (name.parse().unwrap(), Routing::default()));
        let (catalogs, _writers) = Catalogs::new(names, None);
        let found = |authority: &str| Some(catalogs.route(authority)?.name.to_string());
        assert_eq!(found("off.olm.svc:50051").as_deref(), Some("only"));
        catalogs.set_unavailable(["off", "only"].map(|name| name.parse().unwrap()).into());
        assert_eq!(found("Off.olm.svc:50051"), None);
        assert!(catalogs.is_unavailable("off") && catalogs.is_gone("off"));
        // A configured catalog of the name is another one.
        assert_eq!(found("only:50051").as_deref(), Some("only"));
        assert!(!catalogs.is_unavailable("only") && !catalogs.is_unavailable("x"));
        catalogs.set_unavailable(BTreeSet::new());
        assert_eq!(found("off:50051").as_deref(), Some("only"));
    }

    #[test]
    fn once_ready_they_stay_ready_with_other_catalogs() {
        let (publisher, catalogs) = CatalogsPublisher::new();
        let slot = |name: &str| publisher.slot(name.parse().unwrap(), Routing::default());
        assert!(!catalogs.are_ready());
        let (first, writer) = slot("a");
        publisher.set([Arc::new(first.clone())], None);
        let (second, _writer) = slot("b");
        let both = || [Arc::new(first.clone()), Arc::new(second.clone())];
        publisher.set(both(), None);
        writer.update(|status| status.first_attempt_done = true);
        assert!(!catalogs.are_ready());
        publisher.set([Arc::new(first.clone())], None);
        // Nobody asks meanwhile.
        publisher.set(both(), None);
        assert!(catalogs.are_ready());
    }

    #[test]
    fn while_the_cluster_has_yet_to_name_its_catalogs_they_are_not_ready() {
        let (publisher, catalogs) = CatalogsPublisher::new();
        catalogs.set_awaits_cluster(true);
        publisher.set([], None);
        let (named, _writer) = publisher.slot("a".parse().unwrap(), Routing::default());
        publisher.set([Arc::new(named)], None);
        assert!(!catalogs.are_ready());
        catalogs.set_awaits_cluster(false);
        assert!(!catalogs.are_ready());
    }

    #[test]
    fn a_catalog_is_found_by_the_name_of_its_service() {
        let long = "x".repeat(64);
        let service = long.parse::<CatalogName>().unwrap().service_name();
        let names = ["3scale", "fruit.v1", "tree.v1", "tree-v1", &long];
        for (authority, wanted) in [
            ("catalog-3scale.olm.svc:50051", "3scale"),
            ("fruit-v1.olm.svc", "fruit.v1"),
            // The own name of a catalog comes first.
            ("tree-v1.olm.svc", "tree-v1"),
            (&*service, &*long),
        ] {
            let found = route(authority, &names, Some("3scale"));
            assert_eq!(found.as_deref(), Some(wanted), "{authority}");
        }
        // A Service of a removed catalog leads nowhere.
        let (publisher, catalogs) = CatalogsPublisher::new();
        let slot = |name: &str| publisher.slot(name.parse().unwrap(), Routing::default());
        publisher.remember(["fruit.v1".parse().unwrap()]);
        publisher.set([Arc::new(slot("a").0)], None);
        assert!(catalogs.route("fruit-v1.olm.svc").is_none());
        assert!(catalogs.route("other.olm.svc").is_some());
    }

    #[test]
    fn a_name_with_dots_is_the_whole_host() {
        let names = ["fruit", "fruit.v1", "other"];
        for (authority, wanted) in [
            ("fruit.v1:50051", Some("fruit.v1")),
            ("fruit.v1.:50051", Some("fruit.v1")),
            ("fruit.v1.olm.svc:50051", Some("fruit")),
            ("fruit.olm.svc:50051", Some("fruit")),
            ("fruit.v2:50051", Some("fruit")),
            ("v1:50051", None),
        ] {
            let found = route(authority, &names, None);
            assert_eq!(found.as_deref(), wanted, "{authority}");
        }
        let (publisher, catalogs) = CatalogsPublisher::new();
        publisher.remember(["fruit.v1".parse().unwrap()]);
        let other = publisher.slot("other".parse().unwrap(), Routing::default());
        publisher.set([Arc::new(other.0)], None);
        assert!(catalogs.route("fruit.v1:50051").is_none());
    }

    #[test]
    fn a_call_finds_its_catalog_by_authority() {
        for (authority, wanted) in [
            ("a.olm.svc:50051", Some("a")),
            ("A.olm.svc.cluster.local:50051", Some("a")),
            ("b", Some("b")),
            ("Catalogs.Example.com:1234", Some("b")),
            ("localhost:50051", None),
            ("[::1]:50051", None),
            ("", None),
        ] {
            assert_eq!(
                route(authority, &["a", "b"], None).as_deref(),
                wanted,
                "{authority}"
            );
        }
        assert_eq!(route("localhost:1", &["a"], None).as_deref(), Some("a"));
        assert_eq!(
            route("localhost:1", &["a", "b"], Some("b")).as_deref(),
            Some("b")
        );
    }
}
