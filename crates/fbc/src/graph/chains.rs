//! How the entries of a channel lead to each other.
//!
//! A chain begins at a head, an entry that nothing replaces or skips, and goes
//! along `replaces` until an entry that is skipped, that the channel lacks, or
//! that replaces nothing. A channel in order has one head, and every entry is
//! on its chain or skipped. All walks are linear in the entries and skips.

use std::collections::{HashMap, HashSet};

use crate::document::EntryBlob;

/// The entries of a channel as nodes, by their numbers. Of entries with one name
/// the first is the node. Entries without a name are no nodes.
pub struct Chains<'a> {
    entries: &'a [EntryBlob],
    index: HashMap<&'a str, usize>,
    /// The names that some entry skips, whether the channel has them or not.
    skipped: HashSet<&'a str>,
    /// The names that some entry replaces, whether the channel has them or not.
    replaced: HashSet<&'a str>,
}

/// The findings in a channel: numbers of entries, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The entries that nothing replaces or skips.
    pub heads: Vec<usize>,
    /// The entries that no head leads to and nothing skips.
    pub stranded: Vec<usize>,
    /// Chains that lead back to themselves, each with its first entry again at
    /// the end. Where there is no head there is one at least, which may lead
    /// over skips.
    pub cycles: Vec<Vec<usize>>,
}

impl<'a> Chains<'a> {
    /// The chains of a channel with these entries.
    pub fn new(entries: &'a [EntryBlob]) -> Self {
        Self::among(entries, |_| true)
    }

