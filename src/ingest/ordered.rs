//! Work on many items by several threads, results taken in the items' order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

struct Shared<I, T> {
    state: Mutex<State<I, T>>,
    changed: Condvar,
}

struct State<I, T> {
    /// Those that nobody works on.
    items: I,
    /// The number of the next of them.
    next: usize,
    /// How many there are, once that is known.
    all: Option<usize>,
    /// How many results were taken.
    taken: usize,
    results: BTreeMap<usize, T>,
    /// Set when a worker panicked or the taker gave up.
    stopped: bool,
}

impl<I, T> Shared<I, T> {
    fn lock(&self) -> MutexGuard<'_, State<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<I, T>>) -> MutexGuard<'a, State<I, T>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets `workers` threads work on `items`, each with a state of its own, and
/// hands the results to `take` on this thread, in order. Workers run ahead of
/// `take` by at most `window` items, which bounds what lies in memory. An item
/// is made when a worker is free for it.
///
/// # Errors
/// The first error of `take`; the rest is not worked on.
///
/// # Panics
/// When a worker does.
pub(super) fn ordered<I, W, T, E>(
    items: I,
    workers: usize,
    window: usize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, I::Item) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    I: Iterator + Send,
    T: Send,
{
    let shared = Shared {
        state: Mutex::new(State {
            items,
            next: 0,
            all: None,
            taken: 0,
            results: BTreeMap::new(),
            stopped: false,
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                let _stop = StopOnPanic(&shared);
                let mut state_of_worker = worker();
                while let Some((number, item)) = claim(&shared, window) {
                    let result = work(&mut state_of_worker, item);
                    shared.lock().results.insert(number, result);
                    shared.changed.notify_all();
                }
            });
        }
        for number in 0.. {
            let mut state = shared.lock();
            let result = loop {
                if let Some(result) = state.results.remove(&number) {
                    break result;
                }
                // When a worker panicked, the scope passes that on.
                if state.stopped || state.all == Some(number) {
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
fn claim<I: Iterator, T>(shared: &Shared<I, T>, window: usize) -> Option<(usize, I::Item)> {
    let mut state = shared.lock();
    loop {
        if state.stopped || state.all.is_some() {
            return None;
        }
        if state.next < state.taken + window.max(1) {
            let item = state.items.next();
            if item.is_none() {
                state.all = Some(state.next);
                shared.changed.notify_all();
            }
            let number = state.next;
            state.next += 1;
            return item.map(|item| (number, item));
        }
        state = shared.wait(state);
    }
}

fn stop<I, T>(shared: &Shared<I, T>) {
    shared.lock().stopped = true;
    shared.changed.notify_all();
}

struct StopOnPanic<'a, I, T>(&'a Shared<I, T>);

impl<I, T> Drop for StopOnPanic<'_, I, T> {
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
            items.iter().copied(),
            4,
            3,
            || (),
            |(), item: u64| {
                thread::sleep(std::time::Duration::from_micros(item * 7919 % 300));
                item
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
        let result = ordered(
            0..1000,
            2,
            4,
            || (),
            |(), item| item,
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
                [1, 2, 3].into_iter(),
                2,
                2,
                || (),
                |(), item| assert!(item != 2),
                |()| Ok::<(), ()>(()),
            )
        });
        assert!(caught.is_err());
    }
}
