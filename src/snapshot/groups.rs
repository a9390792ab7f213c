//! The lines of a snapshot in groups that are compressed together, and the compressed
//! groups of the snapshot before: what did not change is copied.

use bytes::Bytes;

use crate::answers::index::MetaIndex;
use crate::snapshot::Snapshot;
use crate::snapshot::slices::position;
use crate::store::{Encoding, Groups, Plain};

/// The least bytes of a group in a catalog that is one file.
const LEAST: usize = 64 << 10;
/// The bytes from which on a group may also end within a package.
const LARGE: usize = 1 << 20;
/// One in so many metas ends a large group, whatever is before and behind it: so the
/// groups behind a change stay the same.
const ENDS: u32 = 16;

impl Snapshot {
    /// All lines, as they lie on the disk, in groups. A group holds lines of one package and ends with the file
    /// that its last line is in; see [`files`](Self::files). Where that would make small
    /// groups of a catalog in one file, it holds several packages.
    pub fn groups(&self) -> Vec<Bytes> {
        let in_files = self.files().len() > 1;
        let mut groups = Vec::new();
        let mut from = 0;
        let mut last: Option<&MetaIndex> = None;
        for (meta, at) in self.index.metas.iter().zip(&self.meta_lookup.lines) {
            let at = position(*at);
            let size = at - from;
            let is_end = last.is_some_and(|last| {
                let is_other = last.package != meta.package;
                is_other && (in_files || size >= LEAST)
                    || size >= LARGE && last.crc.is_multiple_of(ENDS)
            });
            if is_end {
                groups.push(self.metas.unchecked().slice(from..at));
                from = at;
            }
            last = Some(meta);
        }
        if from < self.metas.len() {
            groups.push(self.metas.unchecked().slice(from..));
        }
        groups
    }

    /// All lines, for an encoding.
    pub fn plain(&self, encoding: Encoding) -> Plain {
        let decoded = self.decoded();
        if encoding != Encoding::Segments {
            return Plain {
                groups: self.groups(),
                known: self.known_groups(),
                ..Plain::new(decoded)
            };
        }
        let lines = self.meta_lookup.lines.windows(2);
        let line = |pair: &[u64]| {
            self.metas
                .unchecked()
                .slice(position(pair[0])..position(pair[1]))
        };
        Plain {
            lines: lines.map(line).collect(),
            known_segments: self.known_segments(),
            ..Plain::new(decoded)
        }
    }

    /// Compressed groups of this snapshot, or else of one before.
    pub fn known_groups(&self) -> Option<Groups> {
        self.compressed.lock().clone()
    }

    /// Replaces the compressed groups, once those of this snapshot were made.
    pub fn set_groups(&self, groups: Option<Groups>) {
        *self.compressed.lock() = groups;
    }
}
