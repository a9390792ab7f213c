//! Futures in tests that wait for programs, and so are not async themselves.

use tokio::runtime::{Builder, Runtime};

/// Runs a future to its end, in a runtime of its own.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

/// A runtime whose tasks go on while the test does something else.
pub(crate) fn background() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}
