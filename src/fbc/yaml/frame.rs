//! The lists and mappings that are not complete, and what comes next in them.

/// What a node is to the collection it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The document, an item of a list or the value of an entry.
    Value,
    Key,
    /// The value of a merge key.
    Merge,
    /// An item of the list that is the value of a merge key.
    MergeItem,
}

/// A list or mapping that is not complete.
pub(super) struct Frame {
    pub(super) collection: Collection,
    pub(super) role: Role,
    /// Where its bracket is in the output.
    pub(super) start: usize,
    /// The first of its entries on the stack of entries.
    pub(super) first_entry: usize,
    pub(super) anchor: Option<usize>,
    /// How deep the nodes within are nested so far.
    pub(super) height: usize,
    /// The count of nodes before it.
    pub(super) nodes_before: u64,
}

pub(super) enum Collection {
    List,
    Mapping {
        expects: Expects,
        /// Whether something was merged in: then its text holds more than its
        /// entries.
        merged: bool,
    },
}

/// What the next node of a mapping is.
#[derive(Clone, Copy)]
pub(super) enum Expects {
    Key,
    MergeValue,
    /// The value of the key that starts here; the value starts there.
    Value {
        key: u32,
        value: u32,
    },
}
