//! The admin port has a thread of its own: probes are answered in time whatever the
//! threads for clients and passes do, also with a quota of one core.

use std::thread;

use anyhow::Context as _;
use axum::Router;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::serve::{Limits, Listener};

/// Serves the admin port until `stop`.
pub(super) fn serve(
    listener: Listener,
    routes: Router,
    limits: Limits,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the thread of the admin port")?;
    let serving = move || {
        runtime.block_on(async {
            match listener.moved_here() {
                Ok(port) => port.serve(routes, limits, stop, TaskTracker::new()).await,
                Err(error) => tracing::error!(%error, "cannot serve the admin port"),
            }
        });
    };
    let thread = thread::Builder::new().name("admin".to_owned());
    thread
        .spawn(serving)
        .context("cannot start the thread of the admin port")?;
    Ok(())
}
