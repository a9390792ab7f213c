//! One channel: whether its entries have bundles and make one chain of
//! updates.
//!
//! The chain begins at the head, the one entry that nothing replaces or
//! skips, and goes along `replaces` until an entry that is skipped, that the
//! channel lacks, or that replaces nothing. Every entry has to be on the chain
//! or to be skipped. All walks are linear in the entries and skips.

use std::collections::{HashMap, HashSet};

use super::super::blob::{ChannelBlob, EntryBlob, Located};
use super::super::problem::Code;
use super::super::semver::Range;
use super::package::Names;
use super::report::{About, Report, chain, list, quoted};

/// Checks a channel and returns its head, as an index in the blob's entries,
/// when it has one.
pub(super) fn check(
    located: &Located<ChannelBlob>,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Option<usize> {
    let blob = &located.blob;
    let about = About::Channel(&blob.name);
    if blob.name.is_empty() {
        let text = "has no name; give it one";
        report.error(Code::ChannelNameMissing, about, located, text);
    }
    if blob.entries.is_empty() {
        let text = "has no entries; add one or remove the channel";
        report.error(Code::ChannelEmpty, about, located, text);
        return None;
    }
    check_entries(located, names, report);
    let edges = Edges::of(&blob.entries);
    let name_of = |index: &usize| blob.entries[*index].name.as_str();
    let mut error = |code, text: String| report.error(code, about, located, &text);
    let heads = edges.heads();
    let head = match *heads.as_slice() {
        [] => {
            let text = "has no head: each of its entries is replaced or skipped by another; \
                        let the newest entry be replaced and skipped by none";
            error(Code::ChannelNoHead, text.to_owned());
            return None;
        }
        [head] => head,
        _ => {
            let mut heads: Vec<&str> = heads.iter().map(name_of).collect();
            heads.sort_unstable();
            let heads = list(&heads);
            let text =
                format!("has several heads: {heads}; let one of them replace or skip the others");
            error(Code::ChannelMultipleHeads, text);
            return None;
        }
    };
    match edges.chain(head) {
        Chain::Cycle(cycle) => {
            let cycle: Vec<&str> = cycle.iter().map(name_of).collect();
            let text = format!(
                "has a cycle of replaces: {}; let one of them replace an older entry or none",
                chain(&cycle)
            );
            error(Code::ChannelCycle, text);
            return None;
        }
        Chain::Ends { stranded, tail } => {
            if !stranded.is_empty() {
                let mut stranded: Vec<&str> = stranded.iter().map(name_of).collect();
                stranded.sort_unstable();
                let text = format!(
                    "has entries that its head {} does not lead to: {}; let an entry of the \
                     chain replace or skip them",
                    quoted(name_of(&head)),
                    list(&stranded)
                );
                error(Code::ChannelStranded, text);
                return None;
            }
            warn_of_absent(located, &edges, tail, report);
        }
    }
    Some(head)
}

/// What can be said of each entry alone.
fn check_entries(located: &Located<ChannelBlob>, names: &Names<'_>, report: &mut Report<'_>) {
    let blob = &located.blob;
    let mut seen = HashMap::with_capacity(blob.entries.len());
    let mut without_bundle = Vec::new();
    for entry in &blob.entries {
        let about = About::Entry(&blob.name, &entry.name);
        let times = seen.entry(entry.name.as_str()).or_insert(0_usize);
        *times += 1;
        if *times == 2 {
            let text = "stands more than once; keep one of them";
            report.error(Code::ChannelEntryDuplicate, about, located, text);
        }
        if *times == 1 && !names.bundles.contains_key(entry.name.as_str()) {
            without_bundle.push(entry.name.as_str());
        }
        if let Some(number) = entry.skips.iter().position(String::is_empty) {
            let text = format!("skips an entry without a name (skips[{number}]); remove it");
            report.error(Code::BlobMalformed, about, located, &text);
        }
        if !entry.skip_range.is_empty()
            && let Err(error) = Range::parse(&entry.skip_range)
        {
            let text = format!(
                "has a skipRange that cannot be read: {error}; write it like \">=1.0.0 <2.0.0\""
            );
            report.error(Code::SkipRangeInvalid, about, located, &text);
        }
    }
    if !without_bundle.is_empty() {
        without_bundle.sort_unstable();
        let text = format!(
            "has entries without an olm.bundle blob: {}; add the blobs or remove the entries",
            list(&without_bundle)
        );
        let code = Code::ChannelEntryWithoutBundle;
        report.error(code, About::Channel(&blob.name), located, &text);
    }
}

/// Only the tail of the chain may replace what the channel lacks: it says
/// where the channel is entered from. Elsewhere an update that its author
/// meant is missing.
fn warn_of_absent(
    located: &Located<ChannelBlob>,
    edges: &Edges<'_>,
    tail: usize,
    report: &mut Report<'_>,
) {
    let blob = &located.blob;
    let mut absent: Vec<&str> = (blob.entries.iter().enumerate())
        .filter(|(index, entry)| {
            *index != tail
                && !entry.replaces.is_empty()
                && !edges.index.contains_key(entry.replaces.as_str())
        })
        .map(|(_, entry)| entry.name.as_str())
        .collect();
    if !absent.is_empty() {
        absent.sort_unstable();
        let text = format!(
            "has entries that replace one which it does not have: {}; add what they replace or \
             remove their \"replaces\"",
            list(&absent)
        );
        let about = About::Channel(&blob.name);
        report.warning(Code::ReplacesAbsent, about, located, &text);
    }
}

/// The entries of a channel as nodes. Of entries with one name the first
/// counts.
struct Edges<'a> {
    entries: &'a [EntryBlob],
    index: HashMap<&'a str, usize>,
    /// The names that some entry skips, whether the channel has them or not.
    skipped: HashSet<&'a str>,
}

