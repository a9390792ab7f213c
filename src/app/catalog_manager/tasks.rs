//! The tasks that work for one catalog. Each is started again when it panics.

use crate::app::catalog_manager::shared::{Shared, Task};
use crate::ingest::{self, Followed, ImageOptions, PassContext, Track};
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
    options: ImageOptions,
    publisher: Publisher,
    images: ImagePublisher,
    track: Option<Track>,
}

impl<'a> Tasks<'a> {
    /// In a fleet, this replica wants to serve the catalog from now on.
    pub(super) fn new(
        shared: &'a Shared,
        context: &PassContext,
        (followed, options): (Followed, ImageOptions),
        (publisher, images): (Publisher, ImagePublisher),
    ) -> Self {
        let membership = context.membership.as_ref();
        let seen = publisher.snapshot();
        let seen = seen.map(|snapshot| snapshot.revision().id);
        let track = membership.map(|membership| membership.open(&followed, &options, seen));
        let parts = Parts {
            context: context.clone(),
            followed,
            options,
            publisher,
            images,
            track,
        };
        Self { shared, parts }
    }

    /// Whether the catalog is one of a fleet.
    pub(super) fn is_of_fleet(&self) -> bool {
        self.parts.track.is_some()
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
                ..
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
                options,
                publisher,
                images,
                track,
                ..
            } = parts;
            ingest::keep_image(context, followed, options, publisher, images, track, stop)
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

    /// Receives what a fleet publishes, if there is one.
    pub(super) fn receive(&self) -> Option<Task> {
        let track = self.parts.track.clone()?;
        Some(self.spawn("receive", move |parts, stop| {
            let (context, followed) = (parts.context, parts.followed);
            let (publisher, images) = (parts.publisher, parts.images);
            ingest::receive(context, followed, track.clone(), publisher, images, stop)
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
        let (name, membership) = (&parts.followed.name, parts.context.membership.as_ref());
        let place = (name.clone(), membership.cloned());
        let start = move |stop| work(parts.clone(), stop);
        self.shared.spawn_tracked(task, place, start)
    }
}
