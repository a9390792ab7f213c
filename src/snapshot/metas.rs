//! Selections of metas, as slices of the mapped files.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::snapshot::encoded::{Encoded, Gathered};
use crate::snapshot::meta_lookup::{Of, Runs, part};
use crate::snapshot::slices::position;
use crate::snapshot::{Comparing, Snapshot, TooManyToCompare};
use crate::store::{Encoding, SEGMENTS_END, Segments};
use ::images::digest::{Digest, Hasher};

/// How a gzip member begins (RFC 1952): deflate, no flags, no time, fastest,
/// unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// A selection of metas. All given fields must match.
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
    runs: Arc<Runs>,
}

impl Snapshot {
    /// The metas that match a query.
    pub fn select(self: Arc<Self>, query: &Query<'_>) -> Selection {
        let lookup = &self.meta_lookup;
        let runs = match (&query.schema, &query.package, &query.name) {
            (None, None, None) => {
                let all = lookup.all.get_or_init(|| {
                    let all = std::iter::once((0, self.meta_count()));
                    Arc::new(Runs::of(all).shared())
                });
                Arc::clone(all)
            }
            // Common queries share their runs.
            (Some(schema), None, None) => lookup.schema(schema).runs(),
            (None, Some(package), None) => lookup.package(package).runs(),
            _ => Arc::new(self.matching(query)),
        };
        Selection {
            snapshot: self,
            runs,
        }
    }

    /// The metas in the lists of all given fields.
    fn matching(&self, query: &Query<'_>) -> Runs {
        let lookup = &self.meta_lookup;
        let mut lists = [
            query.schema.as_deref().map(|it| &*lookup.schema(it).metas),
            query
                .package
                .as_deref()
                .map(|it| &*lookup.package(it).metas),
            query.name.as_deref().map(|it| lookup.name(&self.index, it)),
        ];
        lists.sort_by_key(|list| list.map_or(usize::MAX, <[u32]>::len));
        let [Some(shortest), others @ ..] = lists else {
            return Runs::default();
        };
        let others = others.into_iter().flatten();
        let in_all = |meta: &&u32| others.clone().all(|list| list.binary_search(meta).is_ok());
        Runs::of(shortest.iter().filter(in_all).map(|meta| (*meta, meta + 1)))
    }

    /// How many metas match a query.
    pub fn count(&self, query: &Query<'_>) -> usize {
        let lookup = &self.meta_lookup;
        match (&query.schema, &query.package, &query.name) {
            (None, None, None) => self.index.metas.len(),
            (Some(schema), None, None) => lookup.schema(schema).metas.len(),
            (None, Some(package), None) => lookup.package(package).metas.len(),
            _ => self.matching(query).metas().count(),
        }
    }

    /// The names of the metas that match a query.
    pub fn names(&self, query: &Query<'_>) -> Vec<&str> {
        let metas: Vec<u32> = match (&query.schema, &query.package, &query.name) {
            (None, None, None) => (0..self.meta_count()).collect(),
            _ => self.matching(query).metas().collect(),
        };
        let metas = metas.into_iter();
        let named = metas.filter_map(|meta| self.index.metas.get(meta as usize));
        named.map(|meta| &*meta.name).collect()
    }

    /// The schemas, in catalog order.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.index.fields.iter().map(|schema| &*schema.schema)
    }

    /// How many metas there are. Each has a number in the index, so the count
    /// is one of its numbers too.
    fn meta_count(&self) -> u32 {
        u32::try_from(self.index.metas.len()).unwrap_or(u32::MAX)
    }

    /// The canonical line of a meta, without its line end.
    pub fn line(&self, meta: u32) -> Bytes {
        let lines = &self.meta_lookup.lines;
        match lines.get(meta as usize..meta as usize + 2) {
            Some([start, end]) if start < end => {
                self.metas.slice(position(*start)..position(*end) - 1)
            }
            _ => Bytes::new(),
        }
    }
}

