//! Tasks that are started again when they panic: a defect in one of them must not leave a
//! catalog, or a whole replica, without its work.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use metrics::counter;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fleet::Replica;
use crate::name::CatalogName;

/// The pause after the first panic. It doubles up to the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// A task that ran for so long begins with the first pause again.
const CALM: Duration = Duration::from_mins(10);

/// A task that is started again when it panics.
pub struct Restarted<'a> {
    /// Its name in logs and metrics.
    pub task: &'static str,
    /// The catalog that it works for, if it is one.
    pub catalog: Option<&'a CatalogName>,
    /// The replica of a fleet that reports panics, if there is one.
    pub replica: Option<&'a Replica>,
    /// When it is not started any more.
    pub stop: &'a CancellationToken,
}

impl Restarted<'_> {
    /// Runs the task until it ends without a panic, or is stopped after one.
    pub async fn run<F>(self, mut work: impl FnMut() -> F)
    where
        F: Future<Output = ()>,
    {
        let mut pause = FIRST;
        loop {
            let begun = Instant::now();
            // Boxed: the states of these tasks are large. What they share is kept behind
            // locks that a panic releases, and each start reads it anew.
            let work = AssertUnwindSafe(Box::pin(work()));
            let Err(panic) = work.catch_unwind().await else {
                return;
            };
            if begun.elapsed() >= CALM {
                pause = FIRST;
            }
            self.tell(&*panic, pause);
            let pausing = tokio::time::sleep(pause);
            if self.stop.run_until_cancelled(pausing).await.is_none() {
                return;
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    fn tell(&self, panic: &(dyn Any + Send), pause: Duration) {
        let Self { task, catalog, .. } = self;
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(
            task,
            catalog = catalog.map(tracing::field::display),
            panic = text.unwrap_or("without a message"),
            again_in = ?pause,
            "a task panicked and is started again: a defect of almanac"
        );
        counter!("almanac_task_panics_total", "task" => *task).increment(1);
        if let Some(replica) = self.replica {
            let of = catalog.map(|catalog| format!(" of {catalog}"));
            replica.panicked(&format!("{task}{}", of.unwrap_or_default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_after_growing_pauses() {
        let (starts, begin) = (Cell::new(0_u32), Instant::now());
        let restarted = Restarted {
            task: "test",
            catalog: None,
            replica: None,
            stop: &CancellationToken::new(),
        };
        let work = || async {
            starts.set(starts.get() + 1);
            tokio::task::yield_now().await;
            assert!(starts.get() == 4, "a defect");
        };
        restarted.run(work).await;
        assert_eq!(starts.get(), 4);
        // One second, two and four.
        let took = begin.elapsed();
        assert!((7..8).contains(&took.as_secs()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_not_started_again_once_it_is_stopped() {
        let stop = CancellationToken::new();
        let restarted = Restarted {
            task: "test",
            catalog: None,
            replica: None,
            stop: &stop,
        };
        let work = || async {
            stop.cancel();
            panic!("a defect");
        };
        restarted.run(work).await;
    }
}