    /// The chains of a channel with those of these entries whose numbers count.
    pub fn among(entries: &'a [EntryBlob], counts: impl Fn(usize) -> bool) -> Self {
        let mut index = HashMap::with_capacity(entries.len());
        let mut skipped = HashSet::new();
        let mut replaced = HashSet::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            if !counts(number) {
                continue;
            }
            if !entry.name.is_empty() {
                index.entry(entry.name.as_str()).or_insert(number);
            }
            if !entry.replaces.is_empty() {
                replaced.insert(entry.replaces.as_str());
            }
            skipped.extend(entry.skips.iter().map(String::as_str));
        }
        Self {
            entries,
            index,
            skipped,
            replaced,
        }
    }

    /// The entries that nothing replaces or skips, sorted by name.
    pub fn heads(&self) -> Vec<usize> {
        let (heads, _) = self.heads_and_others();
        heads
    }

    /// The head of the channel: the only entry that nothing replaces or skips.
    pub fn head(&self) -> Option<usize> {
        match *self.heads().as_slice() {
            [head] => Some(head),
            _ => None,
        }
    }

    fn heads_and_others(&self) -> (Vec<usize>, Vec<usize>) {
        self.sorted().into_iter().partition(|number| {
            let name = self.entries[*number].name.as_str();
            !self.replaced.contains(name) && !self.skipped.contains(name)
        })
    }

    /// Whether some entry skips this one.
    pub fn is_skipped(&self, number: usize) -> bool {
        self.skipped.contains(self.entries[number].name.as_str())
    }

    /// Whether an entry replaces one that the channel lacks.
    pub fn replaces_absent(&self, number: usize) -> bool {
        let replaces = self.entries[number].replaces.as_str();
        !replaces.is_empty() && !self.index.contains_key(replaces)
    }

    /// The entry that comes behind this one on its chain.
    fn next(&self, number: usize) -> Option<usize> {
        let replaces = self.entries[number].replaces.as_str();
        let ends = replaces.is_empty() || self.skipped.contains(replaces);
        self.index.get(replaces).copied().filter(|_| !ends)
    }

    /// The entries that count, sorted by name.
    fn sorted(&self) -> Vec<usize> {
        let mut named: Vec<(&str, usize)> = self.index.iter().map(|(k, v)| (*k, *v)).collect();
        named.sort_unstable();
        named.into_iter().map(|(_, number)| number).collect()
    }

    /// Finds heads, stranded entries and cycles.
    pub fn survey(&self) -> Survey {
        let (heads, others) = self.heads_and_others();
        let mut survey = Survey::default();
        let mut walked = vec![None; self.entries.len()];
        for head in &heads {
            self.walk(*head, &mut walked, &mut survey.cycles);
        }
        let stranded = others.iter().copied();
        survey.stranded = stranded
            .filter(|number| walked[*number].is_none() && !self.is_skipped(*number))
            .collect();
        for other in others {
            self.walk(other, &mut walked, &mut survey.cycles);
        }
        if heads.is_empty() && survey.cycles.is_empty() {
            survey.cycles.extend(self.circle());
        }
        survey.heads = heads;
        survey
    }

    /// Goes along a chain until its end or where a walk has been. `walked` has
    /// for each entry where the walk began that came there.
    fn walk(&self, start: usize, walked: &mut [Option<usize>], cycles: &mut Vec<Vec<usize>>) {
        let mut at = start;
        while walked[at].is_none() {
            walked[at] = Some(start);
            match self.next(at) {
                Some(next) => at = next,
                None => return,
            }
        }
        if walked[at] == Some(start) {
            let mut cycle = vec![at];
            let mut next = self.next(at);
            while let Some(number) = next.filter(|number| *number != at) {
                cycle.push(number);
                next = self.next(number);
            }
            cycle.push(at);
            cycles.push(cycle);
        }
    }

    /// Where there is no head: entries of which each replaces or skips the one
    /// behind it, the first again at the end. There are none where an entry
    /// without a name is above the others.
    fn circle(&self) -> Option<Vec<usize>> {
        let sorted = self.sorted();
        let mut above = HashMap::new();
        for &number in &sorted {
            let entry = &self.entries[number];
            for name in entry.skips.iter().chain([&entry.replaces]) {
                above.entry(name.as_str()).or_insert(number);
            }
        }
        let mut walk = vec![*sorted.first()?];
        let mut place = HashMap::new();
        while let Some(&at) = walk.last() {
            if let Some(first) = place.insert(at, walk.len() - 1) {
                walk.drain(..first);
                break;
            }
            match above.get(self.entries[at].name.as_str()) {
                Some(&number) => walk.push(number),
                None => return None,
            }
        }
        walk.reverse();
        Some(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries from `name replaces skips`, with `-` for nothing.
    fn entries(texts: &[&str]) -> Vec<EntryBlob> {
        let entry = |text: &&str| {
            let mut words = text.split(' ').map(|word| word.replace('-', ""));
            let mut word = || words.next().unwrap_or_default();
            EntryBlob {
                name: word(),
                replaces: word(),
                skips: Some(word())
                    .filter(|skip| !skip.is_empty())
                    .into_iter()
                    .collect(),
                skip_range: String::new(),
            }
        };
        texts.iter().map(entry).collect()
    }

    #[track_caller]
    fn assert_found(texts: &[&str], heads: &str, stranded: &str, cycles: &[&str]) {
        let entries = entries(texts);
        let survey = Chains::new(&entries).survey();
        let names = |numbers: &[usize]| -> String {
            let names = numbers.iter().map(|number| &*entries[*number].name);
            names.collect()
        };
        let found: Vec<String> = survey.cycles.iter().map(|cycle| names(cycle)).collect();
        assert_eq!(names(&survey.heads), heads);
        assert_eq!(names(&survey.stranded), stranded);
        assert_eq!(found, cycles);
    }

    #[test]
    fn one_chain_is_in_order() {
        assert_found(&["c b", "b a", "a"], "c", "", &[]);
        assert_found(&["c a b", "b a", "a -"], "c", "", &[]);
    }

    #[test]
    fn the_head_is_the_only_entry_that_nothing_replaces_or_skips() {
        let head = |texts: &[&str]| Chains::new(&entries(texts)).head();
        assert_eq!(head(&["a", "b a"]), Some(1));
        assert_eq!(head(&["a", "b"]), None);
        assert_eq!(head(&["a b", "b a"]), None);
        assert_eq!(head(&["a - a"]), None);
        // Of entries with one name the first counts.
        assert_eq!(head(&["a", "b a", "b"]), Some(1));
        assert_eq!(head(&["b a", "b a", "a", "a"]), Some(0));
        // Entries without a name are ignored, but the entries they replace count.
        assert_eq!(head(&["-", "b a", "a", "-"]), Some(1));
        assert_eq!(head(&["- b", "b a", "a"]), None);
        assert_eq!(head(&[]), None);
    }

    #[test]
    fn heads_are_found_among_some_entries() {
        let entries = entries(&["c b", "b a", "a", "d a"]);
        let heads =
            |counts: &[usize]| Chains::among(&entries, |number| counts.contains(&number)).heads();
        assert_eq!(heads(&[0, 1, 2, 3]), [0, 3]);
        assert_eq!(heads(&[1, 2]), [1]);
        assert_eq!(heads(&[2, 0]), [2, 0]);
    }

    #[test]
    fn every_cycle_is_found_once_where_it_is_entered() {
        assert_found(&["z a", "a b", "b c", "c b"], "z", "", &["bcb"]);
        assert_found(
            &["z", "b a", "a b", "d c", "c d"],
            "z",
            "abcd",
            &["aba", "cdc"],
        );
        assert_found(&["a a"], "", "a", &["aa"]);
        // A skipped entry ends a chain before it comes round.
        assert_found(&["c b b", "b a", "a b"], "c", "a", &[]);
    }

    #[test]
    fn what_no_head_leads_to_is_stranded() {
        assert_found(&["e d", "d c", "c - b", "b a", "a"], "e", "a", &[]);
        assert_found(&["a", "b", "c x", "x y", "y"], "abc", "", &[]);
    }

    #[test]
    fn a_channel_without_a_head_has_a_circle() {
        for (texts, wanted) in [
            (&["a - a"] as &[&str], "aa"),
            (&["a b", "b - a"], "aba"),
            (&["a", "b a c", "c - b"], "bcb"),
        ] {
            let entries = entries(texts);
            let circle = Chains::new(&entries).circle().unwrap();
            let circle: String = circle.iter().map(|n| &*entries[*n].name).collect();
            assert_eq!(circle, wanted, "{texts:?}");
        }
    }
}
