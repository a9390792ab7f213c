//! Mapped files whose blocks are compared with their sums before their first use.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::store::files::summing::BLOCK;
use crate::store::revision::FileSum;

/// Blocks that are compared in no time.
pub const QUICK_BLOCKS: usize = 4;
/// Their bytes.
pub const QUICK_BYTES: usize = QUICK_BLOCKS * BLOCK;

/// Damage that was found in this process when bytes were to be used.
static REPORTS: Reports = Reports::new();

struct Reports {
    count: AtomicU64,
    /// Notified each time.
    found: Notify,
}

impl Reports {
    const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            found: Notify::const_new(),
        }
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.found.notify_waiters();
    }
}

/// How often a damaged block was to be used so far. An answer during which this grows may
/// lack bytes.
pub fn damaged_uses() -> u64 {
    REPORTS.count.load(Ordering::Acquire)
}

/// Waits until a damaged block is to be used.
pub async fn until_damaged_use() {
    REPORTS.found.notified().await;
}

/// Wakes those who repair, for damage that no answer misses.
pub(crate) fn wake() {
    REPORTS.found.notify_waiters();
}

/// A mapped file of a revision. Nobody gets a byte of a block that is not what was
/// written. Cheap to clone; all clones share what was compared.
#[derive(Clone)]
pub struct CheckedFile(Arc<Checked>);

struct Checked {
    bytes: Bytes,
    sums: Vec<u32>,
    /// A bit for each block that was compared.
    compared: Box<[AtomicU64]>,
    /// The blocks that were not.
    left: AtomicUsize,
    damaged: AtomicBool,
    reports: &'static Reports,
}

impl CheckedFile {
    /// A file with its sums. Without any, as of an older version, nothing is compared.
    pub fn new(bytes: Bytes, sum: Option<&FileSum>) -> Self {
        Self::reporting(bytes, sum, &REPORTS)
    }

    fn reporting(bytes: Bytes, sum: Option<&FileSum>, reports: &'static Reports) -> Self {
        let sums = sum.map_or_else(Vec::new, |sum| sum.blocks.clone());
        let words = sums.len().div_ceil(64);
        Self(Arc::new(Checked {
            bytes,
            compared: (0..words).map(|_| AtomicU64::new(0)).collect(),
            left: AtomicUsize::new(sums.len()),
            sums,
            damaged: AtomicBool::new(false),
            reports,
        }))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes.is_empty()
    }

    /// Its bytes, as they lie on the disk: whoever takes them compares them.
    pub fn unchecked(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Whether all blocks were compared.
    pub fn is_compared(&self) -> bool {
        self.0.left.load(Ordering::Acquire) == 0
    }

    /// Whether the blocks that were not compared take no time, all together.
    pub fn is_quick(&self) -> bool {
        self.0.left.load(Ordering::Acquire) <= QUICK_BLOCKS
    }

    /// Whether a block was found damaged.
    pub fn is_damaged(&self) -> bool {
        self.0.damaged.load(Ordering::Relaxed)
    }

    /// The bytes of a range; `None` when they are not what was written, or not in the file.
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let bytes = self.0.bytes.get(range.clone())?;
        self.is_whole_in(&range).then_some(bytes)
    }