/// Where the chain of replaces leads.
enum Chain {
    /// Back to itself: the entries of the cycle, the first again at the end.
    Cycle(Vec<usize>),
    /// To an end.
    Ends {
        /// The entries that are neither on the chain nor skipped.
        stranded: Vec<usize>,
        /// The last entry of the chain.
        tail: usize,
    },
}

impl<'a> Edges<'a> {
    fn of(entries: &'a [EntryBlob]) -> Self {
        let mut index = HashMap::with_capacity(entries.len());
        let mut skipped = HashSet::new();
        for (number, entry) in entries.iter().enumerate() {
            index.entry(entry.name.as_str()).or_insert(number);
            skipped.extend(entry.skips.iter().map(String::as_str));
        }
        Self {
            entries,
            index,
            skipped,
        }
    }

    /// Whether an entry counts: it is the first with its name.
    fn counts(&self, number: usize) -> bool {
        self.index.get(self.entries[number].name.as_str()) == Some(&number)
    }

    fn heads(&self) -> Vec<usize> {
        let replaced: HashSet<&str> = self
            .entries
            .iter()
            .map(|entry| entry.replaces.as_str())
            .filter(|name| !name.is_empty())
            .collect();
        (0..self.entries.len())
            .filter(|number| {
                let name = self.entries[*number].name.as_str();
                self.counts(*number) && !replaced.contains(name) && !self.skipped.contains(name)
            })
            .collect()
    }

    fn chain(&self, head: usize) -> Chain {
        let mut chain = vec![head];
        let mut on_chain = vec![false; self.entries.len()];
        on_chain[head] = true;
        let mut tail = head;
        loop {
            let replaces = self.entries[tail].replaces.as_str();
            if replaces.is_empty() || self.skipped.contains(replaces) {
                break;
            }
            let Some(&next) = self.index.get(replaces) else {
                break;
            };
            if on_chain[next] {
                let start = chain.iter().position(|number| *number == next);
                let mut cycle = chain.split_off(start.unwrap_or(0));
                cycle.push(next);
                return Chain::Cycle(cycle);
            }
            on_chain[next] = true;
            chain.push(next);
            tail = next;
        }
        let stranded = (0..self.entries.len())
            .filter(|number| {
                self.counts(*number)
                    && !on_chain[*number]
                    && !self.skipped.contains(self.entries[*number].name.as_str())
            })
            .collect();
        Chain::Ends { stranded, tail }
    }
}
