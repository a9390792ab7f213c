//! Selections of metas, as slices of the mapped files.

use std::sync::Arc;

use bytes::Bytes;

use super::Snapshot;
use super::lookup::part;
use crate::digest::{Digest, Hasher};
use crate::store::{Encoding, SEGMENTS_END};

/// How a gzip member begins (RFC 1952): deflate, no flags, no time, fastest,
/// unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// What to select: all that is given must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The schema.
    pub schema: Option<String>,
    /// The package.
    pub package: Option<String>,
    /// The name.
    pub name: Option<String>,
}

/// Metas of a snapshot in catalog order, as runs of neighbours.
pub struct Selection {
    snapshot: Arc<Snapshot>,
    /// First meta and the one behind the last.
    runs: Vec<(u32, u32)>,
}

/// Bytes that are ready to send.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    /// The slices, in order.
    pub parts: Vec<Bytes>,
    /// Their length together, in bytes.
    pub length: u64,
}

impl Snapshot {
    /// The metas that a query asks for.
    pub fn select(self: &Arc<Self>, query: &Query) -> Selection {
        let lookup = &self.meta_lookup;
        let mut lists: Vec<&[u32]> = Vec::new();
        if let Some(schema) = &query.schema {
            lists.push(lookup.schema(schema));
        }
        if let Some(package) = &query.package {
            lists.push(lookup.package(package));
        }
        if let Some(name) = &query.name {
            lists.push(lookup.name(name));
        }
        lists.sort_by_key(|list| list.len());
        let mut runs: Vec<(u32, u32)> = Vec::new();
        if let Some((shortest, others)) = lists.split_first() {
            for meta in *shortest {
                if !others.iter().all(|list| list.binary_search(meta).is_ok()) {
                    continue;
                }
                match runs.last_mut() {
                    Some((_, end)) if end == meta => *end += 1,
                    _ => runs.push((*meta, meta + 1)),
                }
            }
        } else if !self.index.metas.is_empty() {
            runs.push((0, self.index.metas.len() as u32));
        }
        Selection {
            snapshot: Arc::clone(self),
            runs,
        }
    }

    /// The canonical line of a meta, without its line end.
    pub fn line(&self, meta: u32) -> Bytes {
        let lines = &self.meta_lookup.lines;
        match lines.get(meta as usize..meta as usize + 2) {
            Some([start, end]) if start < end => {
                self.metas.slice(*start as usize..*end as usize - 1)
            }
            _ => Bytes::new(),
        }
    }
}

impl Selection {
    /// The metas' numbers.
    pub fn metas(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(from, to)| *from..*to)
    }

    /// The snapshot that was selected from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What the selection is, in a few bytes: moves with the content only.
    pub fn tag(&self) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(self.snapshot.revision.content.as_bytes());
        for (from, to) in &self.runs {
            hasher.update(&from.to_le_bytes());
            hasher.update(&to.to_le_bytes());
        }
        hasher.finish()
    }

    /// Bytes of the lines as they are.
    pub fn length(&self) -> u64 {
        let lines = &self.snapshot.meta_lookup.lines;
        self.ranges(lines).map(|range| range.len() as u64).sum()
    }

    /// Bytes of the lines as one gzip member of stored segments.
    pub fn gzip_length(&self) -> u64 {
        let segments = &self.snapshot.meta_lookup.segments;
        let length: u64 = self.ranges(segments).map(|range| range.len() as u64).sum();
        length + (GZIP_HEADER.len() + SEGMENTS_END.len() + 8) as u64
    }

    /// The lines as they are.
    pub fn identity(&self) -> Encoded {
        let snapshot = &self.snapshot;
        let mut encoded = Encoded::default();
        for range in self.ranges(&snapshot.meta_lookup.lines) {
            encoded.push(snapshot.metas.slice(range));
        }
        encoded
    }

    /// The lines as one gzip member, put together from stored segments.
    pub fn gzip(&self) -> Encoded {
        let snapshot = &self.snapshot;
        let mut encoded = Encoded::default();
        encoded.push(Bytes::from_static(&GZIP_HEADER));
        for range in self.ranges(&snapshot.meta_lookup.segments) {
            encoded.push(snapshot.segments.slice(range));
        }
        let (crc, length) = self.crc();
        let mut end = SEGMENTS_END.to_vec();
        end.extend(crc.to_le_bytes());
        end.extend((length as u32).to_le_bytes());
        encoded.push(end.into());
        encoded
    }

    /// The lines in an encoding of their own, where they are all that there
    /// are and it was made.
    pub fn whole(&self, encoding: Encoding) -> Option<Encoded> {
        let all = self.snapshot.index.metas.len() as u32;
        if self.runs != [(0, all)] {
            return None;
        }
        let mut encoded = Encoded::default();
        encoded.push(self.snapshot.encoded(encoding)?);
        Some(encoded)
    }

    fn ranges<'a>(
        &'a self,
        offsets: &'a [u64],
    ) -> impl Iterator<Item = std::ops::Range<usize>> + 'a {
        self.runs.iter().map(|(from, to)| {
            let at = |meta: u32| offsets.get(meta as usize).copied().unwrap_or_default() as usize;
            at(*from)..at(*to)
        })
    }

    /// CRC-32 and length of the lines.
    fn crc(&self) -> (u32, u64) {
        let lookup = &self.snapshot.meta_lookup;
        let mut all = crc32fast::Hasher::new();
        let mut length = 0;
        for (from, to) in &self.runs {
            let (from, to) = (*from as usize, *to as usize);
            let run = lookup.lines[to] - lookup.lines[from];
            // crc(ab) = shift(crc(a), |b|) ^ crc(b): the CRC of a run follows
            // from those of what lies before its start and before its end.
            let mut shifted = part(lookup.crcs[from], lookup.lines[from]);
            shifted.combine(&part(0, run));
            all.combine(&part(shifted.finalize() ^ lookup.crcs[to], run));
            length += run;
        }
        (all.finalize(), length)
    }
}

impl Encoded {
    /// The given bytes of it.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<u64>) -> Self {
        let mut cut = Self::default();
        let mut start = 0;
        for part in &self.parts {
            let end = start + part.len() as u64;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                cut.push(part.slice((from - start) as usize..(to - start) as usize));
            }
            start = end;
        }
        cut
    }

    /// Appends a slice.
    pub fn push(&mut self, part: Bytes) {
        self.length += part.len() as u64;
        self.parts.push(part);
    }
}
