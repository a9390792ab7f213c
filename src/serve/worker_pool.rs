//! Worker pools: blocking work on threads of its own, with a bound on how much
//! runs at once.
//!
//! Work keeps its permit until it ends, even if the client has disconnected.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;

/// How long work waits for a free worker.
const WAIT: Duration = Duration::from_secs(5);

/// A bound on how much work of one kind runs at once. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPool(Arc<Semaphore>);

/// Why a request was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// A worker or memory limit is reached.
    Busy,
    /// The worker panicked. The log has the message.
    Failed,
}

impl WorkerPool {
    /// A pool of `workers` for each core.
    pub(crate) fn per_core(workers: usize) -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new(workers * cores)))
    }

    /// Runs work once a worker is free. It keeps its worker until it ends, even
    /// if the returned future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Rejected> {
        let permit = Arc::clone(&self.0).acquire_owned();
        let permit = tokio::time::timeout(WAIT, permit).await;
        let Ok(Ok(permit)) = permit else {
            return Err(Rejected::Busy);
        };
        // Boxed, so that a task is compiled for each result and not for each caller.
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(move || {
            let _permit = permit;
            work()
        });
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            tracing::error!(%error, "query worker panicked");
            Rejected::Failed
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn abandoned_work_keeps_its_worker_until_it_ends() {
        let pool = WorkerPool(Arc::new(Semaphore::new(1)));
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let work = pool.run(move || {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        let mut work = Box::pin(work);
        // The work starts, and its client goes away.
        while begins.try_recv().is_err() {
            let waited = tokio::time::timeout(Duration::from_millis(5), &mut work).await;
            assert!(waited.is_err());
        }
        drop(work);
        assert_eq!(pool.0.available_permits(), 0);
        drop(end);
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_panic_fails_one_request_and_frees_its_worker() {
        let pool = WorkerPool(Arc::new(Semaphore::new(1)));
        let failed = pool.run(|| panic!("a defect")).await;
        assert_eq!(failed, Err::<(), _>(Rejected::Failed));
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }
}
