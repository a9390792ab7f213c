//! Locks catalogs for a command that publishes, such as an import.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::task::AbortOnDropHandle;

use crate::fleet::error::FleetError;
use crate::fleet::generations::Publication;
use crate::fleet::numbers::{GenerationNumber, TrackId, numbers};
use crate::fleet::replica::with_format;
use crate::fleet::session::{SessionNumber, statements};
use crate::fleet::shared::Fleet;
use crate::fleet::statements::execute;
use crate::fleet::upload::Uploading;
use crate::name::CatalogName;

/// The time between two statements that keep the session.
const BEAT: Duration = Duration::from_secs(2);
/// How long the pass of a holder is waited for.
const LONGEST: Duration = Duration::from_mins(30);

/// A session that has the locks of catalogs, until it is dropped.
pub struct Visit {
    fleet: Fleet,
    session: SessionNumber,
    _beating: AbortOnDropHandle<()>,
}

impl Fleet {
    /// The rows of catalogs, each with the identity of its configuration, which are made if
    /// they are new.
    pub async fn tracks(
        &self,
        named: Vec<(CatalogName, String)>,
    ) -> Result<Vec<TrackId>, FleetError> {
        let named = named.into_iter();
        let named = named.map(|(name, identity)| (name.to_string(), with_format(&identity)));
        let (catalogs, identities): (Vec<String>, Vec<String>) = named.unzip();
        let work = statements(move |connection| {
            async move {
                let mut ids = Vec::with_capacity(catalogs.len());
                for (catalog, identity) in catalogs.iter().zip(&identities) {
                    let query = sqlx::query_scalar(
                        "INSERT INTO tracks (catalog, identity) VALUES ($1, $2)
                         ON CONFLICT (catalog, identity) DO UPDATE SET wanted = clock_timestamp()
                         RETURNING id",
                    );
                    let id = query
                        .bind(catalog)
                        .bind(identity)
                        .fetch_one(&mut *connection);
                    let id = id.await.map_err(FleetError::sql("record the catalogs"))?;
                    ids.push(TrackId(id));
                }
                Ok(ids)
            }
            .boxed()
        });
        self.session().run(work).await
    }

    /// Waits until the holders of some tracks have ended their passes, and takes their locks.
    pub async fn visit(&self, tracks: &[TrackId]) -> Result<Visit, FleetError> {
        // In one order, so that two commands do not wait for each other.
        let mut ids = numbers(tracks);
        ids.sort_unstable();
        let work = statements(move |connection| {
            async move {
                let action = "wait for the replicas that follow the catalogs";
                for statement in ["SET lock_timeout = 0", "SET statement_timeout = 0"] {
                    execute(&mut *connection, action, sqlx::query(statement)).await?;
                }
                for id in ids {
                    let lock = sqlx::query("SELECT pg_advisory_lock(2, $1)").bind(id);
                    execute(&mut *connection, action, lock).await?;
                }
                Ok(())
            }
            .boxed()
        });
        self.session().run_for(LONGEST, None, work).await?;
        let session = self.session().number().ok_or(FleetError::Fenced)?;
        let own = self.clone();
        let beating = tokio::spawn(async move {
            while own.session().keep(session).await.is_ok() {
                tokio::time::sleep(BEAT).await;
            }
        });
        Ok(Visit {
            fleet: self.clone(),
            session,
            _beating: AbortOnDropHandle::new(beating),
        })
    }
}

impl Visit {
    /// Keeps objects from being removed until a publication names them.
    pub async fn begin_upload(&self) -> Result<Uploading, FleetError> {
        self.fleet.begin_upload(self.session).await
    }

    /// Publishes revisions, all or none.
    pub async fn publish(
        &self,
        publications: Vec<Publication>,
    ) -> Result<Vec<GenerationNumber>, FleetError> {
        self.fleet.publish(self.session, publications).await
    }
}
