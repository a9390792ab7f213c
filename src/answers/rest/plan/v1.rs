//! Plans by the rules of OLM v1: any edge of any channel.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::answers::rest::plan::moves::{Found, MAX_STEPS, Move, installed_as, versions_of};
use crate::answers::rest::plan::shortest::shortest as shortest_of;
use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Edge, Installed};
use fbc::text::semver::{Range, RangeIndex, Version};

/// The edges of all channels.
struct Edges<'a> {
    channels: &'a [ChannelRecord<'a>],
    versions: Vec<Vec<Option<Version>>>,
    by_name: HashMap<&'a str, Vec<Move>>,
    ranges: Vec<(Move, Range)>,
}

impl<'a> Edges<'a> {
    fn of(channels: &'a [ChannelRecord<'a>]) -> Self {
        let mut by_name: HashMap<&'a str, Vec<Move>> = HashMap::new();
        let mut ranges = Vec::new();
        for (channel, record) in channels.iter().enumerate() {
            for (entry, one) in record.entries.iter().enumerate() {
                let to = |edge| Move {
                    channel,
                    entry,
                    edge,
                };
                if !one.replaces.is_empty() {
                    let edges = by_name.entry(&one.replaces).or_default();
                    edges.push(to(Edge::Replaces));
                }
                for skip in &one.skips {
                    by_name.entry(skip).or_default().push(to(Edge::Skips));
                }
                if let Ok(range) = Range::parse(&one.skip_range) {
                    ranges.push((to(Edge::SkipRange), range));
                }
            }
        }
        Self {
            channels,
            versions: channels.iter().map(versions_of).collect(),
            by_name,
            ranges,
        }
    }

    fn entry(&self, step: &Move) -> &'a EntryRecord<'a> {
        &self.channels[step.channel].entries[step.entry]
    }

    fn version(&self, step: &Move) -> Option<&Version> {
        self.versions[step.channel][step.entry].as_ref()
    }

    /// The updates that name a bundle.
    fn named(&self, current: &Installed<'_>) -> impl Iterator<Item = Move> {
        let named = self.by_name.get(current.name).into_iter().flatten();
        named.filter(|_| !current.name.is_empty()).copied()
    }
}

/// The ranges of entries of one kind, the highest version first.
struct BestFirst {
    moves: Vec<Move>,
    index: RangeIndex,
}

impl BestFirst {
    /// Those of entries that are deprecated, or of those that are not.
    fn of(edges: &Edges<'_>, deprecated: bool) -> Self {
        let is_meant = |step: &Move| edges.entry(step).deprecation.is_some() == deprecated;
        let ranges = edges.ranges.iter().enumerate();
        let mut ranges: Vec<_> = ranges.filter(|(_, (step, _))| is_meant(step)).collect();
        ranges.sort_by_key(|(at, (step, _))| (Reverse(edges.version(step)), Reverse(*at)));
        let (moves, ranges): (Vec<Move>, Vec<Range>) =
            ranges.into_iter().map(|(_, one)| one.clone()).unzip();
        Self {
            moves,
            index: RangeIndex::new(&ranges),
        }
    }

    fn best(&self, version: &Version) -> Option<Move> {
        self.moves.get(self.index.first(version)?).copied()
    }
}

/// The way by the best successors, until there is none.
pub(super) fn to_best<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
) -> (Vec<Move>, bool) {
    let edges = Edges::of(channels);
    let ranges = [true, false].map(|deprecated| BestFirst::of(&edges, deprecated));
    let mut current = installed.clone();
    let mut moves: Vec<Move> = Vec::new();
    while moves.len() < MAX_STEPS {
        let version = current.version.as_ref();
        let in_range = ranges.iter().filter_map(|ranges| ranges.best(version?));
        let rank = |step: &Move| (edges.entry(step).deprecation.is_none(), edges.version(step));
        let next = edges.named(&current).chain(in_range);
        let next = next.filter(|step| edges.entry(step).name != current.name);
        // The installed version stays possible: OLM v1 does not leave it for a lower one.
        let higher = next.filter(|step| version.is_none() || edges.version(step) > version);
        let Some(step) = higher.max_by(|one, other| rank(one).cmp(&rank(other))) else {
            break;
        };
        current = installed_as(edges.entry(&step));
        moves.push(step);
    }
    let is_head = |channel: &ChannelRecord<'_>| channel.head.as_deref() == Some(current.name);
    let reached = channels.iter().any(is_head);
    (moves, reached)
}

/// The shortest way to a bundle.
pub(super) fn shortest<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: &str,
) -> Found {
    let edges = Edges::of(channels);
    let (moves, ranges): (Vec<Move>, Vec<Range>) = edges.ranges.iter().cloned().unzip();
    let mut index = RangeIndex::new(&ranges);
    shortest_of(channels, installed, to, |_, current| {
        let version = current.version.as_ref();
        // An entry that was reached need not be found again.
        let in_range = version.map(|version| index.take(version));
        let in_range = in_range.unwrap_or_default().into_iter();
        let in_range = in_range.map(|at| moves[at]);
        edges.named(current).chain(in_range).collect()
    })
}
