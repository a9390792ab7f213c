//! Returns free memory to the system. Otherwise the allocator keeps the memory
//! of a pass or a burst of requests as long as almanac runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The time between two returns. Each takes a few milliseconds.
const INTERVAL: Duration = Duration::from_secs(20);

/// Returns free memory regularly until almanac stops.
pub(super) async fn give_back(stop: CancellationToken) {
    let again = async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            // It waits for locks of the allocator, so it must not block the runtime.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    };
    stop.run_until_cancelled(again).await;
}

/// Other allocators do this on their own.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "only a call of the C library trims its allocator"
)]
fn trim() {
    // SAFETY: it takes a number and changes only free memory.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
