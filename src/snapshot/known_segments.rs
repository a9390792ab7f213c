//! The segments of a snapshot by their lines: the next revision copies those of the
//! lines that it has too, instead of compressing them again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::snapshot::Snapshot;
use crate::snapshot::slices::position;

/// The segments of a snapshot by their lines.
pub struct KnownSegments {
    snapshot: Arc<Snapshot>,
    /// The metas by CRC-32 and length of their lines. Of several, the last: a
    /// catalog that makes them collide gains nothing, since lines are compared.
    metas: HashMap<(u32, u32), u32>,
}

impl KnownSegments {
    /// The segments of a snapshot. `None` when its file is not the one that was
    /// written: damage must not be copied.
    pub fn of(snapshot: Arc<Snapshot>) -> Option<Self> {
        if snapshot.is_damaged() || !snapshot.revision.has_segments(&snapshot.segments) {
            return None;
        }
        let metas = (0..).zip(&snapshot.index.metas);
        let metas = metas.map(|(number, meta)| ((meta.crc, meta.length), number));
        Some(Self {
            metas: metas.collect(),
            snapshot,
        })
    }

    /// The segment of exactly this line, which has this CRC-32.
    pub fn find(&self, line: &[u8], crc: u32) -> Option<&[u8]> {
        let length = u32::try_from(line.len()).ok()?;
        let meta = *self.metas.get(&(crc, length))? as usize;
        let lookup = &self.snapshot.meta_lookup;
        let part = |offsets: &[u64]| match offsets.get(meta..meta + 2) {
            Some([from, to]) => Some(position(*from)..position(*to)),
            _ => None,
        };
        let known = self.snapshot.metas.get(part(&lookup.lines)?)?;
        if known != line {
            return None;
        }
        self.snapshot.segments.get(part(&lookup.segments)?)
    }
}
