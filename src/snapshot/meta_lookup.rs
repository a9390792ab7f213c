//! Lookup tables for metas, made once from an index, and runs of neighbours.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::answers::index::Index;
use crate::snapshot::encoded::Encoded;
use ::images::digest::Digest;

/// The most copied bytes that a snapshot keeps for later requests.
const MAX_KEPT: usize = 1 << 20;

/// Metas with something in common.
#[derive(Clone, Default)]
pub(super) struct List {
    /// Their numbers, sorted.
    pub(super) metas: Vec<u32>,
    /// The same as runs, computed when they are first requested alone.
    runs: OnceLock<Arc<Runs>>,
}

/// Runs, and values that are computed on first use.
#[derive(Default)]
pub(super) struct Runs {
    /// The first meta of each run, and the one behind its last.
    pub(super) each: Vec<(u32, u32)>,
    /// Whether later requests may share the tag and the encoded form.
    pub(super) shared: bool,
    pub(super) tag: OnceLock<Digest>,
    /// Bytes of the lines, and of their segments. The places of some hundred runs are
    /// far from each other, so to look them up takes as long as to send them.
    pub(super) length: OnceLock<u64>,
    pub(super) segments_length: Mutex<Option<Of<u64>>>,
    /// Shared, since copying its hundreds of parts under the lock keeps others waiting.
    pub(super) gzip: Mutex<Option<Arc<Of<Encoded>>>>,
}

/// A value that belongs to the segments of this number: others lie in another file.
pub(super) struct Of<T> {
    pub(super) segments: u64,
    pub(super) value: T,
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

    /// The numbers of the metas.
    pub(super) fn metas(&self) -> impl Iterator<Item = u32> + '_ {
        self.each.iter().flat_map(|(from, to)| *from..*to)
    }

    pub(super) fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }
}

impl List {
    /// Its runs, computed once.
    pub(super) fn runs(&self) -> Arc<Runs> {
        let runs = || Runs::of(self.metas.iter().map(|meta| (*meta, meta + 1)));
        Arc::clone(self.runs.get_or_init(|| Arc::new(runs().shared())))
    }
}

/// Finds metas and their bytes.
pub(super) struct MetaLookup {
    /// The offset of each line, and of the end.
    pub(super) lines: Vec<u64>,
    /// CRC-32 of all lines before each, and of all.
    pub(super) crcs: Vec<u32>,
    // Looking names up is a large part of a small request, and clients add none: so the
    // hash is a fast one, with a seed of its own in each process.
    texts: HashMap<Box<str>, u32>,
    by_schema: Vec<List>,
    by_package: Vec<List>,
    /// All metas, computed when they are first requested.
    pub(super) all: OnceLock<Arc<Runs>>,
    /// Copied bytes that are kept.
    kept: AtomicUsize,
    hasher: RandomState,
    /// The hashes of all names, sorted.
    name_hashes: Vec<u32>,
    /// Their metas: sorted by hash, then by name and number.
    by_name: Vec<u32>,
}

impl MetaLookup {
    pub(super) fn new(index: &Index) -> Self {
        let count = index.metas.len();
        let mut lookup = Self {
            lines: Vec::with_capacity(count + 1),
            crcs: Vec::with_capacity(count + 1),
            texts: index.texts.iter().cloned().zip(0..).collect(),
            by_schema: vec![List::default(); index.texts.len()],
            by_package: vec![List::default(); index.texts.len()],
            all: OnceLock::new(),
            kept: AtomicUsize::new(0),
            hasher: RandomState::default(),
            name_hashes: Vec::with_capacity(count),
            by_name: Vec::with_capacity(count),
        };
        let mut line = 0;
        let mut crc = crc32fast::Hasher::new();
        for (number, meta) in (0_u32..).zip(&index.metas) {
            lookup.lines.push(line);
            lookup.crcs.push(crc.clone().finalize());
            line += u64::from(meta.length);
            crc.combine(&part(meta.crc, u64::from(meta.length)));
            for (table, text) in [
                (&mut lookup.by_schema, meta.schema),
                (&mut lookup.by_package, meta.package),
            ] {
                if let Some(list) = table.get_mut(text as usize) {
                    list.metas.push(number);
                }
            }
        }
        let names = (0_u32..).zip(&index.metas);
        let mut names: Vec<(u32, &str, u32)> = names
            .map(|(number, meta)| (lookup.hash(&meta.name), &*meta.name, number))
            .collect();
        names.sort_unstable();
        for (hash, _, number) in names {
            lookup.name_hashes.push(hash);
            lookup.by_name.push(number);
        }
        lookup.lines.push(line);
        lookup.crcs.push(crc.finalize());
        lookup
    }

    /// Reserves copied bytes to keep; `false` beyond the limit.
    pub(super) fn keeps(&self, bytes: usize) -> bool {
        let kept = self.kept.fetch_add(bytes, Ordering::Relaxed);
        let fits = kept.saturating_add(bytes) <= MAX_KEPT;
        if !fits {
            self.kept.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    pub(super) fn schema(&self, schema: &str) -> &List {
        self.text(&self.by_schema, schema)
    }

    pub(super) fn package(&self, package: &str) -> &List {
        self.text(&self.by_package, package)
    }

    /// The metas of a name, by number.
    pub(super) fn name(&self, index: &Index, name: &str) -> &[u32] {
        let hash = self.hash(name);
        let from = self.name_hashes.partition_point(|one| *one < hash);
        let same = self.name_hashes[from..].partition_point(|one| *one == hash);
        // Rarely more than one name.
        let metas = &self.by_name[from..from + same];
        let name = Some(name.as_bytes());
        let name_of = |meta: &u32| {
            let meta = index.metas.get(*meta as usize);
            meta.map(|meta| meta.name.as_bytes())
        };
        let from = metas.partition_point(|meta| name_of(meta) < name);
        let to = metas.partition_point(|meta| name_of(meta) <= name);
        &metas[from..to]
    }

    fn hash(&self, name: &str) -> u32 {
        (self.hasher.hash_one(name) >> 32) as u32
    }

    /// The number of a schema or a package.
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        self.texts.get(text).copied()
    }

    fn text<'a>(&self, table: &'a [List], text: &str) -> &'a List {
        static NOTHING: List = List {
            metas: Vec::new(),
            runs: OnceLock::new(),
        };
        let number = self.number(text).map(|number| number as usize);
        number
            .and_then(|number| table.get(number))
            .unwrap_or(&NOTHING)
    }
}

/// A CRC-32 that was computed elsewhere over `length` bytes.
pub(super) fn part(crc: u32, length: u64) -> crc32fast::Hasher {
    crc32fast::Hasher::new_with_initial_len(crc, length)
}
