//! The shortest way to a bundle, by breadth.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::answers::rest::plan::moves::{Found, MAX_STEPS, Move, installed_as};
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::Installed;

/// The most bundles that a search visits.
const MAX_BUNDLES: usize = MAX_STEPS * 100;

/// The shortest way. `neighbours` has the updates of a bundle that was reached in a
/// channel, those that come first in order; which bundles they lead to must not depend
/// on the channel. So it is asked once for each bundle.
pub(super) fn shortest<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: &str,
    mut neighbours: impl FnMut(usize, &Installed<'a>) -> Vec<Move>,
) -> Found {
    if installed.name == to {
        return Some((Vec::new(), true));
    }
    let mut before: HashMap<&str, (&str, Move)> = HashMap::new();
    let mut known: HashSet<&str> = HashSet::from([installed.name]);
    let mut queue = VecDeque::from([(0, installed.clone())]);
    while let Some((channel, current)) = queue.pop_front() {
        for step in neighbours(channel, &current) {
            let entry = &channels[step.channel].entries[step.entry];
            if !known.insert(&entry.name) {
                continue;
            }
            before.insert(&entry.name, (current.name, step));
            if entry.name == to {
                let mut moves = Vec::new();
                let mut at = to;
                while let Some((earlier, step)) = before.get(at) {
                    moves.push(*step);
                    at = earlier;
                }
                moves.reverse();
                return Some((moves, true));
            }
            if known.len() < MAX_BUNDLES {
                queue.push_back((step.channel, installed_as(entry)));
            }
        }
    }
    None
}
