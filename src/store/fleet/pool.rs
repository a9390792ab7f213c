//! A fleet's connections to its database and its bucket.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection as _, Executor as _};

use crate::objects::Bucket;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::settings::Settings;

const MAX_CONNECTIONS: u32 = 4;
/// The longest wait for a connection: less than a beat may take, so that it tells the reason.
const ACQUIRE: Duration = Duration::from_secs(3);
/// A connection that does not answer in this time is replaced: what lies between may have
/// forgotten it without a word.
const PING: Duration = Duration::from_secs(1);
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// A holder that stops inside a transaction keeps its rows locked, and nobody takes
/// over. A statement here takes milliseconds. Whoever waits for a locked row has to see what
/// was committed meanwhile, whatever the database's own isolation level is.
const GUARDS: &str = "SET idle_in_transaction_session_timeout = '2s'; SET lock_timeout = '3s'; \
    SET statement_timeout = '5s'; SET default_transaction_isolation = 'read committed'";

/// What the replicas of a fleet share. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    pub(super) pool: PgPool,
    pub(super) bucket: Bucket,
    pub(super) name: Arc<str>,
    /// The fleet that the database has to be of, if that is known.
    pub(super) expected: Arc<OnceLock<String>>,
    pub(super) owns_bucket: Arc<AtomicBool>,
    settings: Arc<Settings>,
}

impl Fleet {
    /// Sets up the connections. Nothing is asked yet.
    ///
    /// # Errors
    /// When a file of the settings cannot be used.
    pub fn open(settings: &Settings) -> Result<Self, FleetError> {
        let connection = settings.connection().map_err(FleetError::Refused)?;
        Ok(Self {
            pool: pool(MAX_CONNECTIONS).connect_lazy_with(connection),
            bucket: Bucket::new(&settings.objects).map_err(FleetError::Refused)?,
            name: settings.name.as_str().into(),
            expected: Arc::default(),
            owns_bucket: Arc::default(),
            settings: Arc::new(settings.clone()),
        })
    }

    /// Takes part in no other fleet from now on, should the database become another's.
    pub fn expect(&self, id: &str) {
        // The first one stays: a start knows one fleet.
        let _ = self.expected.set(id.to_owned());
    }

    /// Reads the files of the settings again, for new connections to the database.
    pub async fn read_files_again(&self) {
        let settings = Arc::clone(&self.settings);
        let reading = tokio::task::spawn_blocking(move || settings.connection());
        match reading.await {
            Ok(Ok(connection)) => self.pool.set_connect_options(connection),
            Ok(Err(problem)) => tracing::warn!(problem, "cannot read a file of [fleet] again"),
            // A panic has been logged.
            Err(_) => {}
        }
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Connections that guard the others against what hangs in one of them.
pub(super) fn pool(most: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(most)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .before_acquire(|connection, _| {
            Box::pin(async move {
                let pinged = tokio::time::timeout(PING, connection.ping()).await;
                let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
                pinged.unwrap_or_else(late).map(|()| true)
            })
        })
        .after_connect(|connection, _| {
            Box::pin(async move { connection.execute(GUARDS).await.map(drop) })
        })
}
