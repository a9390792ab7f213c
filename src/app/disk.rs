//! The disk of the data folder: writing goes on once a full disk has room, and almanac
//! ends when the folder was removed.

use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// Waits until almanac is to stop.
///
/// # Errors
/// When a part of the data folder was removed or replaced: nothing that almanac writes
/// would last, and another one may use the folder.
pub(super) async fn until_stopped(
    stop: impl Future<Output = ()>,
    store: &Store,
    read_only: bool,
) -> anyhow::Result<()> {
    tokio::select! {
        () = stop => Ok(()),
        error = until_removed(store.clone()), if !read_only => Err(error),
    }
}

async fn until_removed(store: Store) -> anyhow::Error {
    let mut last = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let store = store.clone();
        let looking = tokio::task::spawn_blocking(move || store.removed_part());
        // A panic has been logged.
        let removed = looking.await.unwrap_or_default();
        // Twice: the answer of a network file system may be late.
        match removed {
            Some(part) if last.as_ref() == Some(&part) => {
                return anyhow!(
                    "{} was removed or replaced while almanac ran; almanac ends, and the next \
                     start makes the data folder again",
                    part.display()
                );
            }
            removed => last = removed,
        }
    }
}

/// Opens a database for writing that has only been read, once that is possible. Failed
/// passes start again then.
pub(super) async fn write_again(
    store: Store,
    retry_now: watch::Sender<()>,
    stop: CancellationToken,
) {
    let writing = async {
        while store.unwritable().borrow().is_some() {
            tokio::time::sleep(LOOK).await;
            match store.write_again().await {
                Ok(()) => tracing::info!("the data folder can be written again"),
                Err(error) => tracing::debug!(%error, "the data folder still cannot be written"),
            }
        }
        retry_now.send_replace(());
    };
    if store.unwritable().borrow().is_some() {
        stop.run_until_cancelled(writing).await;
    }
}
