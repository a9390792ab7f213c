//! The way from an installed bundle to another, step by step, by the rules of either
//! version of Operator Lifecycle Manager.
//!
//! With a target, the shortest way counts; under OLM v0 a change of the channel is a
//! step of its own. Without one, OLM v0 goes to the head of its channel, and OLM v1 to
//! the best successor until there is none.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde::Serialize;

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Candidate, Chain, Edge, Installed, candidates};
use fbc::text::semver::{Range, Version};

/// The longest way.
const MAX_STEPS: usize = 1_000;
/// How many versions that a step passes over are listed.
const MAX_PASSED: usize = 100;

/// The rules of a version of Operator Lifecycle Manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rules {
    /// One channel, towards its head.
    #[default]
    V0,
    /// Any edge of any channel.
    V1,
}

impl Rules {
    /// The name in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0 => "v0",
            Self::V1 => "v1",
        }
    }
}

/// A way of updates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan<'a> {
    /// The rules that it follows.
    pub rules: Rules,
    /// Its steps in order.
    pub steps: Vec<PlanStep<'a>>,
    /// Whether it reaches the target; without one, a head of a channel.
    pub reached: bool,
}

/// A step of a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep<'a> {
    /// The channel that has the edge.
    pub channel: &'a str,
    /// Whether the channel has to be changed before.
    pub changes_channel: bool,
    /// The bundle before; empty when only its version is known.
    pub from: &'a str,
    /// The bundle after.
    pub to: &'a str,
    /// Its version, as it was written.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// The edge.
    pub edge: Edge,
    /// The entries of the channel between both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<Passed<'a>>,
    /// The reason of the deprecation of the bundle after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
}

/// A version that a step passes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passed<'a> {
    /// Its bundle.
    pub name: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// How the bundle after names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<Edge>,
}

/// The way from an installed bundle. `to` is the name of a bundle. Under OLM v0, the
/// first of `channels` is that of the subscription.
pub fn plan<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: Option<&str>,
    rules: Rules,
) -> Plan<'a> {
    let found = match (rules, to) {
        (Rules::V0, None) => to_head(channels, installed),
        (Rules::V1, None) => Some(to_best(channels, installed)),
        (Rules::V0, Some(to)) => shortest(channels, installed, to, v0_neighbours),
        (Rules::V1, Some(to)) => shortest(channels, installed, to, v1_neighbours),
    };
    let (moves, reached) = match found {
        Some((moves, reached)) => (moves, reached),
        None => (Vec::new(), false),
    };
    let mut steps = Vec::with_capacity(moves.len());
    let mut before = installed.clone();
    let mut channel = match rules {
        Rules::V0 => 0,
        Rules::V1 => usize::MAX,
    };
    for step in moves {
        let entry = &channels[step.channel].entries[step.entry];
        steps.push(PlanStep {
            channel: &channels[step.channel].name,
            changes_channel: rules == Rules::V0 && step.channel != channel,
            from: before.name,
            to: &entry.name,
            version: &entry.version,
            edge: step.edge,
            passed_over: passed_over(&channels[step.channel], &before, entry),
            deprecation: entry.deprecation.as_deref(),
        });
        channel = step.channel;
        before = installed_as(entry);
    }
    Plan {
        rules,
        steps,
        reached,
    }
}

/// An update, by the numbers of the channel and of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    channel: usize,
    entry: usize,
    edge: Edge,
}

type Found = Option<(Vec<Move>, bool)>;

fn installed_as<'a>(entry: &'a EntryRecord<'a>) -> Installed<'a> {
    Installed {
        name: &entry.name,
        version: Version::parse(&entry.version).ok(),
    }
}

/// The numbers of entries by their names. Of entries with one name the first counts.
fn numbers<'a>(channel: &'a ChannelRecord<'a>) -> HashMap<&'a str, usize> {
    let entries = channel.entries.iter().enumerate().rev();
    entries.map(|(at, entry)| (&*entry.name, at)).collect()
}

