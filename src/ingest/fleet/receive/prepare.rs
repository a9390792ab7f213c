//! Fetches announced generations before any client sees them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ingest::fleet::format::fetch_or_build;
use crate::ingest::fleet::moments::{self, unless_turned};
use crate::ingest::fleet::opened::Opened;
use crate::ingest::fleet::receive::{RETRY, Receiver};
use crate::ingest::fleet::track_state::{TrackState, Waiting};
use crate::ingest::fleet::turn::{look_again, notice};
use crate::store::fleet::{FileLimit, FleetError, Generation, Lease, Turn};

impl Receiver {
    /// Fetches the announced generation, and sets its moment if this replica holds the lease.
    pub(super) async fn prepare(
        &mut self,
        state: &TrackState,
    ) -> Result<Option<Duration>, FleetError> {
        let Some(pending) = &state.pending else {
            self.preparing.end();
            return Ok(None);
        };
        let seen = self.announced.filter(|(id, _)| *id == pending.id);
        let (_, since) = *self
            .announced
            .insert(seen.unwrap_or((pending.id, Instant::now())));
        if let Some(left) = self.preparing.left(pending.id, Instant::now()) {
            return Ok(Some(left));
        }
        let opened = self.open(pending, false).await;
        opened.inspect_err(|error| self.preparing.fail(pending.id, error, Instant::now()))?;
        self.preparing.end();
        let announcing = self.leave_receipt(pending, state.lease, since);
        let left = unless_turned(&self.track, state, announcing).await;
        // The next step turns.
        left.unwrap_or(Ok(None))
    }

    /// Tells the others that a generation is open here, and sets its moment if that is for
    /// this replica to do.
    async fn leave_receipt(
        &self,
        pending: &Generation,
        lease: Option<Lease>,
        since: Instant,
    ) -> Result<Option<Duration>, FleetError> {
        let membership = self.track.membership();
        let look = Some(look_again(since.elapsed()));
        let Some(me) = membership.me() else {
            return Ok(look);
        };
        let fleet = membership.fleet();
        let Some(lease) = lease else {
            // Again later: it gets lost where this replica joins anew or the database
            // loses commits.
            fleet.leave_receipt(me, pending.id).await?;
            self.track.wait_for(Some(Waiting::Holder));
            return Ok(Some(RETRY));
        };
        let prepared = fleet.prepared(me, pending.id, membership.silences());
        let prepared = prepared.await?;
        self.track.wait_for(Some(Waiting::Replicas {
            having: prepared.having,
            replicas: prepared.replicas,
        }));
        if !prepared.mine {
            fleet.leave_receipt(me, pending.id).await?;
            return Ok(look);
        }
        let notice = |prepared| notice(prepared, since.elapsed());
        if notice(prepared).is_none() {
            return Ok(look);
        }
        let turned = fleet.turn(lease, pending.id, membership.silences(), notice);
        match turned.await? {
            Turn::Waits => return Ok(look),
            Turn::Set { flips, .. } => {
                moments::tell(membership, pending, flips);
                tracing::debug!(generation = pending.id.number, "the moment is set");
            }
            Turn::Over => {}
        }
        membership.nudge();
        // Should the answer get lost, it is looked at again.
        Ok(Some(RETRY))
    }

    /// Fetches and opens a generation, unless it is open; a `fresh` one in any case. No
    /// client sees it yet, but its image can be pulled by digest.
    pub(super) async fn open(
        &mut self,
        generation: &Generation,
        fresh: bool,
    ) -> Result<(), FleetError> {
        if let Some(next) = &mut self.next
            && next.generation.is_same(generation)
            && !fresh
        {
            next.generation = generation.clone();
            self.track.opened(generation.id);
            return Ok(());
        }
        self.track.wait_for(Some(Waiting::Files));
        let store = &self.context.store;
        let fleet = self.track.membership().fleet();
        let disk = (store, Some(&self.context.read_permits));
        let name = &self.followed.name;
        let limit = FileLimit::of(&self.context.limits);
        let fetched = fetch_or_build(fleet, disk, limit, (name, generation), fresh).await?;
        let served = self.publisher.snapshot();
        let is_served = served.is_some_and(|served| {
            let served = served.revision();
            !fresh && served.id == fetched.revision.id && served.content == fetched.revision.content
        });
        let opened = Opened::of(store, generation, fetched, is_served).await?;
        if let Some(image) = &opened.image {
            self.images.prepare(Arc::clone(&image.image));
        }
        tracing::debug!(generation = generation.id.number, "opened");
        self.track.opened(generation.id);
        self.next = Some(opened);
        Ok(())
    }
}
