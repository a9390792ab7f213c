//! The input of a selection, and its result.

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

/// The result of a selection.
#[derive(Debug, Default)]
pub struct Selected {
    /// The packages, sorted by name; all lines of the catalog where a single
    /// one was taken as it is.
    pub packages: Vec<SelectedPackage>,
    /// The lines that are about no package, each once, in the order of their
    /// catalogs.
    pub others: Vec<Bytes>,
    /// Notes for the author of the selection.
    pub notes: Vec<String>,
}

/// A selected package.
#[derive(Debug)]
pub struct SelectedPackage {
    /// Its name.
    pub name: String,
    /// The catalog that it comes from.
    pub catalog: String,
    /// Its lines without line ends, in the order of its catalog.
    pub lines: Vec<Bytes>,
    /// Its bundles, sorted by name.
    pub bundles: Vec<SelectedBundle>,
}

/// A selected bundle.
#[derive(Debug)]
pub struct SelectedBundle {
    /// Its name.
    pub name: String,
    /// Its version, as it was written; empty where there is none.
    pub version: String,
    /// Its line.
    pub line: Bytes,
    /// The channels that it was selected for, sorted, and why.
    pub channels: Vec<(String, Reason)>,
}

/// Why a bundle was selected for a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is the channel's head.
    Head,
    /// Its version is in the range.
    InRange,
    /// It is not in the range, but on the chain from the new head to others.
    OnTheWay,
    /// The whole channel was requested.
    Full,
    /// A bundle needs it.
    Dependency {
        /// The bundle, behind its package.
        of: String,
        /// The requirement of that bundle.
        requirement: String,
    },
}
