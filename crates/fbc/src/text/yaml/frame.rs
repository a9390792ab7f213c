//! Incomplete lists and mappings, and their next nodes.

/// What a node is to the collection it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The document, an item of a list or the value of an entry.
    Value,
    Key,
    /// The value of a merge key.
    Merge,
    /// An item of the list that is the value of a merge key.
    MergeItem,
}

/// A list or mapping that is not complete.
pub(crate) struct Frame {
    pub(crate) collection: Collection,
    pub(crate) role: Role,
    /// Where its bracket is in the output.
    pub(crate) start: usize,
    /// The first of its entries on the stack of entries.
    pub(crate) first_entry: usize,
    pub(crate) anchor: Option<usize>,
    /// How deep the nodes within are nested so far.
    pub(crate) height: usize,
    /// The count of nodes before it.
    pub(crate) nodes_before: u64,
}

pub(crate) enum Collection {
    List,
    Mapping {
        expects: Expects,
        /// Whether something was merged in: then its text holds more than its
        /// entries.
        merged: bool,
    },
}

/// The next node of a mapping.
#[derive(Clone, Copy)]
pub(crate) enum Expects {
    Key,
    MergeValue,
    /// The value of the key that starts here; the value starts there.
    Value {
        key: u32,
        value: u32,
    },
}
