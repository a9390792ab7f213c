//! Work on many items by several threads, with results in the items' order.
//!
//! There are as many threads as there is room for, and each does what is to be done
//! next: the one that brings items works on some when enough of them wait, and results
//! are taken by whoever has finished one. Threads that hand work on and sleep would leave
//! a processor idle while two of them wait for the other.

use std::collections::{BTreeMap, VecDeque};
use std::thread;

use parking_lot::{Condvar, Mutex};

/// How many threads work, and how far ahead.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// The threads, with the calling one.
    pub(crate) workers: usize,
    /// The items that are worked on or have results that wait for an earlier one. It
    /// bounds memory.
    pub(crate) window: usize,
}

/// Nobody takes items any more: a worker panicked or taking a result failed.
#[derive(Debug)]
pub(crate) struct Stopped;

/// Takes the next item.
pub(crate) type Push<'a, I> = dyn FnMut(I) -> Result<(), Stopped> + 'a;

/// Runs `work` on the items that `bring` pushes, with several threads, each with its own
/// state, and gives the results to `take`, in order, one at a time. Returns the result of
/// `bring`, which runs on this thread.
///
/// # Errors
/// The first error of `take`; the remaining items are dropped.
///
/// # Panics
/// When a worker does.
pub(crate) fn ordered<I: Send, W, T: Send, R, E: Send>(
    ahead: Ahead,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, I) -> T + Sync,
    take: impl FnMut(T) -> Result<(), E> + Send,
    bring: impl FnOnce(&mut Push<'_, I>) -> R,
) -> Result<R, E> {
    let shared = Shared {
        state: Mutex::new(State {
            items: VecDeque::new(),
            next: 0,
            taken: 0,
            results: BTreeMap::new(),
            ended: false,
            stopped: false,
        }),
        changed: Condvar::new(),
        take: Mutex::new((take, None)),
        ahead,
    };
    let brought = thread::scope(|scope| {
        let _stop = StopOnPanic(&shared);
        for _ in 1..ahead.workers {
            scope.spawn(|| {
                let _stop = StopOnPanic(&shared);
                let mut own = worker();
                while let Some((number, item)) = shared.claim() {
                    shared.deliver(number, work(&mut own, item));
                }
            });
        }
        let mut own = worker();
        let brought = bring(&mut |item| {
            let mut item = Some(item);
            loop {
                match shared.push_or_claim(&mut item) {
                    Ok(None) => return Ok(()),
                    Ok(Some((number, other))) => shared.deliver(number, work(&mut own, other)),
                    Err(stopped) => return Err(stopped),
                }
            }
        });
        shared.end();
        while let Some((number, item)) = shared.claim() {
            shared.deliver(number, work(&mut own, item));
        }
        brought
    });
    match shared.take.into_inner().1 {
        Some(error) => Err(error),
        None => Ok(brought),
    }
}

struct Shared<I, T, F, E> {
    state: Mutex<State<I, T>>,
    changed: Condvar,
    /// Takes a result, and the first error.
    take: Mutex<(F, Option<E>)>,
    ahead: Ahead,
}

struct State<I, T> {
    /// Items that no worker has yet, and the number of the first one.
    items: VecDeque<I>,
    next: usize,
    /// The number of results that were taken.
    taken: usize,
    results: BTreeMap<usize, T>,
    /// Whether all items are there.
    ended: bool,
    stopped: bool,
}

impl<I, T> State<I, T> {
    /// The first item, unless it is too far ahead.
    fn claim(&mut self, window: usize) -> Option<(usize, I)> {
        if self.next >= self.taken + window.max(1) {
            return None;
        }
        let item = self.items.pop_front()?;
        self.next += 1;
        Some((self.next - 1, item))
    }
}

