//! A catalog in a store of the test's own process. Nothing encodes it, verifies it or
//! follows it until the test begins that.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use almanac::fleet::{Coordinator, Track};
use almanac::ingest::{self, FolderOptions, Followed, ImageOptions, OnInvalid, PassContext, Scrub};
use almanac::snapshot::{Catalogs, ImageSlot, Publisher, Routing, Snapshot};
use almanac::store::{Encoding, KeptHistory, Store};
use almanac::webhooks::Webhooks;
use images::{Platform, Registries, layers};
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, Format};

const PATIENCE: Duration = Duration::from_mins(1);

/// A store, and the slot of the catalog `a`.
pub(crate) struct InStore {
    pub publisher: Publisher,
    store: Store,
    catalogs: Catalogs,
    /// The store's, and a place for catalogs.
    folder: TempDir,
}

/// A task that runs until it is told to stop.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl InStore {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("data")).await.unwrap();
        let name = "a".parse().unwrap();
        let (catalogs, mut publishers) = Catalogs::new([(name, Routing::default())], None);
        Self {
            publisher: publishers.pop().unwrap(),
            store,
            catalogs,
            folder,
        }
    }

    /// Publishes a new revision of this content, as a pass does.
    pub(crate) async fn publish(&self, catalog: &Catalog) {
        let source = self.source();
        if source.exists() {
            std::fs::remove_dir_all(&source).unwrap();
        }
        std::fs::create_dir(&source).unwrap();
        catalog.write_to(&source, Format::JsonLines);
        let name = &self.publisher.name;
        let limits = layers::Limits::default();
        let invalid = OnInvalid::Quarantine;
        let stored = ingest::store_folder(&self.store, name, &source, &limits, invalid).await;
        let (revision, _) = stored.unwrap();
        let snapshot = Snapshot::open(&self.store, revision.clone()).unwrap();
        self.publisher.publish(snapshot);
        self.store.retire(&revision).await.unwrap();
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    /// The served snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.publisher.snapshot().unwrap()
    }

    /// A file of the revision that is served.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let revision = self.snapshot().revision().id.to_string();
        let revisions = self.folder.path().join("data/revisions");
        revisions.join(revision).join(name)
    }

    /// Begins to encode published revisions.
    pub(crate) fn encode(&self) -> Running {
        let (store, catalogs) = (self.store.clone(), self.catalogs.clone());
        begin(|stop| ingest::encode(store, catalogs, stop))
    }

    /// Waits until the served snapshot has all encodings of its own.
    pub(crate) async fn until_encoded(&self) {
        let begin = Instant::now();
        let lacks = |encoding| self.snapshot().encoded(encoding).is_none();
        while Encoding::ALL.into_iter().any(lacks) {
            assert!(begin.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Begins to verify and to repair the stored files.
    pub(crate) fn scrub(&self) -> Running {
        let followed = Followed {
            name: self.publisher.name.clone(),
            source: source_at(&self.source()),
            poll: None,
            platform: Platform::default(),
            on_invalid: OnInvalid::Quarantine,
            folder: FolderOptions::default(),
            image: ImageOptions::default(),
        };
        let (context, publisher) = (self.context(), self.publisher.clone());
        let (_, images) = ImageSlot::new();
        begin(|stop| ingest::scrub(context, followed, publisher, images, Track::Alone, stop))
    }

    fn context(&self) -> PassContext {
        PassContext {
            store: self.store.clone(),
            registries: Registries::new(&images::Settings::default()).unwrap(),
            limits: layers::Limits::default(),
            read_permits: Arc::new(Semaphore::new(1)),
            catalogs: self.catalogs.clone(),
            retry_now: watch::Sender::default(),
            scrub: watch::Sender::new(Scrub::default()),
            scrubbing: Arc::new(Semaphore::new(1)),
            signing_key: None,
            history: watch::Sender::new(KeptHistory::default()),
            webhooks: Webhooks::default(),
            coordinator: Coordinator::Alone,
        }
    }

    /// Waits until damage of a file was found, and is repaired.
    pub(crate) async fn until_repaired(&self, file: &str) {
        let begin = Instant::now();
        loop {
            let status = self.publisher.status();
            let damage = status.damage.as_deref();
            let files = damage.map_or(&[][..], |damage| &damage.files);
            let is_told = files.iter().any(|told| told.contains(file));
            if is_told && !status.is_damaged() && self.publisher.snapshot().is_some() {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{file}: {damage:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn begin<F>(work: impl FnOnce(CancellationToken) -> F) -> Running
where
    F: Future<Output = ()> + Send + 'static,
{
    let stop = CancellationToken::new();
    let task = tokio::spawn(work(stop.clone()));
    Running { stop, task }
}

fn source_at(folder: &Path) -> ingest::Source {
    format!("file:{}", folder.display()).parse().unwrap()
}
