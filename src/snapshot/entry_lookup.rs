//! Lookup tables for channel entries, made once from an index.

use crate::answers::index::{Index, number};

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
    entries: Box<[EntryAt]>,
    first_of_bundle: Box<[u32]>,
    /// Entries sorted by what they replace or skip, and the number of that among their
    /// targets. Of one target, they are in the order of the index.
    replacing: Box<[(EntryAt, u32)]>,
}

impl EntryLookup {
    pub(super) fn new(index: &Index) -> Self {
        let mut by_bundle = Vec::new();
        let mut replacing: Vec<(&[u8], EntryAt, u32)> = Vec::new();
        for (package, packages) in (0_u32..).zip(&index.packages) {
            for (channel, channels) in (0_u32..).zip(&packages.channels) {
                for (entry, entries) in (0_u32..).zip(&channels.entries) {
                    let at = EntryAt {
                        package,
                        channel,
                        entry,
                    };
                    by_bundle.push((entries.bundle, at));
                    let targets = (0..).zip(entries.targets());
                    replacing
                        .extend(targets.map(|(number, target)| (target.as_bytes(), at, number)));
                }
            }
        }
        by_bundle.sort_unstable();
        // The order of the index is that of the numbers.
        replacing.sort_unstable();
        let mut first_of_bundle = Vec::with_capacity(index.bundles.len() + 1);
        let mut at = 0;
        for (bundle, _) in (0_u32..).zip(0..=index.bundles.len()) {
            while by_bundle.get(at).is_some_and(|(b, _)| *b < bundle) {
                at += 1;
            }
            first_of_bundle.push(number(at));
        }
        // Boxed: a vector that is collected from another one keeps its memory, which is
        // twice as much.
        Self {
            entries: by_bundle.into_iter().map(|(_, at)| at).collect(),
            first_of_bundle: first_of_bundle.into(),
            replacing: replacing
                .into_iter()
                .map(|(_, at, number)| (at, number))
                .collect(),
        }
    }

    /// The entries of a bundle, in the order of the index.
    pub(super) fn entries_of(&self, bundle: u32) -> &[EntryAt] {
        let first = |bundle| self.first_of_bundle.get(bundle as usize);
        match (first(bundle), first(bundle + 1)) {
            (Some(from), Some(to)) => &self.entries[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// The entries that replace or skip a bundle, in the order of the index.
    pub(super) fn replacing(
        &self,
        index: &Index,
        name: &str,
    ) -> impl Iterator<Item = EntryAt> + use<'_> {
        let target = |(at, number): &(EntryAt, u32)| {
            let package = index.packages.get(at.package as usize)?;
            let channel = package.channels.get(at.channel as usize)?;
            let entry = channel.entries.get(at.entry as usize)?;
            let target = entry.targets().nth(*number as usize)?;
            Some(target.as_bytes())
        };
        let (sorted, name) = (&self.replacing, Some(name.as_bytes()));
        let from = sorted.partition_point(|one| target(one) < name);
        let to = sorted.partition_point(|one| target(one) <= name);
        sorted[from..to].iter().map(|(at, _)| *at)
    }
}
