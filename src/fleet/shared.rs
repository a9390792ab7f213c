//! What the replicas of a fleet share: the database and the bucket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{RwLock, Semaphore};

use crate::fleet::error::FleetError;
use crate::fleet::session::Session;
use crate::fleet::settings::Settings;
use crate::objects::Bucket;

/// The database and the bucket of a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    session: Session,
    bucket: Bucket,
    name: String,
    /// Whether the bucket is known to be the fleet's.
    owns_bucket: AtomicBool,
    /// Read by uploads, written by removals: the session of both is the same.
    uploads: Arc<RwLock<()>>,
    /// What clients ask the database for at a time.
    lookups: Arc<Semaphore>,
}

/// The most lookups for clients that wait for the session.
const LOOKUPS: usize = 2;

impl Fleet {
    /// Sets up the connections. Nothing is asked yet.
    ///
    /// # Errors
    /// When a file of the settings cannot be used.
    pub fn open(settings: &Settings) -> Result<Self, FleetError> {
        settings.connection().map_err(FleetError::Refused)?;
        Ok(Self(Arc::new(Inner {
            session: Session::new(settings),
            bucket: Bucket::new(&settings.objects).map_err(FleetError::Refused)?,
            name: settings.name.clone(),
            owns_bucket: AtomicBool::new(false),
            uploads: Arc::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        })))
    }

    /// Whether the bucket was found to be the fleet's. Until then, what it lacks is not lost,
    /// and nothing is removed from it.
    pub fn owns_bucket(&self) -> bool {
        self.0.owns_bucket.load(Ordering::Relaxed)
    }

    pub(super) fn found_bucket(&self) {
        self.0.owns_bucket.store(true, Ordering::Relaxed);
    }

    pub(super) fn lost_bucket(&self) {
        self.0.owns_bucket.store(false, Ordering::Relaxed);
    }

    /// Ends the session.
    pub async fn close(&self) {
        self.0.session.close().await;
    }

    /// Takes part in no other fleet from now on, should the database become another's.
    pub fn expect(&self, id: &str) {
        self.0.session.expect(id);
    }

    pub(super) fn session(&self) -> &Session {
        &self.0.session
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.0.bucket
    }

    /// The name of this replica, for people.
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn uploads(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.0.uploads)
    }

    pub(super) fn lookups(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.lookups)
    }
}
