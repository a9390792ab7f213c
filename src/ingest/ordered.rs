//! Work on many items by several threads, with results in the items' order.

use std::collections::BTreeMap;
use std::thread;

use parking_lot::{Condvar, Mutex};

struct Shared<I, T> {
    state: Mutex<State<I, T>>,
    changed: Condvar,
}

struct State<I, T> {
    /// The items that no worker has yet.
    items: I,
    /// The number of the next one.
    next: usize,
    /// The number of all items, once it is known.
    all: Option<usize>,
    /// The number of results that were taken.
    taken: usize,
    results: BTreeMap<usize, T>,
    /// Whether a worker panicked or `take` failed.
    stopped: bool,
}

/// Runs `work` on `items` with `workers` threads, each with its own state, and
/// gives the results to `take` on this thread, in order. Workers run ahead of
/// `take` by at most `window` items, which bounds memory. An item is taken from
/// the iterator when a worker is free for it.
///
/// # Errors
/// The first error of `take`; the remaining items are dropped.
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
                    shared.state.lock().results.insert(number, result);
                    shared.changed.notify_all();
                }
            });
        }
        for number in 0.. {
            let mut state = shared.state.lock();
            let result = loop {
                if let Some(result) = state.results.remove(&number) {
                    break result;
                }
                // The scope passes a worker's panic on.
                if state.stopped || state.all == Some(number) {
                    return Ok(());
                }
                shared.changed.wait(&mut state);
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

/// The next item, once it is within the window.
fn claim<I: Iterator, T>(shared: &Shared<I, T>, window: usize) -> Option<(usize, I::Item)> {
    let mut state = shared.state.lock();
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
        shared.changed.wait(&mut state);
    }
}

fn stop<I, T>(shared: &Shared<I, T>) {
    shared.state.lock().stopped = true;
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
