//! Lookup tables for channel entries, made once from an index.

use std::collections::HashMap;

use crate::answers::index::Index;

/// An entry of a channel of a package, by its numbers in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryAt {
    pub(super) package: u32,
    pub(super) channel: u32,
    pub(super) entry: u32,
}

/// Finds entries by bundle and by what they replace.
pub(super) struct EntryLookup {
    /// Entries sorted by bundle, and the first entry of each bundle.
    entries: Vec<EntryAt>,
    first_of_bundle: Vec<usize>,
    /// Entries by what they replace or skip, in the order of the index.
    replacing: HashMap<Box<str>, Vec<EntryAt>>,
}

impl EntryLookup {
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
        for (bundle, _) in (0_u32..).zip(0..=index.bundles.len()) {
            while by_bundle.get(at).is_some_and(|(b, _)| *b < bundle) {
                at += 1;
            }
            first_of_bundle.push(at);
        }
        Self {
            entries: by_bundle.into_iter().map(|(_, at)| at).collect(),
            first_of_bundle,
            replacing,
        }
    }

    /// The entries of a bundle, in the order of the index.
    pub(super) fn entries_of(&self, bundle: u32) -> &[EntryAt] {
        let first = |bundle| self.first_of_bundle.get(bundle as usize);
        match (first(bundle), first(bundle + 1)) {
            (Some(from), Some(to)) => &self.entries[*from..*to],
            _ => &[],
        }
    }

    /// The entries that replace or skip a bundle, in the order of the index.
    pub(super) fn replacing(&self, name: &str) -> &[EntryAt] {
        self.replacing.get(name).map_or(&[], Vec::as_slice)
    }
}