impl<I, T, F, E> Shared<I, T, F, E>
where
    F: FnMut(T) -> Result<(), E>,
{
    /// Adds an item if there is room. Otherwise returns one to work on.
    fn push_or_claim(&self, item: &mut Option<I>) -> Result<Option<(usize, I)>, Stopped> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            // So many that the others find some while this thread works on one.
            if state.items.len() < 2 * self.ahead.workers {
                state.items.extend(item.take());
                self.changed.notify_all();
                return Ok(None);
            }
            if let Some(claimed) = state.claim(self.ahead.window) {
                return Ok(Some(claimed));
            }
            self.changed.wait(&mut state);
        }
    }

    /// The next item to work on; `None` when there will be none.
    fn claim(&self) -> Option<(usize, I)> {
        let mut state = self.state.lock();
        loop {
            if state.stopped || (state.ended && state.items.is_empty()) {
                return None;
            }
            if let Some(claimed) = state.claim(self.ahead.window) {
                return Some(claimed);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Takes results as far as all before are there.
    fn deliver(&self, number: usize, result: T) {
        self.state.lock().results.insert(number, result);
        // Whoever takes results finds those that come meanwhile.
        while let Some(mut taking) = self.take.try_lock() {
            let (take, error) = &mut *taking;
            while let Some(result) = self.next_result() {
                if let Err(failed) = take(result) {
                    *error = Some(failed);
                    return self.stop();
                }
                self.state.lock().taken += 1;
                self.changed.notify_all();
            }
            drop(taking);
            let state = self.state.lock();
            if state.stopped || !state.results.contains_key(&state.taken) {
                return;
            }
        }
    }

    fn next_result(&self) -> Option<T> {
        let mut state = self.state.lock();
        let number = state.taken;
        let result = state.results.remove(&number);
        result.filter(|_| !state.stopped)
    }
}

impl<I, T, F, E> Shared<I, T, F, E> {
    fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
}

struct StopOnPanic<'a, I, T, F, E>(&'a Shared<I, T, F, E>);

impl<I, T, F, E> Drop for StopOnPanic<'_, I, T, F, E> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_all<I>(items: impl IntoIterator<Item = I>) -> impl FnOnce(&mut Push<'_, I>) -> usize {
        |push| {
            let pushed = items.into_iter().map_while(|item| push(item).ok());
            pushed.count()
        }
    }

    #[test]
    fn results_come_in_order_whoever_worked_on_them() {
        for (workers, window) in [(1, 1), (1, 3), (2, 1), (4, 3), (3, 8)] {
            let items: Vec<u64> = (0..200).collect();
            let mut seen = Vec::new();
            let result: Result<usize, ()> = ordered(
                Ahead { workers, window },
                || (),
                |(), item: u64| {
                    thread::sleep(std::time::Duration::from_micros(item * 7919 % 300));
                    item
                },
                |item| {
                    seen.push(item);
                    Ok(())
                },
                push_all(items.iter().copied()),
            );
            assert_eq!(result, Ok(200));
            assert_eq!(seen, items);
        }
    }

    #[test]
    fn no_item_is_farther_ahead_than_the_window() {
        let (begun, most) = (Mutex::new(0), Mutex::new(0));
        let window = 3;
        let result = ordered(
            Ahead { workers: 4, window },
            || (),
            |(), item: usize| {
                *begun.lock() += 1;
                // The first one of each five is slow.
                if item.is_multiple_of(5) {
                    thread::sleep(std::time::Duration::from_millis(2));
                }
                item
            },
            |item| {
                let ahead = *begun.lock() - item;
                let mut most = most.lock();
                *most = ahead.max(*most);
                Ok::<_, ()>(())
            },
            push_all(0..100),
        );
        assert_eq!(result, Ok(100));
        let most = *most.lock();
        assert!((2..=window).contains(&most), "{most}");
    }

    #[test]
    fn an_error_of_the_taker_ends_the_work() {
        let mut brought = 0;
        let result = ordered(
            Ahead {
                workers: 2,
                window: 4,
            },
            || (),
            |(), item| item,
            |item| if item == 5 { Err(item) } else { Ok(()) },
            |push| brought = push_all(0..1000)(push),
        );
        assert_eq!(result, Err(5));
        assert!((5..20).contains(&brought), "{brought}");
    }

    #[test]
    fn a_panic_of_a_worker_is_passed_on_and_nothing_hangs() {
        for workers in [1, 2, 3] {
            let caught = std::panic::catch_unwind(|| {
                ordered(
                    Ahead { workers, window: 2 },
                    || (),
                    |(), item| assert!(item != 2),
                    |()| Ok::<(), ()>(()),
                    push_all(1..100),
                )
            });
            assert!(caught.is_err(), "{workers}");
        }
    }
}
