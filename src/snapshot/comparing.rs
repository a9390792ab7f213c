//! How much of stored files is compared with its sums for one answer.

use crate::store::{QUICK_BLOCKS, QUICK_BYTES};

/// The bytes that may be compared with their sums for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparing {
    /// As few as take no time: the thread serves others.
    Few,
    /// All. This blocks.
    All,
}

/// More bytes have to be compared than a thread that serves has time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyToCompare;

impl Comparing {
    /// The blocks that may be compared.
    pub(super) fn blocks(self) -> usize {
        match self {
            Self::Few => QUICK_BLOCKS,
            Self::All => usize::MAX,
        }
    }

    /// Whether a file of this length may be compared as a whole.
    pub(super) fn allows(self, length: usize) -> bool {
        self == Self::All || length <= QUICK_BYTES
    }
}
