//! One channel: the entries to keep so that it stays a chain of updates with one
//! head.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::document::EntryBlob;
use crate::graph::Chains;
use crate::select::model::{Line, Reason};
use crate::text::json::typed::{fields, from_json};

/// A channel of a package without errors.
pub(crate) struct Channel<'a> {
    pub(crate) name: &'a str,
    pub(crate) entries: Vec<EntryBlob>,
    numbers: HashMap<String, usize>,
    /// The chain of `replaces` from the head.
    chain: Vec<usize>,
    /// For each entry its distance from the head, or the distance of the last entry
    /// of the chain that skips it.
    places: Vec<Option<usize>>,
}

/// Entries that are kept, and why.
pub(crate) type Kept = BTreeMap<usize, Reason>;

#[derive(Default)]
struct ChannelLine {
    entries: Vec<EntryBlob>,
}

fields!(ChannelLine { entries = "entries" });

impl<'a> Channel<'a> {
    /// `None` if the line is malformed or has no entries.
    pub(crate) fn read(line: &'a Line) -> Option<Self> {
        let ChannelLine { entries } = from_json(&line.json).ok()?;
        let mut numbers = HashMap::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            numbers.entry(entry.name.clone()).or_insert(number);
        }
        let mut channel = Self {
            name: &line.name,
            places: vec![None; entries.len()],
            entries,
            numbers,
            chain: Vec::new(),
        };
        let mut next = Some(*Chains::new(&channel.entries).heads().first()?);
        while let Some(number) = next.filter(|number| channel.places[*number].is_none()) {
            channel.places[number] = Some(channel.chain.len());
            channel.chain.push(number);
            next = channel
                .numbers
                .get(&channel.entries[number].replaces)
                .copied();
        }
        let on_chain = channel.places.clone();
        for (place, number) in channel.chain.iter().enumerate() {
            for skipped in &channel.entries[*number].skips {
                if let Some(skipped) = channel.numbers.get(skipped)
                    && on_chain[*skipped].is_none()
                {
                    channel.places[*skipped] = Some(place);
                }
            }
        }
        Some(channel)
    }

    pub(crate) fn head(&self) -> usize {
        self.chain.first().copied().unwrap_or_default()
    }

    pub(crate) fn number(&self, entry: &str) -> Option<usize> {
        self.numbers.get(entry).copied()
    }

    /// Where an entry lies below the head, from 0.
    pub(crate) fn place(&self, number: usize) -> Option<usize> {
        self.places.get(number).copied().flatten()
    }

    /// The entries with versions in a range, and what is between them. The new
    /// head is the lowest entry of the chain with as many of them at or below
    /// it as any, and the chain ends where none is left; what is skipped stays
    /// when it is in the range itself.
    pub(crate) fn cut(&self, within: impl Fn(usize) -> bool) -> Kept {
        let skipped = |number: usize| {
            let skips = self.entries[number].skips.iter();
            skips.filter_map(|skip| self.number(skip))
        };
        let mut seen = HashSet::new();
        let mut counts = vec![0; self.chain.len()];
        let mut count = 0;
        for (place, number) in self.chain.iter().enumerate().rev() {
            let here = std::iter::once(*number).chain(skipped(*number));
            count += here.filter(|one| within(*one) && seen.insert(*one)).count();
            counts[place] = count;
        }
        let mut kept = Kept::new();
        if count == 0 {
            return kept;
        }
        let head = counts.iter().rposition(|here| *here == count).unwrap_or(0);
        let end = counts.iter().position(|here| *here == 0);
        for number in &self.chain[head..end.unwrap_or(self.chain.len())] {
            let reason = if within(*number) {
                Reason::InRange
            } else {
                Reason::OnTheWay
            };
            kept.insert(*number, reason);
            for skipped in skipped(*number).filter(|skipped| within(*skipped)) {
                kept.insert(skipped, Reason::InRange);
            }
        }
        kept
    }

    /// Adds an entry, and the entries between it and those that are kept.
    pub(crate) fn add(&self, kept: &mut Kept, wanted: usize, reason: Reason) {
        let places = || kept.keys().filter_map(|number| self.place(*number));
        if let (Some(place), Some(first), Some(last)) =
            (self.place(wanted), places().min(), places().max())
        {
            for number in &self.chain[place.min(first)..=place.max(last)] {
                kept.entry(*number).or_insert(Reason::OnTheWay);
            }
        }
        kept.insert(wanted, reason);
    }

    /// The problem of the channel if only these were left of it.
    pub(crate) fn defect(&self, kept: &Kept) -> Option<String> {
        let is_kept = |number: usize| kept.contains_key(&number);
        let heads = Chains::among(&self.entries, is_kept).heads();
        let names = |numbers: &[usize]| {
            let mut names: Vec<String> = (numbers.iter())
                .map(|number| format!("{:?}", self.entries[*number].name))
                .collect();
            names.sort();
            names.join(", ")
        };
        let [head] = heads[..] else {
            return Some(format!(
                "would have several heads: {}; widen the range so that one of them is replaced \
                 or skipped by another",
                names(&heads)
            ));
        };
        let skips = kept.keys().flat_map(|number| &self.entries[*number].skips);
        let skipped: BTreeSet<usize> = skips.filter_map(|skip| self.number(skip)).collect();
        let mut left: BTreeSet<usize> = kept.keys().copied().collect();
        let mut next = Some(head);
        while let Some(number) = next.filter(|number| left.remove(number)) {
            next = self.number(&self.entries[number].replaces);
            // A chain ends at a skipped entry.
            next = next.filter(|next| !skipped.contains(next));
        }
        left.retain(|number| !skipped.contains(number));
        if left.is_empty() {
            return None;
        }
        let left: Vec<usize> = left.into_iter().collect();
        Some(format!(
            "would have entries that its new head {} does not lead to: {}, since those that skip \
             them are left out; raise the upper end of the range, or leave them out as well",
            names(&[head]),
            names(&left)
        ))
    }
}