    /// The same without a copy. Nothing in place of bytes that are not what was written.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        match self.get(range) {
            Some(bytes) => self.0.bytes.slice_ref(bytes),
            None => Bytes::new(),
        }
    }

    /// Whether the bytes of a range are what was written. Only the first look at a block
    /// takes time.
    pub fn is_whole_in(&self, range: &Range<usize>) -> bool {
        let mut most = usize::MAX;
        self.is_whole_within(range, &mut most) == Some(true)
    }

    /// The same, unless that takes a comparison of more blocks than `most`, which counts
    /// down.
    pub fn is_whole_within(&self, range: &Range<usize>, most: &mut usize) -> Option<bool> {
        if self.is_compared() || range.is_empty() {
            return Some(true);
        }
        for block in range.start / BLOCK..=(range.end - 1) / BLOCK {
            if !self.was_compared(block) {
                *most = most.checked_sub(1)?;
                if !self.is_whole_at(block) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    fn was_compared(&self, block: usize) -> bool {
        let compared = self.0.compared.get(block / 64);
        let bit = 1 << (block % 64);
        compared.is_some_and(|compared| compared.load(Ordering::Acquire) & bit != 0)
    }

    fn is_whole_at(&self, block: usize) -> bool {
        let file = &*self.0;
        let (Some(sum), Some(compared)) = (file.sums.get(block), file.compared.get(block / 64))
        else {
            return false;
        };
        let bit = 1 << (block % 64);
        let end = file.bytes.len().min((block + 1) * BLOCK);
        let bytes = file.bytes.get(block * BLOCK..end);
        if bytes.map(crc32fast::hash) != Some(*sum) {
            file.damaged.store(true, Ordering::Relaxed);
            file.reports.add();
            return false;
        }
        if compared.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            file.left.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files::summing::Summing;

    /// Not those that other tests look at.
    static OWN: Reports = Reports::new();

    fn file(bytes: Vec<u8>, sum: &FileSum) -> CheckedFile {
        CheckedFile::reporting(bytes.into(), Some(sum), &OWN)
    }

    fn content() -> Vec<u8> {
        let byte = |at: usize| u8::try_from(at % 253).unwrap();
        (0..3 * BLOCK + 5).map(byte).collect()
    }

    #[test]
    fn nobody_gets_a_byte_of_a_damaged_block() {
        let (mut bytes, sum) = (content(), Summing::of(&content()));
        bytes[BLOCK + 7] ^= 1;
        let before = OWN.count.load(Ordering::Relaxed);
        let file = file(bytes.clone(), &sum);
        assert_eq!(file.slice(5..BLOCK), bytes[5..BLOCK]);
        assert!(!file.is_damaged());
        // Also of its bytes that are whole, and of ranges that only touch it.
        for range in [BLOCK..BLOCK + 1, BLOCK - 1..BLOCK + 1, 0..bytes.len()] {
            assert_eq!(file.get(range.clone()), None, "{range:?}");
            assert!(file.slice(range).is_empty());
        }
        assert!(file.is_damaged() && !file.is_compared());
        assert!(OWN.count.load(Ordering::Relaxed) >= before + 6);
        assert_eq!(file.slice(2 * BLOCK..bytes.len()), bytes[2 * BLOCK..]);
    }

    #[test]
    fn a_block_is_compared_once() {
        let (bytes, sum) = (content(), Summing::of(&content()));
        let file = file(bytes.clone(), &sum);
        let left = || file.0.left.load(Ordering::Relaxed);
        assert_eq!(left(), 4);
        for _ in 0..2 {
            assert!(file.is_whole_in(&(BLOCK - 1..BLOCK + 1)));
            assert_eq!(left(), 2);
        }
        assert_eq!(file.clone().slice(0..bytes.len()), bytes);
        assert!(file.is_compared());
        assert_eq!(file.get(bytes.len()..bytes.len() + 1), None);
    }

    #[test]
    fn no_more_blocks_are_compared_than_there_is_time_for() {
        let (bytes, sum) = (content(), Summing::of(&content()));
        let file = file(bytes.clone(), &sum);
        assert!(file.is_quick());
        let mut most = 2;
        assert_eq!(file.is_whole_within(&(0..BLOCK + 1), &mut most), Some(true));
        assert_eq!(most, 0);
        // What was compared before costs nothing.
        assert_eq!(file.is_whole_within(&(5..BLOCK), &mut most), Some(true));
        assert_eq!(file.is_whole_within(&(0..bytes.len()), &mut most), None);
        assert!(!file.is_compared());
        let long = FileSum {
            blocks: vec![0; QUICK_BLOCKS + 1],
            ..FileSum::default()
        };
        assert!(!CheckedFile::new(Bytes::new(), Some(&long)).is_quick());
    }

    #[test]
    fn a_file_without_sums_is_used_as_it_is() {
        let plain = CheckedFile::new(Bytes::from_static(b"abc"), None);
        assert_eq!(plain.slice(1..3), "bc");
        assert!(plain.is_compared());
        // Shorter or longer than its sums, a file is none of those that were written.
        let cut = file(b"abc".to_vec(), &Summing::of(b"abcd"));
        assert_eq!(cut.get(0..1), None);
    }
}
