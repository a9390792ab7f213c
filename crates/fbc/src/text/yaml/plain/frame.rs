//! A collection that is being read.

/// A collection that is being read.
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// The column of its keys or dashes.
    pub(crate) column: usize,
    /// Whether a dash or key came whose node did not.
    pub(crate) awaiting: bool,
    /// Where its bracket is in the output.
    pub(crate) start: usize,
    /// The first of its entries on the stack of entries.
    pub(crate) first_entry: usize,
    /// The key whose value is awaited starts here, the value there.
    pub(crate) key: u32,
    pub(crate) value: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    /// A list at the column of the key it belongs to.
    ListInMapping,
    Mapping,
}
