//! Tables to find things by, made once from an index.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::answers::index::Index;
use crate::snapshot::metas::Runs;

/// How many copied bytes of answers a snapshot keeps for whoever asks the same.
const MAX_KEPT: usize = 1 << 20;

/// Metas with something in common.
#[derive(Clone, Default)]
pub(super) struct List {
    /// Their numbers, sorted.
    pub(super) metas: Vec<u32>,
    /// The same as runs, once they were asked for without anything else.
    pub(super) runs: OnceLock<Arc<Runs>>,
}

/// Finds metas and their bytes.
pub(super) struct MetaLookup {
    /// Where each line starts, and where the last one ends.
    pub(super) lines: Vec<u64>,
    /// The same for segments.
    pub(super) segments: Vec<u64>,
    /// CRC-32 of all lines before each, and of all.
    pub(super) crcs: Vec<u32>,
    texts: HashMap<Box<str>, u32>,
    by_schema: Vec<List>,
    by_package: Vec<List>,
    /// All metas, once they were asked for.
    pub(super) all: OnceLock<Arc<Runs>>,
    /// Bytes that were copied for answers and are kept.
    kept: AtomicUsize,
    by_name: HashMap<Box<str>, Vec<u32>>,
}

impl MetaLookup {
    pub(super) fn new(index: &Index) -> Self {
        let count = index.metas.len();
        let mut lookup = Self {
            lines: Vec::with_capacity(count + 1),
            segments: Vec::with_capacity(count + 1),
            crcs: Vec::with_capacity(count + 1),
            texts: index.texts.iter().cloned().zip(0..).collect(),
            by_schema: vec![List::default(); index.texts.len()],
            by_package: vec![List::default(); index.texts.len()],
            all: OnceLock::new(),
            kept: AtomicUsize::new(0),
            by_name: HashMap::new(),
        };
        let (mut line, mut segment) = (0, 0);
        let mut crc = crc32fast::Hasher::new();
        for (number, meta) in (0_u32..).zip(&index.metas) {
            lookup.lines.push(line);
            lookup.segments.push(segment);
            lookup.crcs.push(crc.clone().finalize());
            line += u64::from(meta.length);
            segment += u64::from(meta.segment);
            crc.combine(&part(meta.crc, u64::from(meta.length)));
            for (table, text) in [
                (&mut lookup.by_schema, meta.schema),
                (&mut lookup.by_package, meta.package),
            ] {
                if let Some(list) = table.get_mut(text as usize) {
                    list.metas.push(number);
                }
            }
            match lookup.by_name.get_mut(&meta.name) {
                Some(list) => list.push(number),
                None => {
                    lookup.by_name.insert(meta.name.clone(), vec![number]);
                }
            }
        }
        lookup.lines.push(line);
        lookup.segments.push(segment);
        lookup.crcs.push(crc.finalize());
        lookup
    }

    /// Whether so many more copied bytes may be kept.
    pub(super) fn keeps(&self, bytes: usize) -> bool {
        let kept = self.kept.fetch_add(bytes, Ordering::Relaxed);
        let fits = kept.saturating_add(bytes) <= MAX_KEPT;
        if !fits {
            self.kept.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    pub(super) fn schema(&self, schema: &str) -> &[u32] {
        self.schema_list(schema).map_or(&[], |list| &list.metas)
    }

    pub(super) fn schema_list(&self, schema: &str) -> Option<&List> {
        self.text(&self.by_schema, schema)
    }

    pub(super) fn package(&self, package: &str) -> &[u32] {
        self.package_list(package).map_or(&[], |list| &list.metas)
    }

    pub(super) fn package_list(&self, package: &str) -> Option<&List> {
        self.text(&self.by_package, package)
    }

    pub(super) fn name(&self, name: &str) -> &[u32] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The number of a schema or a package.
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        self.texts.get(text).copied()
    }

    fn text<'a>(&self, table: &'a [List], text: &str) -> Option<&'a List> {
        table.get(self.number(text)? as usize)
    }
}

/// A CRC-32 that was computed elsewhere over `length` bytes.
pub(super) fn part(crc: u32, length: u64) -> crc32fast::Hasher {
    crc32fast::Hasher::new_with_initial_len(crc, length)
}

/// An entry of a channel of a package, by its numbers in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryAt {
    pub(super) package: u32,
    pub(super) channel: u32,
    pub(super) entry: u32,
}

/// Finds entries by bundle and by what they replace.
pub(super) struct RegistryLookup {
    /// Entries sorted by bundle, and where each bundle's begin.
    entries: Vec<EntryAt>,
    first_of_bundle: Vec<u32>,
    /// Entries by what they replace or skip, in the order of the index.
    replacing: HashMap<Box<str>, Vec<EntryAt>>,
}

impl RegistryLookup {
    pub(super) fn new(index: &Index) -> Self {
        let mut by_bundle = Vec::new();
        let mut replacing: HashMap<Box<str>, Vec<EntryAt>> = HashMap::new();
        for (package, packages) in (0_u32..).zip(&index.packages) {
            for (channel, channels) in (0_u32..).zip(&packages.channels) {
                for (entry, entries) in (0_u32..).zip(&channels.entries) {
                    let at = EntryAt {
                        package,
                        channel,
                        entry,
                    };
                    by_bundle.push((entries.bundle, at));
                    for target in entries.targets() {
                        match replacing.get_mut(target) {
                            Some(list) => list.push(at),
                            None => {
                                replacing.insert(target.into(), vec![at]);
                            }
                        }
                    }
                }
            }
        }
        by_bundle.sort_unstable();
        let mut first_of_bundle = Vec::with_capacity(index.bundles.len() + 1);
        let mut at = 0;
        for bundle in 0..=index.bundles.len() as u32 {
            while by_bundle.get(at).is_some_and(|(b, _)| *b < bundle) {
                at += 1;
            }
            first_of_bundle.push(at as u32);
        }
        Self {
            entries: by_bundle.into_iter().map(|(_, at)| at).collect(),
            first_of_bundle,
            replacing,
        }
    }

    /// The entries that stand for a bundle, in the order of the index.
    pub(super) fn entries_of(&self, bundle: u32) -> &[EntryAt] {
        let first = |bundle| self.first_of_bundle.get(bundle as usize);
        match (first(bundle), first(bundle + 1)) {
            (Some(from), Some(to)) => &self.entries[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// The entries that replace or skip a bundle, in the order of the index.
    pub(super) fn replacing(&self, name: &str) -> &[EntryAt] {
        self.replacing.get(name).map_or(&[], Vec::as_slice)
    }
}
