//! Shows what a fleet has published of a catalog.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::fleet::{FileLimit, Observer, Receiver, SharedTrack};
use crate::ingest::catalog_metrics::announce;
use crate::ingest::context::PassContext;
use crate::ingest::pass::{events, history};
use crate::snapshot::{ImagePublisher, Publisher, Snapshot};
use crate::store::Revision;
use fbc::problem::Problem;

/// Shows the newest revisions of a catalog, until it is stopped.
pub async fn receive(
    context: PassContext,
    track: SharedTrack,
    publisher: Publisher,
    images: ImagePublisher,
    stop: CancellationToken,
) {
    let receiver = Receiver {
        track,
        publisher,
        images,
        limit: FileLimit::of(&context.limits),
        history: context.history.subscribe(),
        observer: Arc::new(Shown(context)),
    };
    receiver.run(stop).await;
}

/// What follows when clients see another revision.
struct Shown(PassContext);

impl Observer for Shown {
    fn shown(&self, snapshot: &Snapshot, problems: &[Problem]) {
        announce(snapshot, problems, None, "serving a revision of the fleet");
    }

    fn notify(&self, revision: Revision) -> BoxFuture<'_, ()> {
        async move {
            let entry = history::entry(&self.0, &revision).await;
            history::count(&revision, entry.as_ref());
            let event = events::publication(&revision, entry.as_ref());
            self.0.webhooks.send(event);
        }
        .boxed()
    }
}
