//! One channel: whether its entries have bundles and make one chain of
//! updates. How entries lead to each other is the business of [`chains`].
//!
//! [`chains`]: crate::graph::chains

use std::collections::HashMap;

use crate::document::{ChannelBlob, Located};
use crate::graph::chains::{Chains, Survey};
use crate::graph::group::is_malformed;
use crate::graph::names::Names;
use crate::graph::report::{About, Report};
use crate::problem::Code;
use crate::text::display::{MAX_NAMES, chain, first_of, list, quoted};
use crate::text::semver::Range;

/// Checks a channel and returns its head, as an index in the blob's entries,
/// when it has a single one.
pub(crate) fn check(
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
    check_entries(located, names, report);
    // A malformed blob may have lost the values that the checks below miss.
    if is_malformed(&blob.defects) {
        return None;
    }
    if blob.entries.is_empty() {
        let text = "has no entries; add one or remove the channel";
        report.error(Code::ChannelEmpty, about, located, text);
        return None;
    }
    let chains = Chains::new(&blob.entries);
    let survey = chains.survey();
    let names_of = |numbers: &[usize]| -> Vec<&str> {
        let names = numbers.iter().map(|number| &*blob.entries[*number].name);
        names.collect()
    };
    let mut error = |code, text: String| report.error(code, about, located, &text);
    let Survey {
        heads,
        stranded,
        mut cycles,
    } = survey;
    match *heads.as_slice() {
        [] => {
            // Without one an entry without a name is above all others.
            if !cycles.is_empty() {
                let cycle = cycles.remove(0);
                let text = format!(
                    "has no head: each of its entries is replaced or skipped by another, as in \
                     {}; let the newest entry be replaced and skipped by none",
                    chain(&names_of(&cycle))
                );
                error(Code::ChannelNoHead, text);
            }
        }
        [_] => {}
        _ => {
            let text = format!(
                "has several heads: {}; let one of them replace or skip the others",
                with_absent(blob, &chains, &heads)
            );
            error(Code::ChannelMultipleHeads, text);
        }
    }
    for cycle in cycles {
        let text = format!(
            "has a cycle of replaces: {}; let one of them replace an older entry or none",
            chain(&names_of(&cycle))
        );
        error(Code::ChannelCycle, text);
    }
    // Without a head nothing leads anywhere, which was said.
    if !stranded.is_empty() && !heads.is_empty() {
        let entries = with_absent(blob, &chains, &stranded);
        error(Code::ChannelStranded, stranded_text(blob, &heads, &entries));
    }
    warn_of_absent(located, &chains, report);
    match *heads.as_slice() {
        [head] => Some(head),
        _ => None,
    }
}

/// The message about entries that no head leads to.
fn stranded_text(blob: &ChannelBlob, heads: &[usize], entries: &str) -> String {
    let from = match *heads {
        [head] => format!("its head {} does", quoted(&blob.entries[head].name)),
        _ => String::from("its heads do"),
    };
    format!(
        "has entries that {from} not lead to: {entries}; let an entry of the chain replace or skip \
         them"
    )
}

/// Checks each entry by itself.
fn check_entries(located: &Located<ChannelBlob>, names: &Names<'_>, report: &mut Report<'_>) {
    let blob = &located.blob;
    let mut seen = HashMap::with_capacity(blob.entries.len());
    let mut without_bundle = Vec::new();
    if blob.entries.iter().any(|entry| entry.name.is_empty()) {
        let text = "has an entry without a name; give it the name of its bundle";
        let code = Code::ChannelEntryWithoutBundle;
        report.error(code, About::Channel(&blob.name), located, text);
    }
    for entry in &blob.entries {
        let about = About::Entry(&blob.name, &entry.name);
        // Entries without a name were reported above.
        let has_name = !entry.name.is_empty();
        let times = seen.entry(entry.name.as_str()).or_insert(0_usize);
        *times += 1;
        if *times == 2 && has_name {
            let text = "stands more than once; keep one of them";
            report.error(Code::ChannelEntryDuplicate, about, located, text);
        }
        if *times == 1 && has_name && !names.bundles.contains_key(entry.name.as_str()) {
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
    // A document that cannot be read may be the bundle.
    if !without_bundle.is_empty() && names.complete {
        without_bundle.sort_unstable();
        let text = format!(
            "has entries without an olm.bundle blob: {}; add the blobs or remove the entries",
            list(&without_bundle)
        );
        let code = Code::ChannelEntryWithoutBundle;
        report.error(code, About::Channel(&blob.name), located, &text);
    }
}

/// Only the tail of a chain may replace what the channel lacks: it says where
/// the channel is entered from. Of an entry that is skipped an update is
/// missing that its author meant.
fn warn_of_absent(located: &Located<ChannelBlob>, chains: &Chains<'_>, report: &mut Report<'_>) {
    let blob = &located.blob;
    let absent = |number: &usize| chains.is_skipped(*number) && chains.replaces_absent(*number);
    let absent = (0..blob.entries.len()).filter(absent);
    let mut absent: Vec<usize> = absent.collect();
    if !absent.is_empty() {
        absent.sort_unstable_by_key(|number| blob.entries[*number].name.as_str());
        let text = format!(
            "has entries that replace one which it does not have: {}; add what they replace or \
             remove their \"replaces\"",
            with_absent(blob, chains, &absent)
        );
        let about = About::Channel(&blob.name);
        report.warning(Code::ReplacesAbsent, about, located, &text);
    }
}

/// The names of entries, each with the one that it replaces if the channel lacks that: a
/// misspelt `replaces` makes heads and strands entries.
fn with_absent(blob: &ChannelBlob, chains: &Chains<'_>, numbers: &[usize]) -> String {
    let names = numbers.iter().map(|number| {
        let entry = &blob.entries[*number];
        if chains.replaces_absent(*number) {
            let (name, replaces) = (quoted(&entry.name), quoted(&entry.replaces));
            return format!("{name} (which replaces the absent {replaces})");
        }
        quoted(&entry.name)
    });
    first_of(names, MAX_NAMES, ", ")
}
