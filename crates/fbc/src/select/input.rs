//! The input of a selection.

use std::collections::BTreeSet;

use bytes::Bytes;

/// A catalog, as its lines.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Its name in messages.
    pub name: String,
    /// Its lines in catalog order.
    pub lines: Vec<Line>,
    /// The packages with errors. Nothing is selected from them.
    pub quarantined: BTreeSet<String>,
}

/// A canonical line, and the values that identify it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The schema.
    pub schema: Box<str>,
    /// The package, or empty.
    pub package: Box<str>,
    /// The name, or empty.
    pub name: Box<str>,
    /// The line, without its line end.
    pub json: Bytes,
}
