//! Anchored nodes, kept as the JSON they became, and how much of a document
//! may come from aliases.

use std::collections::HashMap;
use std::ops::Range;

use crate::text::yaml::object::Entry;

/// What an anchor takes in memory beside its JSON, roughly, in bytes.
const ANCHOR_SIZE: usize = 256;
/// Nodes from which on aliases are watched: of so few no harm can come.
const FEW_NODES: u64 = 1000;
/// The same for nodes that come from aliases.
const FEW_ALIASED: u64 = 100;
/// Up to so many nodes, nearly all may come from aliases.
const MANY_NODES: u64 = 400_000;
/// From so many on, one in ten may.
const MOST_NODES: u64 = 4_000_000;

/// The anchors of a document so far.
#[derive(Default)]
pub(crate) struct Anchors {
    /// The slot of the latest anchor of each name.
    names: HashMap<String, usize>,
    /// The anchors in order; empty while their nodes are not complete.
    slots: Vec<Option<Anchor>>,
    /// The JSON of all anchored nodes.
    json: Vec<u8>,
    /// The bytes of all anchored scalars as keys.
    keys: usize,
    /// The entries of all anchored mappings, with offsets into their JSON.
    entries: Vec<Entry>,
}

/// An anchored node that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Anchor {
    pub(crate) kind: AnchorKind,
    /// Where its JSON lies among all anchors' JSON.
    json: Range<usize>,
    /// How deep the lists and mappings in it are nested.
    pub(crate) height: usize,
    /// How many nodes it has, with what its own aliases stand for.
    pub(crate) nodes: u64,
}

/// The kind of an anchored node.
#[derive(Clone, Debug)]
pub(crate) enum AnchorKind {
    /// A scalar, with what it is as a key: its JSON, or why it cannot be one.
    Scalar(Result<Vec<u8>, String>),
    List,
    /// A mapping, with the place of its entries among those of all anchors.
    Mapping(Range<usize>),
}

/// The kind of a new node with an anchor, see [`AnchorKind`].
pub(crate) enum NodeKind<'a> {
    Scalar(Result<Vec<u8>, String>),
    List,
    /// The entries have offsets from where the JSON starts.
    Mapping(&'a [Entry], u32),
}

/// The anchor that an alias refers to.
pub(crate) enum Found {
    Anchor(usize),
    /// The anchored node is not complete: the alias is within it.
    Open,
    Unknown,
}

impl Anchors {
    /// Notes that a node with an anchor starts. An alias from here on means
    /// this node, even where the name had another meaning before.
    pub(crate) fn open(&mut self, name: String) -> usize {
        let slot = self.slots.len();
        self.slots.push(None);
        self.names.insert(name, slot);
        slot
    }

    /// Keeps the node that the slot was opened for.
    pub(crate) fn close(
        &mut self,
        slot: usize,
        json: &[u8],
        kind: NodeKind<'_>,
        height: usize,
        nodes: u64,
    ) {
        let start = self.json.len();
        self.json.extend_from_slice(json);
        let kind = match kind {
            NodeKind::Scalar(key) => {
                self.keys += key.as_ref().map_or_else(String::len, Vec::len);
                AnchorKind::Scalar(key)
            }
            NodeKind::List => AnchorKind::List,
            NodeKind::Mapping(entries, base) => {
                let first = self.entries.len();
                self.entries
                    .extend(entries.iter().map(|entry| entry.moved(base, 0)));
                AnchorKind::Mapping(first..self.entries.len())
            }
        };
        let anchor = Anchor {
            kind,
            json: start..self.json.len(),
            height,
            nodes,
        };
        if let Some(kept) = self.slots.get_mut(slot) {
            *kept = Some(anchor);
        }
    }

    /// The anchor that the alias `name` refers to.
    pub(crate) fn find(&self, name: &str) -> Found {
        match self.names.get(name) {
            None => Found::Unknown,
            Some(slot) if self.slots.get(*slot).is_some_and(Option::is_some) => {
                Found::Anchor(*slot)
            }
            Some(_) => Found::Open,
        }
    }

    /// The anchor of a slot that [`find`](Self::find) gave.
    pub(crate) fn get(&self, slot: usize) -> Option<&Anchor> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn json(&self, anchor: &Anchor) -> &[u8] {
        self.json.get(anchor.json.clone()).unwrap_or_default()
    }

    /// The entries of an anchored mapping, with offsets into its JSON.
    pub(crate) fn entries(&self, range: &Range<usize>) -> &[Entry] {
        self.entries.get(range.clone()).unwrap_or_default()
    }

    /// The bytes that are kept, roughly.
    pub(crate) fn size(&self) -> usize {
        self.json.len()
            + self.keys
            + self.slots.len() * ANCHOR_SIZE
            + self.entries.len() * size_of::<Entry>()
    }
}

/// How many nodes were read, and how many of them through aliases: goyaml's
/// measure of a document that only wants to be large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeCount {
    all: u64,
    aliased: u64,
}

impl NodeCount {
    /// The count at the start of a document, which counts as a node.
    pub(crate) fn new() -> Self {
        Self { all: 1, aliased: 0 }
    }

    /// All nodes so far.
    pub(crate) fn all(self) -> u64 {
        self.all
    }

    /// Counts a node and `aliased` more that it stands for.
    pub(crate) fn add(&mut self, aliased: u64) {
        self.all = self.all.saturating_add(1).saturating_add(aliased);
        self.aliased = self.aliased.saturating_add(aliased);
    }

    /// Whether too much of the document came from aliases so far.
    pub(crate) fn is_excessive(self) -> bool {
        self.aliased > FEW_ALIASED
            && self.all > FEW_NODES
            && self.aliased as f64 / self.all as f64 > allowed_share(self.all)
    }
}

/// The share of `nodes` that may come from aliases: 99 % of a document of up
/// to 400,000 nodes, falling evenly to 10 % at 4,000,000.
fn allowed_share(nodes: u64) -> f64 {
    let range = (MOST_NODES - MANY_NODES) as f64;
    let above = nodes.clamp(MANY_NODES, MOST_NODES) - MANY_NODES;
    0.99 - 0.89 * (above as f64 / range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_aliases_shrinks_with_the_document() {
        let share = |nodes| format!("{:.3}", allowed_share(nodes));
        assert_eq!(share(10), "0.990");
        assert_eq!(share(400_000), "0.990");
        assert_eq!(share(2_200_000), "0.545");
        assert_eq!(share(4_000_000), "0.100");
        assert_eq!(share(u64::MAX), "0.100");
    }

    #[test]
    fn few_aliases_are_never_excessive() {
        let mut count = NodeCount::new();
        count.add(100);
        assert!(!count.is_excessive());
        count.add(10_000);
        assert!(count.is_excessive());
        for _ in 0..200 {
            count.add(0);
        }
        assert!(!count.is_excessive());
    }
}