fn to_head<'a>(channels: &'a [ChannelRecord<'a>], installed: &Installed<'a>) -> Found {
    let channel = channels.first()?;
    let chain = Chain::of(channel);
    let numbers = numbers(channel);
    let mut at = chain.place(installed.name);
    let mut current = installed.clone();
    let mut moves = Vec::new();
    while at != Some(0) && moves.len() < MAX_STEPS {
        let Some((place, edge)) = chain.next(&current, at) else {
            break;
        };
        let entry = chain.entries[place];
        moves.push(Move {
            channel: 0,
            entry: *numbers.get(&*entry.name)?,
            edge,
        });
        (at, current) = (Some(place), installed_as(entry));
    }
    Some((moves, at == Some(0)))
}

fn to_best<'a>(channels: &'a [ChannelRecord<'a>], installed: &Installed<'a>) -> (Vec<Move>, bool) {
    let graph = Successors::of(channels);
    let mut current = installed.clone();
    let mut moves: Vec<Move> = Vec::new();
    while moves.len() < MAX_STEPS {
        let next = graph.of_bundle(&current);
        let rank = |step: &Move| {
            let entry = &channels[step.channel].entries[step.entry];
            (
                entry.deprecation.is_none(),
                graph.versions[step.channel][step.entry].as_ref(),
            )
        };
        let current_version = current.version.as_ref();
        // The installed version stays possible: OLM v1 does not leave it for a lower one.
        let higher = next.into_iter().filter(|step| {
            let version = graph.versions[step.channel][step.entry].as_ref();
            current_version.is_none() || version > current_version
        });
        let Some(step) = higher.max_by(|one, other| rank(one).cmp(&rank(other))) else {
            break;
        };
        current = installed_as(&channels[step.channel].entries[step.entry]);
        moves.push(step);
    }
    let is_head = |channel: &ChannelRecord<'_>| channel.head.as_deref() == Some(current.name);
    let reached = channels.iter().any(is_head);
    (moves, reached)
}

/// A bundle on the way: its channel (of the subscription) and its place.
type Node = (usize, String);

/// The shortest way to a bundle, by breadth.
fn shortest<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: &str,
    neighbours: fn(&Successors<'a>, usize, &Installed<'a>) -> Vec<Move>,
) -> Found {
    if installed.name == to {
        return Some((Vec::new(), true));
    }
    let graph = Successors::of(channels);
    let start: Node = (0, installed.name.to_owned());
    let mut before: BTreeMap<Node, (Node, Move)> = BTreeMap::new();
    let mut queue = VecDeque::from([(start.clone(), installed.clone())]);
    while let Some((node, current)) = queue.pop_front() {
        for step in neighbours(&graph, node.0, &current) {
            let entry = &channels[step.channel].entries[step.entry];
            let next: Node = (step.channel, entry.name.clone().into_owned());
            if next == start || before.contains_key(&next) {
                continue;
            }
            before.insert(next.clone(), (node.clone(), step));
            if entry.name == to {
                let mut moves = Vec::new();
                let mut at = &next;
                while let Some((earlier, step)) = before.get(at) {
                    moves.push(*step);
                    at = earlier;
                }
                moves.reverse();
                return Some((moves, true));
            }
            if before.len() < MAX_STEPS * 100 {
                queue.push_back((next, installed_as(entry)));
            }
        }
    }
    None
}

/// The step in the same channel comes first, then those after a change of the channel.
fn v0_neighbours<'a>(graph: &Successors<'a>, channel: usize, current: &Installed<'a>) -> Vec<Move> {
    let others = (0..graph.channels.len()).filter(|other| *other != channel);
    let in_order = std::iter::once(channel).chain(others);
    let steps = in_order.filter_map(|channel| {
        let chain = &graph.chains[channel];
        let (place, edge) = chain.next(current, chain.place(current.name))?;
        let name = &*chain.entries[place].name;
        Some(Move {
            channel,
            entry: *graph.numbers[channel].get(name)?,
            edge,
        })
    });
    steps.collect()
}

