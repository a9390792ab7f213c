//! The updates of an installed bundle, by the rules of both versions of Operator
//! Lifecycle Manager.
//!
//! OLM v1 (operator-controller) considers all entries of the channels it may use
//! that replace the installed bundle, skip it, or have a `skipRange` with the
//! installed version. The installed version itself remains possible. Among those
//! in the wanted range it prefers the highest version; deprecated bundles come
//! last. OLM v0 stays in one channel and goes step by step. Each step leads to
//! the entry nearest to the head that replaces or skips the installed bundle, by
//! name or by range. It never takes an entry with the property `olm.deprecated`, an
//! entry that another entry of the channel skips, or an entry beside the chain of the
//! head.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use fbc::text::semver::{Constraint, Identifier, Range, RangeIndex, Version};

/// The number of steps of a path that are listed.
const MAX_STEPS: usize = 1_000;

/// An installed bundle.
#[derive(Clone, Debug, Default)]
pub struct Installed<'a> {
    /// The bundle's name; empty when only the version is known.
    pub name: &'a str,
    /// Its version; none when only the name is known.
    pub version: Option<Version>,
}

/// The relation of an entry to the installed bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Edge {
    /// It replaces the installed bundle.
    Replaces,
    /// It skips the installed bundle by its name.
    Skips,
    /// Its range holds the installed version.
    SkipRange,
    /// It has the installed version.
    Installed,
}

impl Edge {
    /// Its name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange => "skipRange",
            Self::Installed => "installed",
        }
    }
}

/// A bundle that OLM v1 may install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version, as it was written.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// The requested channels that lead to it.
    pub channels: Vec<&'a str>,
    /// Its relations to the installed bundle; empty for a first installation.
    pub edges: Vec<Edge>,
    /// The reason of its deprecation, if it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
}

/// The path of OLM v0 in one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Path<'a> {
    /// The channel.
    pub channel: &'a str,
    /// Its head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// The bundles that are installed one after the other.
    pub steps: Vec<Step<'a>>,
    /// Whether it ends at the head.
    pub reaches_head: bool,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PathStep)]
pub struct Step<'a> {
    /// The bundle that is installed.
    pub name: &'a str,
    /// Its version, as it was written.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// Its relation to the one before; none for a first installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<Edge>,
    /// The reason of its deprecation, if it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
}

/// The bundles that OLM v1 may install from the given channels, the best first.
/// Without an installed bundle, all of them.
pub fn candidates<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: Option<&Installed<'_>>,
    range: Option<&Constraint>,
) -> Vec<Candidate<'a>> {
    let mut found: BTreeMap<&str, (Candidate<'a>, Order)> = BTreeMap::new();
    for channel in channels {
        for entry in &channel.entries {
            let version = Version::parse(&entry.version).ok();
            let edges = match installed {
                Some(installed) => edges(entry, version.as_ref(), installed),
                None => Vec::new(),
            };
            let follows = installed.is_none() || !edges.is_empty();
            let wanted =
                range.is_none_or(|range| version.as_ref().is_some_and(|v| range.contains(v)));
            if !follows || !wanted {
                continue;
            }
            let (candidate, _) = found.entry(&entry.name).or_insert_with(|| {
                let candidate = Candidate {
                    name: &entry.name,
                    version: &entry.version,
                    channels: Vec::new(),
                    edges: Vec::new(),
                    deprecation: entry.deprecation.as_deref(),
                };
                (candidate, Order::of(entry, version))
            });
            if candidate.channels.last() != Some(&&*channel.name) {
                candidate.channels.push(&channel.name);
            }
            candidate.edges.extend(edges);
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by(|(_, one), (_, other)| one.cmp(other));
    found
        .into_iter()
        .map(|(mut candidate, _)| {
            candidate.edges.sort_unstable();
            candidate.edges.dedup();
            candidate
        })
        .collect()
}

/// The path of OLM v0 in a channel, from the installed bundle or from nothing.
pub fn path<'a>(channel: &'a ChannelRecord<'a>, installed: Option<&Installed<'a>>) -> Path<'a> {
    let chain = Chain::of(channel);
    let head = chain.entries.first().map(|entry| &*entry.name);
    let mut steps = Vec::new();
    let mut at = installed.and_then(|installed| chain.place(installed.name));
    let known = at.is_some();
    match (installed, head) {
        (None, Some(_)) => {
            if let Some(place) = chain.first() {
                steps.push(step(chain.entries[place], None));
                at = Some(place);
            }
        }
        (Some(installed), Some(_)) => {
            let mut current = installed.clone();
            while at != Some(0) && steps.len() < MAX_STEPS {
                let Some((place, edge)) = chain.next(&current, at) else {
                    break;
                };
                let entry = chain.entries[place];
                steps.push(step(entry, Some(edge)));
                at = Some(place);
                current = Installed {
                    name: &entry.name,
                    version: Version::parse(&entry.version).ok(),
                };
            }
        }
        (_, None) => {}
    }
    Path {
        channel: &channel.name,
        head,
        reaches_head: at == Some(0) && (known || !steps.is_empty()),
        steps,
    }
}

