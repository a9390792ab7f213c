//! The memory that a call took, by an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of what this thread holds.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes held by this thread; below zero when it freed what others made.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that it held since the last look.
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.with(|held| {
        held.set(held.get() + bytes);
        MOST.with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came; the counters
// are plain cells of the thread and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Grown in place or moved: what counts is what is held afterwards.
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work` and returns the most memory that it held on this thread at any
/// time, in bytes, beside what was held before.
pub fn most_memory<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(Cell::get);
    MOST.with(|most| most.set(before));
    let result = work();
    let most = MOST.with(Cell::get) - before;
    (result, usize::try_from(most).unwrap_or(0))
}

/// Fails when reading `length` bytes took more than `times` as many bytes of
/// memory, `small` bytes in any case being allowed.
#[track_caller]
pub fn assert_in_proportion(length: usize, most: usize, times: usize, small: usize) {
    assert!(
        most <= times * length + small,
        "{length} bytes took {most} bytes of memory: {} times as many",
        most / length.max(1)
    );
}
