//! Running the stages of a pass: on which thread, in which span, for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::histogram;
use parking_lot::Mutex;
use tracing::Instrument as _;

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{Cause, PassError, Stage};

/// The stage that a pass has reached. Clones share it, also with the blocking
/// threads of the pass, so that a timeout names the stage that it struck.
#[derive(Clone)]
pub(super) struct StageTracker(Arc<Mutex<Stage>>);

impl StageTracker {
    /// A pass that has reached this stage.
    pub(super) fn at(stage: Stage) -> Self {
        Self(Arc::new(Mutex::new(stage)))
    }

    /// Notes that the pass has reached a stage.
    pub(super) fn enter(&self, stage: Stage) {
        *self.0.lock() = stage;
    }

    /// Runs a stage in its span and records its time.
    pub(super) async fn run<T>(
        &self,
        stage: Stage,
        work: impl Future<Output = Result<T, PassError>>,
    ) -> Result<T, PassError> {
        self.enter(stage);
        let started = Instant::now();
        let result = work
            .instrument(tracing::info_span!("stage", stage = stage.as_str()))
            .await;
        observe(stage, started);
        result
    }

    /// Gives work up after a time, with an error of the stage that it was in.
    pub(super) async fn limit<T>(
        &self,
        longest: Duration,
        work: impl Future<Output = Result<T, PassError>>,
    ) -> Result<T, PassError> {
        let timeout = tokio::time::timeout(longest, work).await;
        timeout.unwrap_or_else(|_| {
            Err(PassError {
                stage: *self.0.lock(),
                cause: Cause::Timeout(longest),
            })
        })
    }
}

/// Records the time of a stage.
pub(super) fn observe(stage: Stage, started: Instant) {
    histogram!("almanac_stage_seconds", "stage" => stage.as_str())
        .record(started.elapsed().as_secs_f64());
    tracing::debug!(stage = stage.as_str(), elapsed = ?started.elapsed(), "stage done");
}

/// Runs work on a blocking thread: the threads of the runtime serve clients. A
/// panic is an error of the pass, not the end of almanac.
pub(super) async fn blocking<T: Send + 'static>(
    stage: Stage,
    work: impl FnOnce() -> Result<T, PassError> + Send + 'static,
) -> Result<T, PassError> {
    let span = tracing::Span::current();
    // Boxed, so that a task is compiled for each result and not for each caller.
    let work: Box<dyn FnOnce() -> _ + Send> = Box::new(work);
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .unwrap_or_else(|error| {
            Err(PassError {
                stage,
                cause: Cause::Panicked(error.to_string()),
            })
        })
}

/// As [`blocking`]. The thread holds the permit until it ends, which may be
/// after the pass was given up.
pub(super) async fn blocking_with_permit<T: Send + 'static>(
    stage: Stage,
    permit: &ReadPermit,
    work: impl FnOnce() -> Result<T, PassError> + Send + 'static,
) -> Result<T, PassError> {
    let permit = permit.clone();
    blocking(stage, move || {
        let _permit = permit;
        work()
    })
    .await
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    /// The one blocking thread of a runtime.
    pub(crate) struct Gate;

    impl Gate {
        /// Keeps the blocking thread busy until the result is dropped.
        #[expect(
            clippy::unused_self,
            reason = "the gate shows that there is one thread"
        )]
        pub(crate) fn close(&self) -> mpsc::Sender<()> {
            let (closed, wait) = mpsc::channel();
            tokio::task::spawn_blocking(move || wait.recv());
            closed
        }
    }

    /// Runs a test on a runtime with one blocking thread.
    pub(crate) fn on_one_blocking_thread(test: impl AsyncFnOnce(Gate)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build();
        runtime.unwrap().block_on(test(Gate));
    }

    #[tokio::test]
    async fn a_timeout_names_the_stage_that_it_struck() {
        let stages = StageTracker::at(Stage::Resolve);
        let pass = async {
            stages.run(Stage::Pull, async { Ok(()) }).await?;
            let endless = std::future::pending::<Result<(), PassError>>();
            stages.run(Stage::Commit, endless).await
        };
        let limited = stages.limit(Duration::from_millis(10), pass).await;
        let error = limited.unwrap_err();
        assert_eq!(error.stage, Stage::Commit);
        assert_eq!(error.reason(), "timeout");
    }

    #[tokio::test]
    async fn a_read_permit_is_free_only_once_the_thread_of_a_dropped_pass_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = ReadPermit::acquire(&permits).await;
        let (go_on, wait) = mpsc::channel::<()>();
        let mut reading = Box::pin(blocking_with_permit(Stage::Read, &permit, move || {
            let _ = wait.recv();
            Ok(())
        }));
        assert!(reading.as_mut().now_or_never().is_none());
        drop(reading);
        drop(permit);
        assert_eq!(permits.available_permits(), 0);
        go_on.send(()).unwrap();
        let _free = permits.acquire().await.unwrap();
    }
}