/// The entries of a channel that OLM v0 considers, with what leads to them.
pub(crate) struct Chain<'a> {
    /// From the head along `replaces`, without those that an entry skips.
    pub(crate) entries: Vec<&'a EntryRecord<'a>>,
    /// The place of each of them.
    places: HashMap<&'a str, usize>,
    /// The places of entries that may be installed and have a range.
    with_range: Vec<usize>,
    /// Their ranges, in the same order.
    ranges: RangeIndex,
    /// For each name the entry nearest to the head that replaces or skips it.
    named: HashMap<&'a str, (usize, Edge)>,
}

impl<'a> Chain<'a> {
    pub(crate) fn of(channel: &'a ChannelRecord<'a>) -> Self {
        let entries = chain(channel);
        let allowed = entries.iter().enumerate();
        let allowed = allowed.filter(|(_, entry)| !entry.prohibited);
        let (with_range, ranges): (Vec<usize>, Vec<Range>) = allowed
            .filter_map(|(place, entry)| Some((place, Range::parse(&entry.skip_range).ok()?)))
            .unzip();
        let names = entries.iter().enumerate().rev();
        Self {
            // Of entries with one name the first counts.
            places: names.map(|(place, entry)| (&*entry.name, place)).collect(),
            named: named(&entries),
            with_range,
            ranges: RangeIndex::new(&ranges),
            entries,
        }
    }

    /// The place of an entry, 0 for the head.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The entry that is installed first.
    fn first(&self) -> Option<usize> {
        self.entries.iter().position(|entry| !entry.prohibited)
    }

    /// The next step from a bundle at a place of the chain, or from one that the chain
    /// does not have.
    pub(crate) fn next(&self, current: &Installed<'_>, at: Option<usize>) -> Option<(usize, Edge)> {
        // Only towards the head: whatever the edges of a broken catalog say, the way
        // comes to an end.
        let limit = at.unwrap_or(self.entries.len());
        let by_name = self.named.get(current.name).copied();
        let by_range = current.version.as_ref().and_then(|version| {
            let place = *self.with_range.get(self.ranges.first(version)?)?;
            Some((place, Edge::SkipRange))
        });
        let next = [by_name, by_range].into_iter().flatten();
        next.filter(|(place, _)| *place < limit).min()
    }
}

/// Why OLM v0 never installs an entry of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never<'a> {
    /// This entry of the channel skips it.
    Skipped(&'a str),
    /// It has the property `olm.deprecated`.
    Prohibited,
    /// No `replaces` leads to it from the head.
    Beside,
}

/// The entries of a channel that OLM v0 never installs, by name.
pub(crate) fn never_installed<'a>(channel: &'a ChannelRecord<'a>) -> HashMap<&'a str, Never<'a>> {
    let on_chain: HashSet<&str> = chain(channel).iter().map(|entry| &*entry.name).collect();
    let mut skipped: HashMap<&str, &str> = HashMap::new();
    for entry in &channel.entries {
        for skip in &entry.skips {
            skipped.entry(skip).or_insert(&entry.name);
        }
    }
    let entries = channel.entries.iter();
    let never = entries.filter_map(|entry| {
        let name = &*entry.name;
        let why = match skipped.get(name) {
            Some(by) => Never::Skipped(by),
            None if entry.prohibited => Never::Prohibited,
            None if !on_chain.contains(name) => Never::Beside,
            None => return None,
        };
        Some((name, why))
    });
    never.collect()
}