fn v1_neighbours<'a>(graph: &Successors<'a>, _: usize, current: &Installed<'a>) -> Vec<Move> {
    let mut steps = graph.of_bundle(current);
    // One channel of several with the same edge is enough, and it decides no rule.
    let mut seen = HashSet::new();
    steps.retain(|step| {
        let name = &*graph.channels[step.channel].entries[step.entry].name;
        seen.insert(name)
    });
    steps
}

/// The entries that may follow a bundle, found without reading every range again.
struct Successors<'a> {
    channels: &'a [ChannelRecord<'a>],
    chains: Vec<Chain<'a>>,
    versions: Vec<Vec<Option<Version>>>,
    /// The number of each entry in its channel.
    numbers: Vec<HashMap<&'a str, usize>>,
    by_name: HashMap<&'a str, Vec<Move>>,
    ranges: Vec<(Range, Move)>,
}

impl<'a> Successors<'a> {
    fn of(channels: &'a [ChannelRecord<'a>]) -> Self {
        let mut by_name: HashMap<&'a str, Vec<Move>> = HashMap::new();
        let mut ranges = Vec::new();
        let mut versions = Vec::with_capacity(channels.len());
        for (channel, record) in channels.iter().enumerate() {
            for (entry, one) in record.entries.iter().enumerate() {
                let to = |edge| Move {
                    channel,
                    entry,
                    edge,
                };
                if !one.replaces.is_empty() {
                    by_name
                        .entry(&one.replaces)
                        .or_default()
                        .push(to(Edge::Replaces));
                }
                for skip in &one.skips {
                    by_name.entry(skip).or_default().push(to(Edge::Skips));
                }
                if let Ok(range) = Range::parse(&one.skip_range) {
                    ranges.push((range, to(Edge::SkipRange)));
                }
            }
            let parsed = record.entries.iter();
            versions.push(
                parsed
                    .map(|one| Version::parse(&one.version).ok())
                    .collect(),
            );
        }
        Self {
            channels,
            chains: channels.iter().map(Chain::of).collect(),
            versions,
            numbers: channels.iter().map(numbers).collect(),
            by_name,
            ranges,
        }
    }

    /// The entries with an edge from a bundle, itself excluded.
    fn of_bundle(&self, current: &Installed<'_>) -> Vec<Move> {
        let named = self
            .by_name
            .get(current.name)
            .into_iter()
            .flatten()
            .copied();
        let named = named.filter(|_| !current.name.is_empty());
        let ranges = self.ranges.iter().filter(|(range, _)| {
            let version = current.version.as_ref();
            version.is_some_and(|version| range.contains(version))
        });
        let all = named.chain(ranges.map(|(_, step)| *step));
        let entry = |step: &Move| &*self.channels[step.channel].entries[step.entry].name;
        all.filter(|step| entry(step) != current.name).collect()
    }
}

/// The entries of a channel between two bundles.
fn passed_over<'a>(
    channel: &'a ChannelRecord<'a>,
    before: &Installed<'_>,
    after: &'a EntryRecord<'a>,
) -> Vec<Passed<'a>> {
    let (Some(low), Ok(high)) = (&before.version, Version::parse(&after.version)) else {
        return Vec::new();
    };
    let range = Range::parse(&after.skip_range).ok();
    let entries = channel.entries.iter().filter_map(|entry| {
        let version = Version::parse(&entry.version).ok()?;
        if version <= *low || version >= high || entry.name == before.name {
            return None;
        }
        let edge = if after.skips.contains(&entry.name) {
            Some(Edge::Skips)
        } else if after.replaces == entry.name {
            Some(Edge::Replaces)
        } else {
            let in_range = range.as_ref().is_some_and(|range| range.contains(&version));
            in_range.then_some(Edge::SkipRange)
        };
        Some(Passed {
            name: &entry.name,
            version: &entry.version,
            edge,
        })
    });
    entries.take(MAX_PASSED).collect()
}

/// The successors of a bundle by the rules of OLM v1, the best first, without itself.
pub fn successors<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'_>,
) -> Vec<Candidate<'a>> {
    let mut found = candidates(channels, Some(installed), None);
    found.retain(|one| one.edges != [Edge::Installed]);
    found
}

#[cfg(test)]
mod tests;
