//! Where those who make snapshots and those who serve them meet.
//!
//! Each catalog has a cell that holds its latest snapshot and one that holds
//! what is known of following it. Ingest has the writing ends ([`Publisher`]),
//! serve the reading ends ([`Catalog`]); a reader keeps the snapshot it took.
//! Which catalogs there are may change too, all at once ([`Roster`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::Pass;
use fbc::problem::Problem;

/// All catalogs, as they are now. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs {
    table: watch::Receiver<Arc<Table>>,
    publications: watch::Receiver<u64>,
}

/// Decides which catalogs there are.
pub struct Roster {
    table: watch::Sender<Arc<Table>>,
    publications: watch::Sender<u64>,
}

/// The catalogs, sorted by name.
#[derive(Default)]
struct Table {
    all: Vec<Arc<Catalog>>,
    default: Option<CatalogName>,
    /// Catalogs that there were, and the authorities they stood for.
    gone: BTreeMap<CatalogName, Vec<String>>,
}

/// The reading ends of one catalog. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    /// Its name.
    pub name: CatalogName,
    /// Whether and how clients find it.
    pub routing: Routing,
    snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
    status: watch::Receiver<Status>,
}

/// Whether and how clients find a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Authorities (hosts without port, lower case) that stand for it.
    pub authorities: Vec<String>,
    /// Whether clients are told that it is not there, while it is followed all
    /// the same.
    pub withheld: bool,
}

/// The writing ends of one catalog. Cheap to clone; what it published stays
/// readable when all clones are gone.
#[derive(Clone)]
pub struct Publisher {
    /// Its name.
    pub name: CatalogName,
    snapshot: watch::Sender<Option<Arc<Snapshot>>>,
    status: watch::Sender<Status>,
    publications: watch::Sender<u64>,
}

/// What is known of following a catalog.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Where it comes from, as it was configured.
    pub source: String,
    /// The repository that answered when the source was last asked, which may
    /// be a mirror's.
    pub served_by: Option<String>,
    /// Whether it was looked for at all since the start, or came from the
    /// store: until then almanac is not ready.
    pub settled: bool,
    /// When the last pass ended, whatever became of it.
    pub last_pass: Option<SystemTime>,
    /// When the next pass is due; none when the source is never polled.
    pub next_pass: Option<SystemTime>,
    /// How many passes in a row failed.
    pub failures: u32,
    /// The last pass that changed something or failed.
    pub pass: Option<Pass>,
    /// What is wrong with what is served.
    pub problems: Arc<[Problem]>,
    /// What was wrong with the catalog that the last pass refused, if it did.
    pub refused: Arc<[Problem]>,
}

impl Roster {
    /// A roster without catalogs, and where readers see what is in it.
    pub fn new() -> (Self, Catalogs) {
        let (table, tables) = watch::channel(Arc::default());
        let (publications, published) = watch::channel(0);
        let roster = Self {
            table,
            publications,
        };
        let catalogs = Catalogs {
            table: tables,
            publications: published,
        };
        (roster, catalogs)
    }

    /// Cells for a catalog, which nobody sees before [`Roster::set`].
    pub fn cells(&self, name: CatalogName, routing: Routing) -> (Catalog, Publisher) {
        let (snapshot_sender, snapshot) = watch::channel(None);
        let (status_sender, status) = watch::channel(Status::default());
        let publisher = Publisher {
            name: name.clone(),
            snapshot: snapshot_sender,
            status: status_sender,
            publications: self.publications.clone(),
        };
        let catalog = Catalog {
            name,
            routing,
            snapshot,
            status,
        };
        (catalog, publisher)
    }

    /// These catalogs were there before the start: clients that ask for one of
    /// them never mean another.
    pub fn remember(&self, names: impl IntoIterator<Item = CatalogName>) {
        self.table.send_modify(|table| {
            *table = Arc::new(Table {
                all: table.all.clone(),
                default: table.default.clone(),
                gone: (table.gone.clone().into_iter())
                    .chain(names.into_iter().map(|name| (name, Vec::new())))
                    .collect(),
            });
        });
    }

    /// These are the catalogs from now on, all at once. Who holds one that is
    /// not among them keeps what it has; connections that see it are asked to
    /// come again.
    pub fn set(
        &self,
        catalogs: impl IntoIterator<Item = Arc<Catalog>>,
        default: Option<CatalogName>,
    ) {
        let mut all: Vec<_> = catalogs.into_iter().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        self.table.send_modify(|table| {
            let mut gone = table.gone.clone();
            gone.extend(table.all.iter().map(|catalog| {
                let authorities = catalog.routing.authorities.iter().cloned();
                (catalog.name.clone(), authorities.collect())
            }));
            for catalog in &all {
                gone.remove(&catalog.name);
            }
            *table = Arc::new(Table { all, default, gone });
        });
        self.publications.send_modify(|count| *count += 1);
    }
}

impl Catalogs {
    /// Cells for catalogs that stay the same, and their writing ends in the
    /// same order.
    pub fn new(
        catalogs: impl IntoIterator<Item = (CatalogName, Routing)>,
        default: Option<CatalogName>,
    ) -> (Self, Vec<Publisher>) {
        let (roster, reader) = Roster::new();
        let cells = catalogs.into_iter();
        let cells = cells.map(|(name, routing)| roster.cells(name, routing));
        let (catalogs, publishers): (Vec<_>, Vec<_>) = cells.unzip();
        roster.set(catalogs.into_iter().map(Arc::new), default);
        (reader, publishers)
    }

