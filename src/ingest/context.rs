//! The state that all passes share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::fleet::Coordinator;
use crate::snapshot::Catalogs;
use crate::store::{KeptHistory, Store};
use crate::webhooks::Webhooks;
use ::images::Registries;
use ::images::layers::Limits;
use ::images::signing::SigningKey;

/// The state that all passes share. Cheap to clone.
#[derive(Clone)]
pub struct PassContext {
    /// Where revisions are kept.
    pub store: Store,
    /// Speaks to registries.
    pub registries: Registries,
    /// The limits of an image and of a catalog.
    pub limits: Limits,
    /// Bounds how many catalogs are read at once: reading takes all cores and
    /// some memory.
    pub read_permits: Arc<Semaphore>,
    /// The catalogs that curated ones select from.
    pub catalogs: Catalogs,
    /// Each value makes failed passes and failed images start again at once.
    pub retry_now: watch::Sender<()>,
    /// When and how fast stored files are verified.
    pub scrub: watch::Sender<Scrub>,
    /// One catalog is verified at a time.
    pub scrubbing: Arc<Semaphore>,
    /// Signs the images that are made here.
    pub signing_key: Option<Arc<SigningKey>>,
    /// How much of the history is kept.
    pub history: watch::Sender<KeptHistory>,
    /// Gets told what passes find.
    pub webhooks: Webhooks,
    /// The fleet of this process, if it is a replica of one.
    pub coordinator: Coordinator,
}

/// When and how fast stored files are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// The time between two verifications of a catalog. `None`: only after its
    /// publication and after changes.
    pub interval: Option<Duration>,
    /// Bytes per second, of all catalogs together.
    pub rate: NonZeroU64,
}

impl Default for Scrub {
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_hours(24)),
            rate: NonZeroU64::MIN.saturating_add((32 << 20) - 1),
        }
    }
}

impl PassContext {
    /// Waits until another catalog may be read.
    pub(super) async fn read_permit(&self) -> ReadPermit {
        ReadPermit::acquire(&self.read_permits).await
    }
}

/// The right to read one catalog. It ends with its last clone, so that a
/// blocking thread that outlives its pass still counts.
#[derive(Clone)]
pub(super) struct ReadPermit {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl ReadPermit {
    /// Waits for a permit.
    pub(super) async fn acquire(permits: &Arc<Semaphore>) -> Self {
        // An error would mean that the semaphore is closed, which nobody does.
        let permit = Arc::clone(permits).acquire_owned().await.ok();
        Self {
            _permit: permit.map(Arc::new),
        }
    }

    /// For a catalog that is read alone, as by a command.
    pub(super) fn alone() -> Self {
        Self { _permit: None }
    }
}
