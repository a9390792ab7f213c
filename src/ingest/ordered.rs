//! Work on many items by several threads, results taken in the items' order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The next item that nobody works on.
    next: usize,
    /// How many results were taken.
    taken: usize,
    results: BTreeMap<usize, T>,
    /// Set when a worker panicked or the taker gave up.
    stopped: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets `workers` threads work on `items`, each with a state of its own, and
/// hands the results to `take` on this thread, in order. Workers run ahead of
/// `take` by at most `window` items, which bounds what lies in memory.
///
/// # Errors
/// The first error of `take`; the rest is not worked on.
///
/// # Panics
/// When a worker does.
pub(super) fn ordered<I, W, T, E>(
    items: &[I],
    workers: usize,
    window: usize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, &I) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    I: Sync,
    T: Send,
{
    let shared = Shared {
        state: Mutex::new(State {
            next: 0,
            taken: 0,
            results: BTreeMap::new(),
            stopped: false,
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                let _stop = StopOnPanic(&shared);
                let mut state_of_worker = worker();
                while let Some(number) = claim(&shared, items.len(), window) {
                    let result = work(&mut state_of_worker, &items[number]);
                    shared.lock().results.insert(number, result);
                    shared.changed.notify_all();
                }
            });
        }
        for number in 0..items.len() {
            let mut state = shared.lock();
            let result = loop {
                if let Some(result) = state.results.remove(&number) {
                    break result;
                }
                if state.stopped {
                    // A worker panicked; the scope passes that on.
                    return Ok(());
                }
                state = shared.wait(state);
            };
            state.taken = number + 1;
            drop(state);
            shared.changed.notify_all();
            if let Err(error) = take(result) {
                stop(&shared);
                return Err(error);
            }
        }
        Ok(())
    })
}

/// The next item, once it is near enough to what was taken.
fn claim<T>(shared: &Shared<T>, items: usize, window: usize) -> Option<usize> {
    let mut state = shared.lock();
    loop {
        if state.stopped || state.next >= items {
            return None;
        }
        if state.next < state.taken + window.max(1) {
            state.next += 1;
            return Some(state.next - 1);
        }
        state = shared.wait(state);
    }
}

fn stop<T>(shared: &Shared<T>) {
    shared.lock().stopped = true;
    shared.changed.notify_all();
}

struct StopOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            stop(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_worked_on_them() {
        let items: Vec<u64> = (0..200).collect();
        let mut seen = Vec::new();
        let result: Result<(), ()> = ordered(
            &items,
            4,
            3,
            || (),
            |(), item| {
                thread::sleep(std::time::Duration::from_micros(item * 7919 % 300));
                *item
            },
            |item| {
                seen.push(item);
                Ok(())
            },
        );
        assert_eq!(result, Ok(()));
        assert_eq!(seen, items);
    }

    #[test]
    fn an_error_of_the_taker_ends_the_work() {
        let items: Vec<u64> = (0..1000).collect();
        let result = ordered(
            &items,
            2,
            4,
            || (),
            |(), item| *item,
            |item| {
                if item == 5 { Err(item) } else { Ok(()) }
            },
        );
        assert_eq!(result, Err(5));
    }

    #[test]
    fn a_panic_of_a_worker_is_passed_on_and_nothing_hangs() {
        let caught = std::panic::catch_unwind(|| {
            ordered(
                &[1, 2, 3],
                2,
                2,
                || (),
                |(), item| assert!(*item != 2),
                |()| Ok::<(), ()>(()),
            )
        });
        assert!(caught.is_err());
    }
}
