//! How many bytes of blobs were written, for a command that shows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of blobs. The default counts nothing. Clones share the counts.
#[derive(Clone, Default)]
pub struct Tally(Option<Arc<Counts>>);

struct Counts {
    expected: AtomicU64,
    written: AtomicU64,
    tell: Box<dyn Fn(u64, u64) + Send + Sync>,
}

impl Tally {
    /// `tell` gets the bytes that were written so far, and those that are expected in
    /// all. The last may be fewer than expected: some layers may not be needed.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Counts {
            expected: AtomicU64::new(0),
            written: AtomicU64::new(0),
            tell: Box::new(tell),
        })))
    }

    /// Expects more bytes.
    pub fn expect(&self, bytes: u64) {
        if let Some(counts) = &self.0 {
            counts.expected.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts written bytes.
    pub(super) fn add(&self, bytes: usize) {
        if let Some(counts) = &self.0 {
            let bytes = bytes as u64;
            let before = counts.written.fetch_add(bytes, Ordering::Relaxed);
            (counts.tell)(before + bytes, counts.expected.load(Ordering::Relaxed));
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_write_is_told_with_all_before_it() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let tally = Tally::new(move |done, of| telling.lock().unwrap().push((done, of)));
        tally.expect(10);
        tally.add(4);
        tally.expect(5);
        tally.clone().add(6);
        assert_eq!(*told.lock().unwrap(), [(4, 10), (10, 15)]);
        Tally::default().add(1);
    }
}
