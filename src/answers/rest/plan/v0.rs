//! Plans by the rules of OLM v0: along the chain of the head of one channel. OLM v0 does
//! not see a quarantined package, so no way leads through its channels.

use std::collections::HashMap;

use crate::answers::rest::plan::moves::{Found, MAX_STEPS, Move, installed_as};
use crate::answers::rest::plan::shortest::shortest as shortest_of;
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::{Chain, Installed};

/// A channel with its chain.
pub(super) struct ChannelChain<'a> {
    chain: Chain<'a>,
    /// The number of each entry. Of entries with one name the first counts.
    numbers: HashMap<&'a str, usize>,
}

impl<'a> ChannelChain<'a> {
    pub(super) fn of(channel: &'a ChannelRecord<'a>) -> Self {
        let entries = channel.entries.iter().enumerate().rev();
        Self {
            chain: Chain::of(channel),
            numbers: entries.map(|(at, entry)| (&*entry.name, at)).collect(),
        }
    }

    /// The update of a bundle in this channel, with its place in the chain. `at` is that
    /// of the bundle.
    fn next(
        &self,
        channel: usize,
        current: &Installed<'_>,
        at: Option<usize>,
    ) -> Option<(usize, Move)> {
        let (place, edge) = self.chain.next(current, at)?;
        let name = &*self.chain.entries[place].name;
        let entry = *self.numbers.get(name)?;
        Some((
            place,
            Move {
                channel,
                entry,
                edge,
            },
        ))
    }
}

/// The way to the head of the first channel.
pub(super) fn to_head<'a>(channels: &'a [ChannelRecord<'a>], installed: &Installed<'a>) -> Found {
    let channel = channels.first().filter(|channel| !channel.quarantined)?;
    let line = ChannelChain::of(channel);
    let mut at = line.chain.place(installed.name);
    let mut current = installed.clone();
    let mut moves = Vec::new();
    while at != Some(0) && moves.len() < MAX_STEPS {
        let Some((place, step)) = line.next(0, &current, at) else {
            break;
        };
        moves.push(step);
        (at, current) = (Some(place), installed_as(&channel.entries[step.entry]));
    }
    Some((moves, at == Some(0)))
}

/// The shortest way to a bundle.
pub(super) fn shortest<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: &str,
) -> Found {
    if channels.iter().any(|channel| channel.quarantined) {
        return None;
    }
    let lines: Vec<ChannelChain<'_>> = channels.iter().map(ChannelChain::of).collect();
    shortest_of(channels, installed, to, |channel, current| {
        neighbours(&lines, channel, current)
    })
}

/// The step in the same channel comes first, then those after a change of the channel.
pub(super) fn neighbours(
    lines: &[ChannelChain<'_>],
    channel: usize,
    current: &Installed<'_>,
) -> Vec<Move> {
    let others = (0..lines.len()).filter(|other| *other != channel);
    let in_order = std::iter::once(channel).chain(others);
    let steps = in_order.filter_map(|channel| {
        let line = lines.get(channel)?;
        let found = line.next(channel, current, line.chain.place(current.name));
        found.map(|(_, step)| step)
    });
    steps.collect()
}
