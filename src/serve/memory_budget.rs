//! Memory budgets for request bodies and for generated responses.
//!
//! A share of a budget is returned when the last slice of its bytes is dropped:
//! a client that disconnects, or that reads slowly, frees nothing early.
//! Requests beyond a budget get 503 with `Retry-After`.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::worker_pool::Rejected;

/// Memory for generated responses that clients have not read yet, in KiB.
const RESPONSE_BUDGET: usize = 256 << 10;
/// Lists of slices up to this size are not counted, in bytes.
const SMALL_LIST: usize = 1 << 10;
/// Request bodies up to this size are not counted, in bytes.
const SMALL_BODY: usize = 16 << 10;
/// How many larger request bodies are held at once.
const LARGE_BODIES: usize = 64;

static RESPONSES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(RESPONSE_BUDGET)));
static BODIES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LARGE_BODIES)));

/// Why a request body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// Too many large bodies are held.
    Busy,
    /// The body is too long, or the connection broke.
    Invalid,
}

/// Bytes with their share of a budget.
struct Held {
    bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Counts a generated response until its last slice is dropped.
pub(crate) fn hold(bytes: Bytes) -> Result<Bytes, Rejected> {
    let share = share(bytes.len())?;
    Ok(held(bytes, share))
}

/// Counts a list of slices of files until its last slice is dropped. The files
/// themselves are mapped and not counted.
pub(crate) fn hold_all(mut slices: Vec<Bytes>) -> Result<Vec<Bytes>, Rejected> {
    let length = size_of_val(&*slices);
    if let Some(last) = slices.last_mut()
        && length > SMALL_LIST
    {
        *last = held(std::mem::take(last), share(length)?);
    }
    Ok(slices)
}

/// A share for so many bytes.
fn share(length: usize) -> Result<OwnedSemaphorePermit, Rejected> {
    // Less than one KiB costs nothing: the number of requests is bounded.
    let length = u32::try_from(length >> 10).map_err(|_| Rejected::Busy)?;
    let share = Arc::clone(&RESPONSES).try_acquire_many_owned(length);
    share.map_err(|_| Rejected::Busy)
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read_body(mut body: Body, most: usize) -> Result<Bytes, BodyError> {
    let mut bytes = BytesMut::new();
    let mut share = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Invalid)?.into_data() else {
            continue;
        };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(BodyError::Invalid);
        }
        if length > SMALL_BODY && share.is_none() {
            let free = Arc::clone(&BODIES).try_acquire_owned();
            share = Some(free.map_err(|_| BodyError::Busy)?);
        }
        bytes.extend_from_slice(&data);
    }
    let bytes = bytes.freeze();
    Ok(match share {
        Some(share) => held(bytes, share),
        None => bytes,
    })
}

fn held(bytes: Bytes, share: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(Held {
        bytes,
        _share: share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that read the free budget run one after the other.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[tokio::test]
    async fn a_response_is_counted_until_its_last_slice_is_dropped() {
        let _alone = ALONE.lock().await;
        let free = RESPONSES.available_permits();
        let held = hold(Bytes::from(vec![1; 64 << 10])).unwrap();
        let part = held.slice(100..200);
        drop(held);
        assert!(RESPONSES.available_permits() <= free - 64);
        assert_eq!(part, vec![1; 100]);
        let large = Bytes::from(vec![0; RESPONSE_BUDGET << 10]);
        assert_eq!(hold(large), Err(Rejected::Busy));
        drop(part);
        assert_eq!(RESPONSES.available_permits(), free);
    }

    #[tokio::test]
    async fn a_list_of_slices_is_counted_until_its_last_slice_is_dropped() {
        let _alone = ALONE.lock().await;
        let free = RESPONSES.available_permits();
        let slice = Bytes::from_static(b"a slice of a file");
        let short = hold_all(vec![slice.clone(); 10]).unwrap();
        assert_eq!(RESPONSES.available_permits(), free);
        assert_eq!(short, vec![slice.clone(); 10]);

        let long = vec![slice.clone(); 1 << 10];
        let mut held = hold_all(long.clone()).unwrap();
        assert_eq!(held, long);
        assert_eq!(RESPONSES.available_permits(), free - size_of::<Bytes>());
        let last = held.pop();
        drop(held);
        assert_eq!(RESPONSES.available_permits(), free - size_of::<Bytes>());
        drop(last);
        assert_eq!(RESPONSES.available_permits(), free);
        let most = vec![slice; (RESPONSE_BUDGET << 10) / size_of::<Bytes>() + (1 << 10)];
        assert_eq!(hold_all(most), Err(Rejected::Busy));
    }

    #[tokio::test]
    async fn the_number_of_large_bodies_is_bounded() {
        let body = |length| Body::from(vec![b'x'; length]);
        assert_eq!(read_body(body(11), 10).await, Err(BodyError::Invalid));
        assert_eq!(read_body(body(10), 10).await.unwrap(), "xxxxxxxxxx");
        let large = || read_body(body(SMALL_BODY + 1), 1 << 20);
        let mut held = Vec::new();
        for _ in 0..LARGE_BODIES {
            held.push(large().await.unwrap());
        }
        assert_eq!(large().await, Err(BodyError::Busy));
        assert!(read_body(body(SMALL_BODY), 1 << 20).await.is_ok());
        held.pop();
        assert!(large().await.is_ok());
    }
}
