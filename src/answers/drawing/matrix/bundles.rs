//! Facts of each bundle in the shown channels.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::answers::drawing::matrix::model::Cell;
use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::{Never, never_installed};
use fbc::document::EntryBlob;
use fbc::graph::Chains;
use fbc::text::semver::Version;

/// A bundle of the shown channels.
pub(super) struct Bundle<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) deprecation: Option<&'a str>,
    pub(super) cells: Vec<Option<Cell<'a>>>,
    /// Whether each of its channels has one plain edge to it and one from it.
    pub(super) plain: bool,
    parsed: Option<Version>,
}

/// The bundles of the channels, the highest version first. Those that entries only name
/// come last.
pub(super) fn of<'a>(channels: &[&'a ChannelRecord<'a>], rules: Rules) -> Vec<Bundle<'a>> {
    let mut bundles: Vec<Bundle<'a>> = Vec::new();
    let mut numbers: HashMap<&'a str, usize> = HashMap::new();
    let mut number = |name: &'a str, bundles: &mut Vec<Bundle<'a>>| {
        *numbers.entry(name).or_insert_with(|| {
            bundles.push(Bundle {
                name,
                version: "",
                deprecation: None,
                cells: vec![None; channels.len()],
                plain: true,
                parsed: None,
            });
            bundles.len() - 1
        })
    };
    for (column, channel) in channels.iter().enumerate() {
        for entry in &channel.entries {
            let at = number(&entry.name, &mut bundles);
            let bundle = &mut bundles[at];
            bundle.version = &entry.version;
            bundle.deprecation = entry.deprecation.as_deref();
            // Of entries with one name the first counts.
            bundle.cells[column].get_or_insert_with(|| Cell {
                entry: Some(entry),
                ..Cell::default()
            });
        }
    }
    for (column, channel) in channels.iter().enumerate() {
        for entry in &channel.entries {
            let named = entry.skips.iter().chain([&entry.replaces]);
            for name in named.filter(|name| !name.is_empty()) {
                let at = number(name, &mut bundles);
                bundles[at].cells[column].get_or_insert_with(Cell::default);
            }
        }
    }
    for bundle in &mut bundles {
        bundle.parsed = Version::parse(bundle.version).ok();
    }
    for (column, channel) in channels.iter().enumerate() {
        mark(&mut bundles, &numbers, column, channel, rules);
    }
    bundles.sort_by(|one, other| {
        let only_named = |bundle: &Bundle<'a>| bundle.cells.iter().flatten().all(Cell::is_absent);
        only_named(one)
            .cmp(&only_named(other))
            .then_with(|| Reverse(&one.parsed).cmp(&Reverse(&other.parsed)))
            .then_with(|| one.name.cmp(other.name))
    });
    bundles
}

/// How the entries of a channel name a bundle.
#[derive(Clone, Copy, Default)]
struct Named {
    replaced: usize,
    skipped: usize,
}

/// Notes what a channel says about its bundles.
fn mark<'a>(
    bundles: &mut [Bundle<'a>],
    numbers: &HashMap<&'a str, usize>,
    column: usize,
    channel: &'a ChannelRecord<'a>,
    rules: Rules,
) {
    let mut named: HashMap<&str, Named> = HashMap::new();
    for entry in &channel.entries {
        named.entry(&entry.replaces).or_default().replaced += 1;
        for skip in &entry.skips {
            named.entry(skip).or_default().skipped += 1;
        }
    }
    let entries: Vec<EntryBlob> = channel
        .entries
        .iter()
        .map(|entry| EntryBlob {
            name: entry.name.clone().into_owned(),
            replaces: entry.replaces.clone().into_owned(),
            skips: entry.skips.iter().map(ToString::to_string).collect(),
            skip_range: String::new(),
        })
        .collect();
    let survey = Chains::new(&entries).survey();
    let heads: HashSet<usize> = survey.heads.iter().copied().collect();
    let stranded: HashSet<usize> = survey.stranded.into_iter().collect();
    let cycles: HashSet<usize> = survey.cycles.into_iter().flatten().collect();
    let mut never = match rules {
        // Without a head OLM v0 refuses the channel: its heads and cycles are marked.
        Rules::V0 if channel.head.is_some() => never_installed(channel),
        Rules::V0 | Rules::V1 => HashMap::new(),
    };
    let versions = channel.entries.iter().rev();
    // Of entries with one name the first counts.
    let versions = versions.filter(|_| !never.is_empty());
    let versions: HashMap<&str, &str> = versions.map(|one| (&*one.name, &*one.version)).collect();
    for (at, entry) in channel.entries.iter().enumerate() {
        let Some(&number) = numbers.get(&*entry.name) else {
            continue;
        };
        let replaced = numbers.get(&*entry.replaces);
        let replaced = replaced.and_then(|number| bundles[*number].parsed.clone());
        let bundle = &mut bundles[number];
        let Some(cell) = &mut bundle.cells[column] else {
            continue;
        };
        if !cell.entry.is_some_and(|first| std::ptr::eq(first, entry)) {
            bundle.plain = false;
            continue;
        }
        if heads.contains(&at) {
            cell.heads = heads.len();
        }
        cell.stranded = stranded.contains(&at);
        cell.in_cycle = cycles.contains(&at);
        cell.down = replaced.is_some_and(|it| bundle.parsed.as_ref().is_some_and(|own| it > *own));
        cell.never = never
            .remove(&*entry.name)
            .map(|why| reason(why, &versions, &entry.name));
        let ends = named.get(&*entry.name).copied().unwrap_or_default();
        bundle.plain &= ends.replaced == 1
            && ends.skipped == 0
            && !cell.is_wrong()
            && cell.never.is_none()
            && !entry.replaces.is_empty()
            && entry.skips.is_empty()
            && entry.skip_range.is_empty()
            && entry.deprecation.is_none();
    }
    for bundle in bundles {
        let is_absent = bundle.cells[column].as_ref().is_some_and(Cell::is_absent);
        bundle.plain &= !is_absent;
    }
}

/// Why OLM v0 never installs an entry, in words.
fn reason(why: Never<'_>, versions: &HashMap<&str, &str>, own: &str) -> String {
    match why {
        Never::Skipped(by) if by == own => "skipped by itself".to_owned(),
        Never::Skipped(by) => {
            let version = versions.get(by).filter(|version| !version.is_empty());
            let by = version.copied().unwrap_or(by);
            format!("skipped by {by}")
        }
        Never::Prohibited => "olm.deprecated".to_owned(),
        Never::Beside => "beside the chain of the head".to_owned(),
    }
}
