//! The state of the reader. The other files add what it does.

use crate::text::yaml::object::Entry;
use crate::text::yaml::plain::frame::Frame;

/// Reads one document.
pub(super) struct Reader<'t, 'o> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    /// The position of the next byte to read.
    pub(super) at: usize,
    /// The document's own output. Offsets count from `base` in it.
    pub(super) out: &'o mut Vec<u8>,
    pub(super) base: usize,
    /// The collections that are being read.
    pub(super) frames: Vec<Frame>,
    /// The entries of all mappings that are being read.
    pub(super) entries: Vec<Entry>,
    /// Whether a key was written with an escape.
    pub(super) escaped_keys: bool,
    /// Where objects are put in order.
    pub(super) scratch: Vec<u8>,
    pub(super) depth: usize,
    pub(super) budget: usize,
}