    /// The catalogs, sorted by name.
    pub fn all(&self) -> Vec<Arc<Catalog>> {
        self.table.borrow().all.clone()
    }

    /// The catalog of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Catalog>> {
        self.table.borrow().get(name).cloned()
    }

    /// What is served of the catalog of that name, if clients may find it.
    pub fn snapshot(&self, name: &str) -> Option<Arc<Snapshot>> {
        let table = self.table.borrow();
        let catalog = table.get(name).filter(|one| !one.routing.withheld)?;
        catalog.snapshot()
    }

    /// Whether there was a catalog of that name, and is none any more.
    pub fn is_gone(&self, name: &str) -> bool {
        self.table.borrow().is_gone(name)
    }

    /// The catalog that a call to this authority (`host[:port]`) means: the one
    /// it stands for, else the one that the host or its first label names, else
    /// the default or the only one. One that names a catalog which is gone means
    /// that.
    pub fn route(&self, authority: &str) -> Option<Arc<Catalog>> {
        let host = host(authority).to_ascii_lowercase();
        let label = host.split('.').next().unwrap_or_default();
        let table = self.table.borrow();
        let named = table
            .all
            .iter()
            .find(|catalog| catalog.routing.authorities.contains(&host))
            .or_else(|| table.get(&host))
            .or_else(|| table.get(label));
        if named.is_none() && (table.meant_gone(&host) || table.is_gone(label)) {
            return None;
        }
        let found = named.or_else(|| match (&table.default, &*table.all) {
            (Some(default), _) => table.get(default.as_str()),
            (None, [only]) => Some(only),
            _ => None,
        });
        found.cloned()
    }

    /// Changes whenever any catalog gets another snapshot, and when other
    /// catalogs are there.
    pub fn publications(&self) -> watch::Receiver<u64> {
        self.publications.clone()
    }

    /// Whether every catalog has been looked for, or came from the store.
    pub fn settled(&self) -> bool {
        let table = self.table.borrow();
        table.all.iter().all(|c| c.status.borrow().settled)
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

    /// Whether a host is the name of a catalog that there was, or stood for one.
    fn meant_gone(&self, host: &str) -> bool {
        let mut authorities = self.gone.values().flatten();
        self.is_gone(host) || authorities.any(|authority| authority == host)
    }
}

/// The host of `host[:port]`, also of `[v6]:port`, without the dot that may end
/// a name.
fn host(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
        .trim_end_matches('.')
}

impl Catalog {
    /// The same catalog, found in another way.
    #[must_use]
    pub fn routed(&self, routing: Routing) -> Self {
        Self {
            name: self.name.clone(),
            routing,
            snapshot: self.snapshot.clone(),
            status: self.status.clone(),
        }
    }

    /// What is served now, or as soon as the catalog was looked for; `None`
    /// when that came to nothing.
    pub async fn looked_for(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.snapshot();
        if snapshot.is_some() {
            return snapshot;
        }
        let mut status = self.status.clone();
        // Without writers nothing will come any more.
        let _ = status.wait_for(|status| status.settled).await;
        self.snapshot()
    }

    /// What is served now; `None` when nothing was ever loaded.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.borrow().clone()
    }

    /// What is known of following it.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}

impl Publisher {
    /// Lets readers see a snapshot from now on.
    pub fn publish(&self, snapshot: Snapshot) {
        self.snapshot.send_replace(Some(Arc::new(snapshot)));
        // What is served is ready, whatever becomes of the rest of the pass.
        self.update(|status| status.settled = true);
        self.publications.send_modify(|count| *count += 1);
    }

    /// What is served now.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.borrow().clone()
    }

    /// Changes what is known of following the catalog.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// What is known of following the catalog.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
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
        let (roster, catalogs) = Roster::new();
        let name = |name: &str| name.parse::<CatalogName>().unwrap();
        let cell = |text: &str| Arc::new(roster.cells(name(text), Routing::default()).0);
        let found = |authority: &str| Some(catalogs.route(authority)?.name.to_string());
        roster.remember([name("stored")]);
        let routing = Routing {
            authorities: ["fruit.example.com".to_owned()].into(),
            ..Routing::default()
        };
        let known = Arc::new(roster.cells(name("known"), routing).0);
        roster.set([cell("a"), known], None);
        roster.set([cell("a"), cell("b")], None);
        roster.set([cell("a")], None);
        assert_eq!(found("b.olm.svc:50051"), None);
        assert_eq!(found("stored.olm.svc:50051"), None);
        assert_eq!(found("fruit.example.com:50051"), None);
        // Whoever names nothing that ever was means the only one.
        assert_eq!(found("10.0.0.1:50051").as_deref(), Some("a"));
        roster.set([cell("a")], Some(name("a")));
        assert_eq!(found("b:50051"), None);
        roster.set([cell("b")], None);
        assert_eq!(found("b:50051").as_deref(), Some("b"));
        assert_eq!(found("a:50051"), None);
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
        let (roster, catalogs) = Roster::new();
        roster.remember(["fruit.v1".parse().unwrap()]);
        let other = roster.cells("other".parse().unwrap(), Routing::default());
        roster.set([Arc::new(other.0)], None);
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
