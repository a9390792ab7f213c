//! Keeps the allocator small. By itself it keeps the memory of a pass or a burst of
//! requests as long as almanac runs, and spreads it over eight heaps for each core.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The time between two returns. Each takes a few milliseconds.
const INTERVAL: Duration = Duration::from_secs(20);

/// Gives all threads together at most this many heaps. To be called before they start:
/// a heap that exists stays.
///
/// Each heap has gaps of its own. With eight for each of two cores, 20 catalogs of 7,000
/// bundles took a quarter more memory than with two in all.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "only a call of the C library limits its allocator"
)]
pub(crate) fn limit_heaps(heaps: usize) {
    let heaps = libc::c_int::try_from(heaps).unwrap_or(libc::c_int::MAX);
    // SAFETY: it takes two numbers. If it refuses them, the allocator stays as it is.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

/// Other allocators have no such heaps.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn limit_heaps(_: usize) {}

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
