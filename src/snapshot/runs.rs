//! Metas in catalog order, as runs of neighbours.

use std::sync::OnceLock;

use crate::snapshot::encoded::Encoded;
use ::images::digest::Digest;

/// Runs, and values that are computed on first use.
#[derive(Default)]
pub(super) struct Runs {
    /// The first meta of each run, and the one behind its last.
    pub(super) each: Vec<(u32, u32)>,
    /// Whether later requests may share the tag and the encoded form.
    pub(super) shared: bool,
    pub(super) tag: OnceLock<Digest>,
    pub(super) gzip: OnceLock<Encoded>,
}

impl Runs {
    /// Joins what touches.
    pub(super) fn of(parts: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut each: Vec<(u32, u32)> = Vec::new();
        for (from, to) in parts.filter(|(from, to)| from < to) {
            match each.last_mut() {
                Some((_, end)) if *end == from => *end = to,
                _ => each.push((from, to)),
            }
        }
        Self {
            each,
            ..Self::default()
        }
    }

    pub(super) fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }
}
