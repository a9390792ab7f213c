//! The builder's work on anchored nodes: keep them, and write them again
//! where an alias names them.

use crate::text::yaml::anchors::{AnchorKind, Found, NodeKind};
use crate::text::yaml::builder::{Builder, WANT_MAPPING, no_key};
use crate::text::yaml::frame::{Collection, Frame, Role};
use crate::text::yaml::object::offset;

impl Builder<'_> {
    /// Keeps a complete list or mapping that has an anchor.
    pub(crate) fn close(
        &mut self,
        slot: usize,
        frame: &Frame,
        height: usize,
    ) -> Result<(), String> {
        let length = self.out.len() - self.base - frame.start;
        self.charge(length)?;
        let uncounted =
            u64::from(frame.role == Role::Merge && matches!(frame.collection, Collection::List));
        let kind = match frame.collection {
            Collection::List => NodeKind::List,
            Collection::Mapping { .. } => {
                let own = self.entries.get(frame.first_entry..).unwrap_or_default();
                NodeKind::Mapping(own, offset(frame.start))
            }
        };
        let json = self.out.get(self.base + frame.start..).unwrap_or_default();
        let nodes = self.nodes.all() - frame.nodes_before + uncounted;
        self.anchors.close(slot, json, kind, height, nodes);
        Ok(())
    }

    /// Puts the node that an alias stands for in its place.
    pub(crate) fn alias(&mut self, name: &str) -> Result<(), String> {
        let slot = match self.anchors.find(name) {
            Found::Anchor(slot) => slot,
            Found::Open => return Err(format!("the anchor &{name} contains itself")),
            Found::Unknown => {
                return Err(format!(
                    "there is no anchor &{name} before the alias *{name}"
                ));
            }
        };
        let Some(anchor) = self.anchors.get(slot) else {
            return Ok(());
        };
        let (height, nodes, length) =
            (anchor.height, anchor.nodes, self.anchors.json(anchor).len());
        let role = self.place();
        self.count(nodes)?;
        self.charge(length)?;
        if self.frames.len() + height > self.depth {
            return Err(self.too_deep());
        }
        if role == Role::Key {
            let key = self.start_key();
            self.copy_key(slot)?;
            self.end_key(key);
        } else {
            self.copy_value(slot, role)?;
            self.finish_node(height);
        }
        Ok(())
    }

    /// Writes an anchored node again as a key.
    fn copy_key(&mut self, slot: usize) -> Result<(), String> {
        match self.anchors.get(slot).map(|anchor| &anchor.kind) {
            Some(AnchorKind::Scalar(Ok(key))) => self.out.extend_from_slice(key),
            Some(AnchorKind::Scalar(Err(message))) => return Err(message.clone()),
            _ => return Err(no_key()),
        }
        Ok(())
    }

    /// Writes an anchored node again. Merged, its entries become those of the
    /// mapping that it is merged into.
    fn copy_value(&mut self, slot: usize, role: Role) -> Result<(), String> {
        let Some(anchor) = self.anchors.get(slot) else {
            return Ok(());
        };
        if role != Role::Value {
            let AnchorKind::Mapping(range) = &anchor.kind else {
                return Err(WANT_MAPPING.to_owned());
            };
            let start = offset(self.out.len() - self.base);
            let entries = self.anchors.entries(range);
            self.entries
                .extend(entries.iter().map(|entry| entry.moved(0, start)));
        }
        self.out.extend_from_slice(self.anchors.json(anchor));
        Ok(())
    }
}
