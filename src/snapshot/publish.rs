//! Where those who make snapshots and those who serve them meet.
//!
//! Each catalog has a cell that holds its latest snapshot and one that holds
//! what is known of following it. Ingest has the writing ends ([`Publisher`]),
//! serve the reading ends ([`Catalog`]); a reader keeps the snapshot it took.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::Snapshot;
use crate::fbc::problem::Problem;
use crate::name::CatalogName;
use crate::store::Pass;

/// All catalogs, sorted by name. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs {
    all: Arc<[Catalog]>,
    default: Option<CatalogName>,
    publications: watch::Receiver<u64>,
}

/// The reading ends of one catalog.
pub struct Catalog {
    /// Its name.
    pub name: CatalogName,
    /// How gRPC calls find it.
    pub routing: Routing,
    snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
    status: watch::Receiver<Status>,
}

/// How gRPC calls find a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Authorities (hosts without port, lower case) that stand for it.
    pub authorities: Vec<String>,
}

/// The writing ends of one catalog.
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

impl Catalogs {
    /// Cells for the given catalogs, and their writing ends in the same order.
    pub fn new(
        catalogs: impl IntoIterator<Item = (CatalogName, Routing)>,
        default: Option<CatalogName>,
    ) -> (Self, Vec<Publisher>) {
        let (publications, published) = watch::channel(0);
        let mut readers = Vec::new();
        let mut writers = Vec::new();
        for (name, routing) in catalogs {
            let (snapshot_sender, snapshot) = watch::channel(None);
            let (status_sender, status) = watch::channel(Status::default());
            writers.push(Publisher {
                name: name.clone(),
                snapshot: snapshot_sender,
                status: status_sender,
                publications: publications.clone(),
            });
            readers.push(Catalog {
                name,
                routing,
                snapshot,
                status,
            });
        }
        readers.sort_by(|a, b| a.name.cmp(&b.name));
        let catalogs = Self {
            all: readers.into(),
            default,
            publications: published,
        };
        (catalogs, writers)
    }

    /// The catalogs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Catalog> {
        self.all.iter()
    }

    /// The catalog of that name.
    pub fn get(&self, name: &str) -> Option<&Catalog> {
        let at = self
            .all
            .binary_search_by(|catalog| catalog.name.as_str().cmp(name));
        Some(&self.all[at.ok()?])
    }

    /// The catalog that a call to this authority (`host[:port]`) means: the one
    /// it stands for, else the one its first label names, else the default or
    /// the only one.
    pub fn route(&self, authority: &str) -> Option<&Catalog> {
        let host = host(authority).to_ascii_lowercase();
        self.iter()
            .find(|catalog| catalog.routing.authorities.contains(&host))
            .or_else(|| self.get(host.split('.').next()?))
            .or_else(|| match (&self.default, &*self.all) {
                (Some(default), _) => self.get(default.as_str()),
                (None, [only]) => Some(only),
                _ => None,
            })
    }

    /// Changes whenever any catalog gets another snapshot.
    pub fn publications(&self) -> watch::Receiver<u64> {
        self.publications.clone()
    }

    /// Whether every catalog has been looked for, or came from the store.
    pub fn settled(&self) -> bool {
        self.iter().all(|catalog| catalog.status.borrow().settled)
    }
}

/// The host of `host[:port]`, also of `[v6]:port`.
fn host(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

impl Catalog {
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
            (name.parse().unwrap(), Routing { authorities })
        });
        let default = default.map(|name| name.parse().unwrap());
        let (catalogs, _writers) = Catalogs::new(catalogs, default);
        Some(catalogs.route(authority)?.name.to_string())
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
