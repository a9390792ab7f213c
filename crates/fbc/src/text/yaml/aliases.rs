//! The builder's functions for anchored nodes: it keeps them, and writes them again
//! for each alias.

use crate::text::yaml::anchors::{Anchor, AnchorKind};
use crate::text::yaml::builder::{Builder, Collection, Frame, Role, WANT_MAPPING, no_key};
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
            Collection::List => AnchorKind::List,
            Collection::Mapping { .. } => {
                let own = self.entries.get(frame.first_entry..).unwrap_or_default();
                AnchorKind::Mapping(self.anchors.keep_entries(own, offset(frame.start)))
            }
        };
        let json = self.out.get(self.base + frame.start..).unwrap_or_default();
        let nodes = self.nodes.all() - frame.nodes_before + uncounted;
        self.anchors.close(slot, json, kind, height, nodes);
        Ok(())
    }

    /// Writes the node that an alias refers to.
    pub(crate) fn alias(&mut self, name: &str) -> Result<(), String> {
        let anchor = self.anchors.find(name)?;
        let role = self.place();
        self.count(anchor.nodes)?;
        self.charge(self.anchors.json(&anchor).len())?;
        if self.frames.len() + anchor.height > self.depth {
            return Err(self.too_deep());
        }
        if role == Role::Key {
            let key = self.start_key();
            match &anchor.kind {
                AnchorKind::Scalar(Ok(text)) => self.out.extend_from_slice(text),
                AnchorKind::Scalar(Err(message)) => return Err(message.clone()),
                _ => return Err(no_key()),
            }
            self.end_key(key);
        } else {
            self.copy_value(&anchor, role)?;
            self.finish_node(anchor.height);
        }
        Ok(())
    }

    /// Writes an anchored node again. If it is merged, the mapping gets its entries.
    fn copy_value(&mut self, anchor: &Anchor, role: Role) -> Result<(), String> {
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
