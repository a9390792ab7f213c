//! Futures in tests that wait for programs, and so are not async themselves.

use tokio::runtime::Builder;

/// Runs a future to its end, in a runtime of its own.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}