fn step<'a>(entry: &'a EntryRecord<'a>, edge: Option<Edge>) -> Step<'a> {
    Step {
        name: &entry.name,
        version: &entry.version,
        edge,
        deprecation: entry.deprecation.as_deref(),
    }
}

/// The entries that OLM v0 considers: those from the head along `replaces` that no
/// entry of the channel skips. The channel's entries begin with them, in this order.
fn chain<'a>(channel: &'a ChannelRecord<'a>) -> Vec<&'a EntryRecord<'a>> {
    let skips = channel.entries.iter().flat_map(|entry| &entry.skips);
    let skipped: HashSet<&str> = skips.map(|name| &**name).collect();
    // A channel with a skipped head is broken.
    let mut next = channel.head.as_deref();
    next = next.filter(|head| !skipped.contains(head));
    let chain = channel.entries.iter().take_while(|&entry| {
        let follows = next == Some(&*entry.name);
        next = Some(&*entry.replaces);
        follows
    });
    chain
        .filter(|entry| !skipped.contains(&*entry.name))
        .collect()
}

/// For each name the entry nearest to the head that replaces or skips it, of
/// those that may be installed.
fn named<'a>(chain: &[&'a EntryRecord<'a>]) -> HashMap<&'a str, (usize, Edge)> {
    let mut named = HashMap::new();
    let allowed = chain.iter().enumerate();
    for (place, entry) in allowed.filter(|(_, entry)| !entry.prohibited) {
        if !entry.replaces.is_empty() {
            named
                .entry(&*entry.replaces)
                .or_insert((place, Edge::Replaces));
        }
        for skip in entry.skips.iter().filter(|skip| !skip.is_empty()) {
            named.entry(skip).or_insert((place, Edge::Skips));
        }
    }
    named
}

/// The relations of an entry to the installed bundle.
fn edges(
    entry: &EntryRecord<'_>,
    version: Option<&Version>,
    installed: &Installed<'_>,
) -> Vec<Edge> {
    let mut edges = Vec::new();
    let name = installed.name;
    if !name.is_empty() && entry.replaces == name {
        edges.push(Edge::Replaces);
    }
    if !name.is_empty() && entry.skips.iter().any(|skip| skip == name) {
        edges.push(Edge::Skips);
    }
    if let Some(installed) = &installed.version {
        if Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(installed)) {
            edges.push(Edge::SkipRange);
        }
        // Builds count: they are the releases of bundles of OLM v0.
        if version.is_some_and(|v| v == installed && v.build == installed.build) {
            edges.push(Edge::Installed);
        }
    } else if !name.is_empty() && entry.name == name {
        edges.push(Edge::Installed);
    }
    edges
}

/// The sort key of candidates: deprecated ones last, higher versions first,
/// then higher releases, then names. One without a version comes last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    deprecated: bool,
    version: Reverse<Option<Version>>,
    release: Reverse<Vec<Identifier>>,
    name: String,
}

impl Order {
    fn of(entry: &EntryRecord<'_>, version: Option<Version>) -> Self {
        let identifiers = |text: &str| -> Vec<Identifier> {
            let parts = text.split('.').filter(|part| !part.is_empty());
            parts
                .map(|part| match part.parse() {
                    Ok(number) => Identifier::Number(number),
                    Err(_) => Identifier::Text(part.to_owned()),
                })
                .collect()
        };
        let release = match &version {
            Some(version) if entry.release.is_empty() => identifiers(&version.build.join(".")),
            _ => identifiers(&entry.release),
        };
        Self {
            deprecated: entry.deprecation.is_some(),
            version: Reverse(version),
            release: Reverse(release),
            name: entry.name.clone().into_owned(),
        }
    }
}

#[cfg(test)]
mod sort_channel;
#[cfg(test)]
mod tests;
