//! A member for one publication, such as an import. It follows no catalog and serves
//! nobody; replicas go on meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::ingest::fleet::beat::INTERVAL;
use crate::ingest::fleet::moments;
use crate::ingest::fleet::silence::Silence;
use crate::ingest::fleet::turn::{NOTICE, look_again, notice};
use crate::store::fleet::{
    Fleet, FleetError, GenerationId, Lease, Prepared, ReplicaId, Silences, TrackId, Turn,
};

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
        let unawaited = |error| FleetError::Unawaited(Box::new(error));
        loop {
            let mut failed = None;
            match self.try_turn(lease, id, notice).await {
                Ok(Turn::Waits) => {}
                Ok(Turn::Set { flips, after }) => {
                    let told = self.tell(id, flips);
                    let (told, ()) = tokio::join!(told, tokio::time::sleep(after));
                    if let Err(error) = told {
                        tracing::debug!(%error, "the bucket does not have the moment");
                    }
                    return Ok(());
                }
                Ok(Turn::Over) => {
                    // Its moment was set at this time, or earlier.
                    tokio::time::sleep(NOTICE).await;
                    return Ok(());
                }
                // The revision is announced, and another try may set its moment.
                Err(error) if error.is_temporary() => failed = Some(error),
                Err(error) => return Err(unawaited(error)),
            }
            if is_stopped() {
                return Err(FleetError::Announced);
            }
            if begun.elapsed() > LONGEST {
                return Err(unawaited(failed.unwrap_or(FleetError::NotTurned)));
            }
            tokio::time::sleep(look_again(begun.elapsed())).await;
        }
    }

    /// Sets the moment of a generation, if enough replicas have it.
    async fn try_turn(
        &self,
        lease: Lease,
        id: GenerationId,
        notice: impl Fn(Prepared) -> Option<Duration> + Send + Sync,
    ) -> Result<Turn, FleetError> {
        let prepared = self.fleet.prepared(self.me, id, self.silences()).await?;
        if notice(prepared).is_none() {
            return Ok(Turn::Waits);
        }
        self.fleet.turn(lease, id, self.silences(), notice).await
    }

    /// Writes the moment to the bucket, for replicas whose database dies now.
    async fn tell(&self, id: GenerationId, flips: i64) -> Result<(), FleetError> {
        let generations = self.fleet.generations(&[id.track]).await?;
        if let Some(turned) = generations.iter().find(|one| one.id == id) {
            // Replicas that read the moment write it, too, and tell of failures.
            let _ = moments::write(&self.fleet, turned, flips).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fleet::testing;

    #[tokio::test]
    async fn a_database_that_is_away_ends_no_wait_for_what_is_announced() {
        let visit = Visit {
            fleet: testing::unreachable(),
            me: testing::lease(1).holder,
            silence: Arc::default(),
            beating: tokio::spawn(std::future::pending()),
        };
        let id = testing::generation_id(1);
        // A person ends it, after the first error.
        let turned = visit.turn(testing::lease(1), id, || true).await;
        assert!(matches!(turned, Err(FleetError::Announced)), "{turned:?}");
    }
}