impl Selection {
    /// The metas' numbers.
    pub fn metas(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.metas()
    }

    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// The snapshot that was selected from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// An identifier of the selected lines; it changes only with the content.
    #[inline]
    pub fn tag(&self) -> Digest {
        let content = &self.snapshot.revision.content;
        if let [(from, to)] = self.runs() {
            // Unique among the runs of a content, and needs no hashing.
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
        let length = || self.length_in(lines);
        *self.runs.length.get_or_init(length)
    }

    /// The segments of the snapshot's lines, if they were made.
    ///
    /// # Errors
    /// When too much has to be compared first; so do the other forms.
    pub fn segments(
        &self,
        comparing: Comparing,
    ) -> Result<Option<Arc<Segments>>, TooManyToCompare> {
        self.snapshot.segments(comparing)
    }

    /// Bytes of the lines as one gzip member of these segments.
    pub fn gzip_length(&self, segments: &Segments) -> u64 {
        let number = segments.number();
        let mut known = self.runs.segments_length.lock();
        known.take_if(|known| known.segments != number);
        let length = known.get_or_insert_with(|| Of {
            segments: number,
            value: self.length_in(segments.offsets()),
        });
        let length = length.value;
        length + (GZIP_HEADER.len() + SEGMENTS_END.len() + 8) as u64
    }

    /// Bytes between the given offsets.
    fn length_in(&self, offsets: &[u64]) -> u64 {
        self.ranges(offsets).map(|range| range.len() as u64).sum()
    }

    /// The lines as they are.
    pub fn identity(&self, comparing: Comparing) -> Result<Encoded, TooManyToCompare> {
        let snapshot = &self.snapshot;
        let mut gathered = Gathered::default();
        let mut most = comparing.blocks();
        for range in self.ranges(&snapshot.meta_lookup.lines) {
            let is_whole = snapshot.metas.is_whole_within(&range, &mut most);
            // What is damaged is left out, and so the whole answer is not sent.
            if is_whole.ok_or(TooManyToCompare)? {
                gathered.add(snapshot.metas.unchecked(), range);
            }
        }
        Ok(gathered.finish())
    }

    /// The lines as one gzip member, put together from these segments.
    pub fn gzip(&self, segments: &Segments) -> Encoded {
        let number = segments.number();
        let known = self.runs.gzip.lock().clone();
        if let Some(known) = known.filter(|known| known.segments == number) {
            return known.value.clone();
        }
        let snapshot = &self.snapshot;
        let mut gathered = Gathered::default();
        gathered.copy(&GZIP_HEADER);
        for range in self.ranges(segments.offsets()) {
            gathered.add(segments.file(), range);
        }
        let (crc, length) = self.crc();
        gathered.copy(&SEGMENTS_END);
        gathered.copy(&crc.to_le_bytes());
        // The length modulo 2^32 (RFC 1952).
        gathered.copy(&length.to_le_bytes()[..4]);
        let copied = gathered.copied;
        let made = gathered.finish();
        if self.runs.shared {
            let mut known = self.runs.gzip.lock();
            // One of other segments has as many bytes of its own.
            if known.is_some() || snapshot.meta_lookup.keeps(copied) {
                let value = made.clone();
                let segments = number;
                *known = Some(Arc::new(Of { segments, value }));
            }
        }
        made
    }

    /// All lines in an encoding, if all are selected and there is the encoding.
    pub fn whole(
        &self,
        encoding: Encoding,
        comparing: Comparing,
    ) -> Result<Option<Encoded>, TooManyToCompare> {
        if self.runs() != [(0, self.snapshot.meta_count())] {
            return Ok(None);
        }
        let sent = self.snapshot.sent(encoding, comparing)?;
        Ok(sent.map(|bytes| {
            let mut encoded = Encoded::default();
            encoded.push(bytes);
            encoded
        }))
    }

    fn ranges<'a>(
        &'a self,
        offsets: &'a [u64],
    ) -> impl Iterator<Item = std::ops::Range<usize>> + 'a {
        self.runs().iter().map(|(from, to)| {
            let at = |meta: u32| offsets.get(meta as usize).map_or(0, |at| position(*at));
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
            // crc(ab) = shift(crc(a), |b|) ^ crc(b). So the CRC of a run follows
            // from the CRCs up to its start and up to its end, with one shift
            // for both.
            let mut shifted = part(all ^ lookup.crcs[from], 0);
            shifted.combine(&part(0, run));
            all = shifted.finalize() ^ lookup.crcs[to];
            length += run;
        }
        (all, length)
    }
}
