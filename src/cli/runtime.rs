//! The async runtime of a command, and the signals that end it.

use std::pin::Pin;
use std::thread;

use anyhow::Context as _;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::cli::failure::Failure;

/// The fewest threads that answer clients.
const MIN_THREADS: usize = 2;

/// Runs a future to its end. Threads that still block then end with the process.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    // One thread more than a quota of one core: it then answers beside a long task.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.max(MIN_THREADS);
    crate::app::limit_heaps(threads);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start threads")
        .map_err(Failure::run)?;
    // Boxed, so that the runtime is compiled once and not for each command.
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// Completes when a signal asks the program to stop.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until SIGTERM or SIGINT. A second signal cuts off the connections that
/// may finish after the first.
pub(super) async fn until_stopped<F>(serve: impl FnOnce(Stop) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let mut signals = Signals::new().context("cannot wait for signals")?;
    let (stop, stopped) = oneshot::channel();
    let signalled = async {
        signals.next().await;
        // There is no receiver if the program fails at this moment.
        let _ = stop.send(());
        signals.next().await;
    };
    let stopped = async {
        // The sender is dropped only with the whole function.
        let _ = stopped.await;
    };
    tokio::select! {
        result = serve(Box::pin(stopped)) => result,
        () = signalled => anyhow::bail!("second signal: open connections are cut off"),
    }
}

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
