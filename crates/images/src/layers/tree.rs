//! The image's tree, as far as it matters.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::layers::error::{Exceeded, LayerRejection};
use crate::layers::limits::Limits;
use crate::layers::path::{ancestors, is_within, shown_key};

/// All names together may have this many bytes.
const MAX_NAMES: usize = 64 << 20;

/// What all layers so far made of the places that matter, by key.
#[derive(Debug, Default)]
pub(super) struct ImageTree {
    nodes: BTreeMap<String, Node>,
    /// How many nodes were ever made, and the bytes of their names: what is
    /// hidden again counts too, so that no order of entries gets around it.
    made: u64,
    names: usize,
    /// Symlinks of lower layers that the current one has something below, and
    /// the first of that, by key: a whiteout of the link may still come.
    through: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// The highest layer that has it, or something below it.
    pub(super) layer: usize,
    /// The layer that last hid what lower layers have below it.
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
    /// The target as the archive has it.
    Symlink(String),
    /// A file whose contents nobody wants, where a folder would matter.
    Elsewhere,
}

/// Why an entry does not become part of the tree.
#[derive(Debug)]
pub(super) enum InsertError {
    Refused(LayerRejection),
    Exceeded(Exceeded),
}

impl ImageTree {
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// `folder` itself and everything below it, in the order of a walk: one
    /// range, as nothing else sorts between them.
    pub(super) fn within(&self, folder: &str) -> impl Iterator<Item = (&str, &Node)> {
        within(&self.nodes, folder)
    }

    /// Puts what layer `layer` has at `key`. A folder over a folder merges;
    /// everything else replaces what was there, and what was below it.
    /// Missing folders above it are made, for the time being also where a
    /// lower layer has a symlink (see [`Self::end_layer`]).
    pub(super) fn insert(
        &mut self,
        key: &str,
        kind: NodeKind,
        layer: usize,
        limits: &Limits,
    ) -> Result<(), InsertError> {
        for folder in ancestors(key) {
            if let Some(Node {
                kind: NodeKind::Symlink(_),
                layer: of,
                ..
            }) = self.get(folder)
            {
                if *of == layer {
                    return Err(InsertError::Refused(through(folder)));
                }
                self.through.insert(folder.to_owned(), key.to_owned());
            }
            self.put(folder, NodeKind::Folder, layer, limits)?;
        }
        self.put(key, kind, layer, limits)
    }

    /// Hides what layers below `layer` have at `key` and below it, without
    /// `key` itself when it is only emptied. Where in the layer the whiteout
    /// stands does not matter: what the layer itself has stays.
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
        // Once is enough, however often the layer says it.
        if node.hidden_by.replace(layer) != Some(layer) {
            let key = key.to_owned();
            self.remove(&key, |(below, node)| below != key && node.layer < layer);
        }
    }

    /// Ends a layer. When it has something below a symlink that none of its
    /// whiteouts hides, that is refused, and told with its path.
    pub(super) fn end_layer(&mut self) -> Result<(), (String, LayerRejection)> {
        match self.through.pop_first() {
            Some((link, below)) => Err((shown_key(&below), through(&link))),
            None => Ok(()),
        }
    }

    fn put(
        &mut self,
        key: &str,
        kind: NodeKind,
        layer: usize,
        limits: &Limits,
    ) -> Result<(), InsertError> {
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
        if self.made > limits.files {
            return Err(InsertError::Exceeded(Exceeded::Files(limits.files)));
        }
        if self.names > MAX_NAMES {
            return Err(InsertError::Exceeded(Exceeded::Names(MAX_NAMES)));
        }
        let node = Node {
            kind,
            layer,
            hidden_by: None,
        };
        self.nodes.insert(key.to_owned(), node);
        Ok(())
    }

    /// Takes out what is at `key` and below it, where `gone` says so.
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
