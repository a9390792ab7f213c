//! Selections of metas, as slices of the mapped files.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use crate::snapshot::Snapshot;
use crate::snapshot::lookup::{List, part};
use crate::store::{Encoding, SEGMENTS_END};
use ::images::digest::{Digest, Hasher};

/// How a gzip member begins (RFC 1952): deflate, no flags, no time, fastest,
/// unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Runs below this many bytes are copied together.
const SMALL: usize = 8 << 10;
/// How much is copied for one answer, in bytes: it stays in memory until a slow
/// client has taken it.
const MAX_COPIED: usize = 256 << 10;

/// What to select: all that is given must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The schema.
    pub schema: Option<Cow<'a, str>>,
    /// The package.
    pub package: Option<Cow<'a, str>>,
    /// The name.
    pub name: Option<Cow<'a, str>>,
}

/// Metas of a snapshot in catalog order.
pub struct Selection {
    snapshot: Arc<Snapshot>,
    runs: Found,
}

/// The runs of a selection.
enum Found {
    /// What many ask for.
    Kept(Arc<Runs>),
    /// What was found for this one.
    Own(Runs),
}

impl Deref for Found {
    type Target = Runs;

    fn deref(&self) -> &Runs {
        match self {
            Self::Kept(runs) => runs,
            Self::Own(runs) => runs,
        }
    }
}

/// Metas in catalog order, as runs of neighbours, and what is only found out
/// when it is asked for.
#[derive(Default)]
pub(super) struct Runs {
    /// First meta and the one behind the last of each.
    each: Vec<(u32, u32)>,
    /// Whether many may ask for them, and share what is found out.
    shared: bool,
    tag: OnceLock<Digest>,
    gzip: OnceLock<Encoded>,
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
    pub fn select(self: Arc<Self>, query: &Query<'_>) -> Selection {
        let runs = match query {
            Query {
                schema: None,
                package: None,
                name: None,
            } => {
                let all = self.meta_lookup.all.get_or_init(|| {
                    let count = self.index.metas.len() as u32;
                    Arc::new(Runs::of(std::iter::once((0, count))).shared())
                });
                Found::Kept(Arc::clone(all))
            }
            // What many ask for alike is made once.
            Query {
                schema: Some(text),
                package: None,
                name: None,
            } => kept(self.meta_lookup.schema_list(text)),
            Query {
                schema: None,
                package: Some(text),
                name: None,
            } => kept(self.meta_lookup.package_list(text)),
            query => Found::Own(self.matching(query)),
        };
        Selection {
            snapshot: self,
            runs,
        }
    }

