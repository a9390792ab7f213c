//! Memory that is free goes back to the system. What a pass or a burst of
//! questions took lies with the allocator otherwise, as long as almanac runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often it is given back. It takes a millisecond or a few.
const EVERY: Duration = Duration::from_secs(20);

/// Gives it back again and again until it is stopped.
pub(super) async fn give_back(stop: CancellationToken) {
    let again = async {
        loop {
            tokio::time::sleep(EVERY).await;
            // It waits for those who take memory, so nobody else may wait for it.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    };
    stop.run_until_cancelled(again).await;
}

/// Other allocators do it by themselves.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "the allocator is the system's, and so is its call"
)]
fn trim() {
    // SAFETY: it takes a number and touches only what is free.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
