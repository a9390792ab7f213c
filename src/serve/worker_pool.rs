//! Work that takes time and memory: on threads for it, in turn, and no more of
//! what comes of it held than there is room for.
//!
//! A client that goes away, or that does not take its answer, gives nothing
//! back before it is really free.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long work waits for its turn.
const WAIT: Duration = Duration::from_secs(5);
/// How much of what was made is held for clients that take it, in KiB.
const ROOM: usize = 256 << 10;
/// A list of slices that is no longer than this needs no room, in bytes.
const SMALL_LIST: usize = 1 << 10;
/// What a client asks may come to so many bytes before it needs a place.
const SMALL: usize = 16 << 10;
/// How many clients may send more than that at once.
const LARGE: usize = 64;

static MADE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(ROOM)));
static ASKED: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LARGE)));

/// Places for work of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

/// Why work is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// There is too much of it.
    Busy,
    /// It ended early. The log says why.
    Failed,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Too many send as much.
    Busy,
    /// It is longer than it may be, or broke off.
    Bad,
}

/// What was made, and its part of the room.
struct Held {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Turns {
    /// So many for each core.
    pub(crate) fn for_each_core(turns: usize) -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new(turns * cores)))
    }

    /// Does work when its turn comes. It keeps its turn until it is done, also
    /// when nobody waits for it any more.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Undone> {
        let turn = Arc::clone(&self.0).acquire_owned();
        let turn = tokio::time::timeout(WAIT, turn).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Undone::Busy);
        };
        let working = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        working.await.map_err(|error| {
            tracing::error!(%error, "a question was not answered");
            Undone::Failed
        })
    }
}

/// Holds what was made until it is sent or thrown away, if there is room.
pub(crate) fn hold(bytes: Bytes) -> Result<Bytes, Undone> {
    let room = room(bytes.len())?;
    Ok(held(bytes, room))
}

/// Holds a list of slices of files until the last of them is sent, if there is
/// room for the list.
pub(crate) fn hold_all(mut slices: Vec<Bytes>) -> Result<Vec<Bytes>, Undone> {
    let length = size_of_val(&*slices);
    if let Some(last) = slices.last_mut()
        && length > SMALL_LIST
    {
        *last = held(std::mem::take(last), room(length)?);
    }
    Ok(slices)
}

/// Room for so many bytes.
fn room(length: usize) -> Result<OwnedSemaphorePermit, Undone> {
    // What is below one KiB lies in no room: there is a bound to how many
    // requests there are.
    let length = u32::try_from(length >> 10).map_err(|_| Undone::Busy)?;
    let room = Arc::clone(&MADE).try_acquire_many_owned(length);
    room.map_err(|_| Undone::Busy)
}

/// Reads a body of at most so many bytes. A long one has a place as long as it
/// is kept.
pub(crate) async fn read(mut body: Body, most: usize) -> Result<Bytes, Unread> {
    let mut bytes = BytesMut::new();
    let mut place = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Bad)?.into_data() else {
            continue;
        };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(Unread::Bad);
        }
        if length > SMALL && place.is_none() {
            let free = Arc::clone(&ASKED).try_acquire_owned();
            place = Some(free.map_err(|_| Unread::Busy)?);
        }
        bytes.extend_from_slice(&data);
    }
    let bytes = bytes.freeze();
    Ok(match place {
        Some(place) => held(bytes, place),
        None => bytes,
    })
}

fn held(bytes: Bytes, room: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(Held { bytes, _room: room })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Those who look at how much room is left take it in turns.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_turn_until_it_is_done() {
        let turns = Turns(Arc::new(Semaphore::new(1)));
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let work = turns.work(move || {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        let mut work = Box::pin(work);
        // It begins, and its client goes away.
        while begins.try_recv().is_err() {
            let waited = tokio::time::timeout(Duration::from_millis(5), &mut work).await;
            assert!(waited.is_err());
        }
        drop(work);
        assert_eq!(turns.0.available_permits(), 0);
        drop(end);
        assert_eq!(turns.work(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn what_is_held_gives_its_room_back_when_it_is_sent() {
        let _alone = ALONE.lock().await;
        let free = MADE.available_permits();
        let held = hold(Bytes::from(vec![1; 64 << 10])).unwrap();
        let part = held.slice(100..200);
        drop(held);
        assert!(MADE.available_permits() <= free - 64);
        assert_eq!(part, vec![1; 100]);
        assert_eq!(hold(Bytes::from(vec![0; ROOM << 10])), Err(Undone::Busy));
        drop(part);
        assert_eq!(MADE.available_permits(), free);
    }

    #[tokio::test]
    async fn a_list_of_slices_has_its_room_until_the_last_is_sent() {
        let _alone = ALONE.lock().await;
        let free = MADE.available_permits();
        let slice = Bytes::from_static(b"a slice of a file");
        let short = hold_all(vec![slice.clone(); 10]).unwrap();
        assert_eq!(MADE.available_permits(), free);
        assert_eq!(short, vec![slice.clone(); 10]);

        let long = vec![slice.clone(); 1 << 10];
        let mut held = hold_all(long.clone()).unwrap();
        assert_eq!(held, long);
        assert_eq!(MADE.available_permits(), free - size_of::<Bytes>());
        let last = held.pop();
        drop(held);
        assert_eq!(MADE.available_permits(), free - size_of::<Bytes>());
        drop(last);
        assert_eq!(MADE.available_permits(), free);
        let most = vec![slice; (ROOM << 10) / size_of::<Bytes>() + (1 << 10)];
        assert_eq!(hold_all(most), Err(Undone::Busy));
    }

    #[tokio::test]
    async fn long_bodies_have_places() {
        let body = |length| Body::from(vec![b'x'; length]);
        assert_eq!(read(body(11), 10).await, Err(Unread::Bad));
        assert_eq!(read(body(10), 10).await.unwrap(), "xxxxxxxxxx");
        let mut long = Vec::new();
        for _ in 0..LARGE {
            long.push(read(body(SMALL + 1), 1 << 20).await.unwrap());
        }
        assert_eq!(read(body(SMALL + 1), 1 << 20).await, Err(Unread::Busy));
        assert!(read(body(SMALL), 1 << 20).await.is_ok());
        long.pop();
        assert!(read(body(SMALL + 1), 1 << 20).await.is_ok());
    }
}
