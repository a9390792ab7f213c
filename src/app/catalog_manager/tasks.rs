//! The tasks that work for one catalog. Each is started again when it panics.

use crate::app::catalog_manager::shared::{Shared, Task};
use crate::fleet::Track;
use crate::ingest::{self, Followed, PassContext};
use crate::snapshot::{ImagePublisher, Publisher};

/// The parts that the tasks of a catalog have in common.
pub(super) struct Tasks<'a> {
    shared: &'a Shared,
    parts: Parts,
}

#[derive(Clone)]
struct Parts {
    context: PassContext,
    followed: Followed,
    publisher: Publisher,
    images: ImagePublisher,
    track: Track,
}

impl<'a> Tasks<'a> {
    /// In a fleet, this replica wants to serve the catalog from now on.
    pub(super) fn new(
        shared: &'a Shared,
        context: &PassContext,
        followed: Followed,
        publisher: Publisher,
        images: ImagePublisher,
    ) -> Self {
        let identity = ingest::track_identity(&followed);
        let track = context.coordinator.open(&followed.name, &identity);
        let parts = Parts {
            context: context.clone(),
            followed,
            publisher,
            images,
            track,
        };
        Self { shared, parts }
    }

    /// Whether the catalog is one of a fleet.
    pub(super) fn is_of_fleet(&self) -> bool {
        self.parts.track.shared().is_some()
    }

    /// Verifies the stored files.
    pub(super) fn scrub(&self) -> Task {
        self.spawn("scrub", |parts, stop| {
            let Parts {
                context,
                followed,
                publisher,
                images,
                track,
            } = parts;
            ingest::scrub(context, followed, publisher, images, track, stop)
        })
    }

    /// Maintains the image.
    pub(super) fn image(&self) -> Task {
        self.spawn("image", |parts, stop| {
            let Parts {
                context,
                followed,
                publisher,
                images,
                track,
            } = parts;
            ingest::keep_image(context, followed, publisher, images, track, stop)
        })
    }

    /// Follows the source.
    pub(super) fn follow(&self) -> Task {
        self.spawn("follow", |parts, stop| {
            ingest::follow(
                parts.context,
                parts.followed,
                parts.publisher,
                parts.track,
                stop,
            )
        })
    }

    /// Shows what a fleet publishes, if there is one.
    pub(super) fn receive(&self) -> Option<Task> {
        let track = self.parts.track.shared()?.clone();
        Some(self.spawn("receive", move |parts, stop| {
            let (publisher, images) = (parts.publisher, parts.images);
            ingest::receive(parts.context, track.clone(), publisher, images, stop)
        }))
    }

    fn spawn<F>(
        &self,
        task: &'static str,
        work: impl Fn(Parts, tokio_util::sync::CancellationToken) -> F + Send + 'static,
    ) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let parts = self.parts.clone();
        let replica = parts.context.coordinator.replica().cloned();
        let catalog = parts.followed.name.clone();
        let start = move |stop| work(parts.clone(), stop);
        self.shared.spawn_tracked(task, catalog, replica, start)
    }
}
