//! A member for one publication, such as an import. It follows no catalog and serves
//! nobody; replicas go on meanwhile.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::ingest::fleet::beat::INTERVAL;
use crate::ingest::fleet::silence::RETURN;
use crate::ingest::fleet::turn::notice;
use crate::store::fleet::{Fleet, FleetError, GenerationId, Lease, ReplicaId, TrackId, Turn};

/// The time between two looks at receipts.
const LOOK: Duration = Duration::from_millis(200);
/// The longest time until all serve what was announced.
const LONGEST: Duration = Duration::from_mins(5);

/// A member until [`Visit::end`]. Dropped before, it is gone after six seconds.
pub(in crate::ingest) struct Visit {
    fleet: Fleet,
    me: ReplicaId,
    begun: Instant,
    beating: JoinHandle<()>,
}

impl Visit {
    /// Joins the fleet.
    pub(in crate::ingest) async fn begin(fleet: &Fleet) -> Result<Self, FleetError> {
        let me = fleet.join().await?;
        let own = fleet.clone();
        let beating = tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                // Without a beat, another replica takes the leases, and what is published
                // here is refused.
                if let Err(error) = own.beat(me, false, false, &[]).await {
                    tracing::debug!(%error, "no word to the fleet");
                }
            }
        });
        Ok(Self {
            fleet: fleet.clone(),
            me,
            begun: Instant::now(),
            beating,
        })
    }

    /// Takes tracks from whoever follows them.
    pub(in crate::ingest) async fn seize(
        &self,
        tracks: &[TrackId],
    ) -> Result<Vec<Lease>, FleetError> {
        self.fleet.seize(self.me, tracks).await
    }

    /// Waits until the replicas have a generation, and makes all turn to it. It is left to
    /// others once `is_stopped`.
    pub(in crate::ingest) async fn turn(
        &self,
        lease: Lease,
        id: GenerationId,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(), FleetError> {
        let begun = Instant::now();
        let notice = |prepared| notice(prepared, begun.elapsed());
        loop {
            // Of a silence of the database before, nothing is known.
            let lived_at = (self.begun.elapsed() < RETURN).then_some(0);
            let prepared = self.fleet.prepared(self.me, id, lived_at).await?;
            if let Some(after) = notice(prepared)
                && self.fleet.turn(lease, id, lived_at, notice).await? != Turn::Waits
            {
                tokio::time::sleep(after).await;
                return Ok(());
            }
            if is_stopped() {
                return Err(FleetError::Announced);
            }
            if begun.elapsed() > LONGEST {
                return Err(FleetError::NotTurned);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives the tracks back and leaves. The others go on with what was announced.
    pub(in crate::ingest) async fn end(self) -> Result<(), FleetError> {
        self.beating.abort();
        self.fleet.leave(self.me).await
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.beating.abort();
    }
}
