//! Anchored nodes, kept as JSON, and the limit on the share of a document that comes
//! from aliases.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::text::yaml::object::Entry;

/// The approximate memory of an anchor beside its JSON, in bytes.
const ANCHOR_SIZE: usize = 256;
/// Documents of at most this number of nodes are not checked for aliases: so few do
/// no harm.
const FEW_NODES: u64 = 1000;
/// The same for the nodes that come from aliases.
const FEW_ALIASED: u64 = 100;
/// Up to this number of nodes, nearly all may come from aliases.
const MANY_NODES: u64 = 400_000;
/// From this number on, one in ten may.
const MOST_NODES: u64 = 4_000_000;

/// The anchors of a document so far.
#[derive(Default)]
pub(crate) struct Anchors {
    /// The slot of the latest anchor of each name.
    names: HashMap<String, usize>,
    /// The anchors in order; empty while their nodes are not complete.
    slots: Vec<Option<Rc<Anchor>>>,
    /// The JSON of all anchored nodes.
    json: Vec<u8>,
    /// The bytes of all anchored scalars as keys.
    keys: usize,
    /// The entries of all anchored mappings, with offsets into their JSON.
    entries: Vec<Entry>,
}

/// An anchored node that is complete.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) kind: AnchorKind,
    /// The range of its JSON in that of all anchors.
    json: Range<usize>,
    /// The depth of its lists and mappings.
    pub(crate) height: usize,
    /// The number of its nodes, including those from its own aliases.
    pub(crate) nodes: u64,
}

/// The kind of an anchored node.
#[derive(Debug)]
pub(crate) enum AnchorKind {
    /// A scalar, with its form as a key: the JSON, or the reason why it is no key.
    Scalar(Result<Vec<u8>, String>),
    List,
    /// A mapping, with the range of its entries among those of all anchors.
    Mapping(Range<usize>),
}

impl Anchors {
    /// Notes that a node with an anchor starts. From now on an alias refers to this
    /// node, even if the name had another meaning before.
    pub(crate) fn open(&mut self, name: String) -> usize {
        let slot = self.slots.len();
        self.slots.push(None);
        self.names.insert(name, slot);
        slot
    }

    /// Keeps the entries of a mapping, whose offsets count from `base`, and returns
    /// their range among those of all anchors.
    pub(crate) fn keep_entries(&mut self, entries: &[Entry], base: u32) -> Range<usize> {
        let first = self.entries.len();
        self.entries
            .extend(entries.iter().map(|entry| entry.moved(base, 0)));
        first..self.entries.len()
    }

    /// Keeps the node that the slot was opened for.
    pub(crate) fn close(
        &mut self,
        slot: usize,
        json: &[u8],
        kind: AnchorKind,
        height: usize,
        nodes: u64,
    ) {
        let start = self.json.len();
        self.json.extend_from_slice(json);
        if let AnchorKind::Scalar(key) = &kind {
            self.keys += key.as_ref().map_or_else(String::len, Vec::len);
        }
        let json = start..self.json.len();
        if let Some(kept) = self.slots.get_mut(slot) {
            *kept = Some(Rc::new(Anchor {
                kind,
                json,
                height,
                nodes,
            }));
        }
    }

    /// The anchor that the alias `name` refers to. The error is a sentence.
    pub(crate) fn find(&self, name: &str) -> Result<Rc<Anchor>, String> {
        let Some(slot) = self.names.get(name) else {
            return Err(format!(
                "there is no anchor &{name} before the alias *{name}"
            ));
        };
        let anchor = self.slots.get(*slot).cloned().flatten();
        anchor.ok_or_else(|| format!("the anchor &{name} contains itself"))
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

/// The number of nodes, and the number of those from aliases: goyaml's measure of
/// excessive aliasing.
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

    /// Counts a node and `aliased` more that it refers to.
    pub(crate) fn add(&mut self, aliased: u64) {
        self.all = self.all.saturating_add(1).saturating_add(aliased);
        self.aliased = self.aliased.saturating_add(aliased);
    }

    /// Whether too much of the document so far comes from aliases.
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
