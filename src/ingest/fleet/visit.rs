//! A member for one publication, such as an import. It follows no catalog and serves
//! nobody; replicas go on meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::ingest::fleet::beat::INTERVAL;
use crate::ingest::fleet::moments;
use crate::ingest::fleet::silence::Silence;
use crate::ingest::fleet::turn::notice;
use crate::store::fleet::{
    Fleet, FleetError, GenerationId, Lease, ReplicaId, Silences, TrackId, Turn,
};

/// The time between two looks at receipts.
const LOOK: Duration = Duration::from_millis(200);
/// The longest time until all serve what was announced.
const LONGEST: Duration = Duration::from_mins(5);

/// A member until [`Visit::end`]. Dropped before, it is gone after six seconds.
pub(in crate::ingest) struct Visit {
    fleet: Fleet,
    me: ReplicaId,
    silence: Arc<Mutex<Silence>>,
    beating: JoinHandle<()>,
}

impl Visit {
    /// Joins the fleet.
    pub(in crate::ingest) async fn begin(fleet: &Fleet) -> Result<Self, FleetError> {
        let me = fleet.join().await?;
        let silence = Arc::new(Mutex::new(Silence::default()));
        let (own, noted) = (fleet.clone(), Arc::clone(&silence));
        let beating = tokio::spawn(async move {
            loop {
                // Without a beat, another replica takes the leases, and what is published
                // here is refused.
                match own.beat(me, false, false, &[]).await {
                    Ok(Some(beat)) => noted.lock().beat(Instant::now(), beat.now),
                    Ok(None) => tracing::debug!("the fleet has forgotten this visit"),
                    Err(error) => tracing::debug!(%error, "no word to the fleet"),
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Ok(Self {
            fleet: fleet.clone(),
            me,
            silence,
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
            let prepared = self.fleet.prepared(self.me, id, self.silences()).await?;
            if let Some(after) = notice(prepared) {
                match self.fleet.turn(lease, id, self.silences(), notice).await? {
                    Turn::Waits => {}
                    Turn::Set(flips) => {
                        let told = self.tell(id, flips);
                        let (told, ()) = tokio::join!(told, tokio::time::sleep(after));
                        if let Err(error) = told {
                            tracing::debug!(%error, "the bucket does not have the moment");
                        }
                        return Ok(());
                    }
                    Turn::Over => {
                        tokio::time::sleep(after).await;
                        return Ok(());
                    }
                }
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

    /// Writes the moment to the bucket, for replicas whose database dies now.
    async fn tell(&self, id: GenerationId, flips: i64) -> Result<(), FleetError> {
        let generations = self.fleet.generations(&[id.track]).await?;
        if let Some(turned) = generations.iter().find(|one| one.id == id) {
            moments::write(&self.fleet, turned, flips).await;
        }
        Ok(())
    }

    fn silences(&self) -> Silences {
        self.silence.lock().silences(Instant::now())
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
