//! Bounds of a document.

use crate::text::json::MAX_DEPTH;

/// Bounds of the JSON text that a document may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The deepest nesting of lists and mappings, aliases expanded.
    pub depth: usize,
    /// The number of bytes of JSON per byte of YAML, on the whole. Plain
    /// YAML stays below 6; only aliases lead beyond.
    pub expansion: usize,
    /// The bytes that any document may become, however short it is.
    pub small: usize,
    /// The largest document, in bytes, to which that applies. A larger one may
    /// become at most twice as long: it is held three times while it is read.
    pub large: usize,
}

impl Limits {
    /// The bytes that a document of `length` bytes may become.
    pub(super) fn budget(&self, length: usize) -> usize {
        // Offsets into the output are kept in 32 bits.
        let most = self.large.max(length.saturating_mul(2));
        self.expansion
            .saturating_mul(length)
            .min(most)
            .max(self.small)
            .min(u32::MAX as usize)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: MAX_DEPTH,
            expansion: 8,
            small: 1 << 20,
            large: 16 << 20,
        }
    }
}