    /// The metas that are in the lists of all that is given.
    fn matching(&self, query: &Query<'_>) -> Runs {
        let lookup = &self.meta_lookup;
        let mut lists = [
            query.schema.as_deref().map(|schema| lookup.schema(schema)),
            query.package.as_deref().map(|name| lookup.package(name)),
            query.name.as_deref().map(|name| lookup.name(name)),
        ];
        lists.sort_by_key(|list| list.map_or(usize::MAX, <[u32]>::len));
        let [Some(shortest), others @ ..] = lists else {
            return Runs::default();
        };
        let others = others.into_iter().flatten();
        let in_all = |meta: &&u32| others.clone().all(|list| list.binary_search(meta).is_ok());
        Runs::of(shortest.iter().filter(in_all).map(|meta| (*meta, meta + 1)))
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

/// The runs of a list, which keeps them.
fn kept(list: Option<&List>) -> Found {
    let Some(list) = list else {
        return Found::Own(Runs::default());
    };
    let runs = || Runs::of(list.metas.iter().map(|meta| (*meta, meta + 1)));
    Found::Kept(Arc::clone(
        list.runs.get_or_init(|| Arc::new(runs().shared())),
    ))
}

impl Runs {
    /// Joins what touches.
    fn of(parts: impl Iterator<Item = (u32, u32)>) -> Self {
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

    fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }
}

impl Selection {
    /// The metas' numbers.
    pub fn metas(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs().iter().flat_map(|(from, to)| *from..*to)
    }

    /// The snapshot that was selected from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What the selection is, in a few bytes: moves with the content only.
    pub fn tag(&self) -> Digest {
        let content = &self.snapshot.revision.content;
        if let [(from, to)] = self.runs() {
            // No two runs of a content have the same, and it takes no hashing.
            let mut tag = *content.as_bytes();
            let run = from.to_le_bytes().into_iter().chain(to.to_le_bytes());
            tag.iter_mut().zip(run).for_each(|(byte, of)| *byte ^= of);
            return Digest::from_bytes(tag);
        }
        *self.runs.tag.get_or_init(|| {
            let mut hasher = Hasher::default();
            hasher.update(content.as_bytes());
            for (from, to) in self.runs() {
                hasher.update(&from.to_le_bytes());
                hasher.update(&to.to_le_bytes());
            }
            hasher.finish()
        })
    }

    fn runs(&self) -> &[(u32, u32)] {
        &self.runs.each
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
        let mut gathered = Gathered::default();
        for range in self.ranges(&snapshot.meta_lookup.lines) {
            gathered.add(&snapshot.metas, range);
        }
        gathered.finish()
    }

    /// The lines as one gzip member, put together from stored segments.
    pub fn gzip(&self) -> Encoded {
        if let Some(made) = self.runs.gzip.get() {
            return made.clone();
        }
        let snapshot = &self.snapshot;
        let mut gathered = Gathered::default();
        gathered.copy(&GZIP_HEADER);
        for range in self.ranges(&snapshot.meta_lookup.segments) {
            gathered.add(&snapshot.segments, range);
        }
        let (crc, length) = self.crc();
        gathered.copy(&SEGMENTS_END);
        gathered.copy(&crc.to_le_bytes());
        gathered.copy(&(length as u32).to_le_bytes());
        let copied = gathered.copied;
        let made = gathered.finish();
        if self.runs.shared && snapshot.meta_lookup.keeps(copied) {
            return self.runs.gzip.get_or_init(|| made).clone();
        }
        made
    }

    /// The lines in an encoding of their own, where they are all that there
    /// are and it was made.
    pub fn whole(&self, encoding: Encoding) -> Option<Encoded> {
        let all = self.snapshot.index.metas.len() as u32;
        if self.runs() != [(0, all)] {
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
        self.runs().iter().map(|(from, to)| {
            let at = |meta: u32| offsets.get(meta as usize).copied().unwrap_or_default() as usize;
            at(*from)..at(*to)
        })
    }

    /// CRC-32 and length of the lines.
    fn crc(&self) -> (u32, u64) {
        let lookup = &self.snapshot.meta_lookup;
        let (mut all, mut length) = (0, 0);
        for (from, to) in self.runs() {
            let (from, to) = (*from as usize, *to as usize);
            let run = lookup.lines[to] - lookup.lines[from];
            // crc(ab) = shift(crc(a), |b|) ^ crc(b): so the CRC of a run
            // follows from those of what lies before its start and before its
            // end, and both shifts are one.
            let mut shifted = part(all ^ lookup.crcs[from], 0);
            shifted.combine(&part(0, run));
            all = shifted.finalize() ^ lookup.crcs[to];
            length += run;
        }
        (all, length)
    }
}

/// Slices of files, the small ones copied together: each would be a count to
/// keep and a write of its own.
#[derive(Default)]
struct Gathered {
    encoded: Encoded,
    /// What was copied since the last slice.
    open: BytesMut,
    /// Bytes that were copied so far.
    copied: usize,
}

impl Gathered {
    fn add(&mut self, file: &Bytes, range: std::ops::Range<usize>) {
        if range.len() < SMALL && self.copied + range.len() <= MAX_COPIED {
            self.copied += range.len();
            self.copy(file.get(range).unwrap_or_default());
            return;
        }
        self.close();
        self.encoded.push(file.slice(range));
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.encoded.push(self.open.split().freeze());
        }
    }

    fn finish(mut self) -> Encoded {
        self.close();
        self.encoded
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
