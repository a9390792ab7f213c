//! The relevant part of the image's tree.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::layers::error::{EntryError, Exceeded, LayerRejection};
use crate::layers::path::{ancestors, is_within, shown_key};

/// The most bytes of all names together.
const MAX_NAMES: usize = 64 << 20;

/// The nodes of all layers so far, by key.
#[derive(Debug, Default)]
pub(super) struct ImageTree {
    nodes: BTreeMap<String, Node>,
    max_nodes: u64,
    /// The number of nodes ever made, and the bytes of their names. Hidden nodes
    /// count as well, so that no order of entries evades the limits.
    made: u64,
    names: usize,
    /// Symlinks of lower layers with entries of the current layer below them,
    /// and the first of these. A whiteout of the link can still follow.
    through: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// The highest layer with it, or with something below it.
    pub(super) layer: usize,
    /// The last layer that hid the nodes of lower layers below it.
    hidden_by: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Folder,
    /// Contents in the spool file.
    File {
        offset: u64,
        size: u64,
    },
    /// The target, as written in the archive.
    Symlink(String),
    /// A file without kept contents, in place of a parent of the folder.
    Elsewhere,
}

impl ImageTree {
    /// An empty tree, of at most this many nodes.
    pub(super) fn new(max_nodes: u64) -> Self {
        Self {
            max_nodes,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// `folder` and everything below it, in the order of a walk.
    pub(super) fn within(&self, folder: &str) -> impl Iterator<Item = (&str, &Node)> {
        within(&self.nodes, folder)
    }

    /// Adds an entry of the layer `layer` at `key`. A folder merges with a
    /// folder; everything else replaces the node and everything below it.
    /// Missing parents are added, until the end of the layer also in place of a
    /// symlink of a lower layer (see [`Self::end_layer`]).
    pub(super) fn insert(
        &mut self,
        key: &str,
        kind: NodeKind,
        layer: usize,
    ) -> Result<(), EntryError> {
        for folder in ancestors(key) {
            if let Some(Node {
                kind: NodeKind::Symlink(_),
                layer: of,
                ..
            }) = self.get(folder)
            {
                if *of == layer {
                    return Err(EntryError::Rejected(through(folder)));
                }
                self.through.insert(folder.to_owned(), key.to_owned());
            }
            self.put(folder, NodeKind::Folder, layer)?;
        }
        self.put(key, kind, layer)
    }

    /// Hides the nodes of layers below `layer` at and below `key`; only below it
    /// unless `itself` is set. Nodes of the layer itself stay, whatever the order
    /// of its entries.
    pub(super) fn hide(&mut self, key: &str, layer: usize, itself: bool) {
        let hidden = within(&self.through, key).map(|(link, _)| link);
        let hidden = hidden.filter(|link| itself || *link != key);
        for link in hidden.map(str::to_owned).collect::<Vec<_>>() {
            self.through.remove(&link);
        }
        let Some(node) = self.nodes.get_mut(key) else {
            return;
        };
        if itself && node.layer < layer {
            self.remove(key, |_| true);
            return;
        }
        // A repeated whiteout has no further effect.
        if node.hidden_by.replace(layer) != Some(layer) {
            let key = key.to_owned();
            self.remove(&key, |(below, node)| below != key && node.layer < layer);
        }
    }

    /// Ends a layer. Rejects an entry below a symlink that no whiteout of the
    /// layer hides.
    pub(super) fn end_layer(&mut self) -> Result<(), (String, LayerRejection)> {
        match self.through.pop_first() {
            Some((link, below)) => Err((shown_key(&below), through(&link))),
            None => Ok(()),
        }
    }

    fn put(&mut self, key: &str, kind: NodeKind, layer: usize) -> Result<(), EntryError> {
        if let Some(node) = self.nodes.get_mut(key) {
            if node.kind == NodeKind::Folder && kind == NodeKind::Folder {
                node.layer = layer;
                return Ok(());
            }
            self.remove(key, |_| true);
        }
        let target = match &kind {
            NodeKind::Symlink(target) => target.len(),
            _ => 0,
        };
        self.made += 1;
        self.names += key.len() + target;
        if self.made > self.max_nodes {
            return Err(EntryError::Exceeded(Exceeded::Files(self.max_nodes)));
        }
        if self.names > MAX_NAMES {
            return Err(EntryError::Exceeded(Exceeded::Names(MAX_NAMES)));
        }
        let node = Node {
            kind,
            layer,
            hidden_by: None,
        };
        self.nodes.insert(key.to_owned(), node);
        Ok(())
    }

    /// Removes the nodes at and below `key` for which `gone` is true.
    fn remove(&mut self, key: &str, gone: impl Fn((&str, &Node)) -> bool) {
        let keys: Vec<String> = self
            .within(key)
            .filter(|(key, node)| gone((key, node)))
            .map(|(key, _)| key.to_owned())
            .collect();
        for key in keys {
            self.nodes.remove(&key);
        }
    }
}

fn within<'m, T>(
    map: &'m BTreeMap<String, T>,
    folder: &str,
) -> impl Iterator<Item = (&'m str, &'m T)> {
    map.range::<str, _>((Bound::Included(folder), Bound::Unbounded))
        .take_while(move |(key, _)| is_within(key.as_bytes(), folder.as_bytes()))
        .map(|(key, value)| (key.as_str(), value))
}

fn through(link: &str) -> LayerRejection {
    LayerRejection::ThroughSymlink {
        link: shown_key(link),
    }
}
