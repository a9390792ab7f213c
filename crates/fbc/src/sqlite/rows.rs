//! The rows of a package and of a bundle.

use std::collections::BTreeMap;

/// A package's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyPackage {
    /// Its name.
    pub name: String,
    /// Its default channel; empty when it has none.
    pub default_channel: String,
    /// Its channels by name, each with its entries.
    pub channels: BTreeMap<String, Vec<LegacyEntry>>,
}

/// An entry of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyEntry {
    /// The bundle's name.
    pub name: String,
    /// The entries that it replaces and skips in this channel.
    pub edges: Edges,
    /// The versions that it skips; empty when it skips none.
    pub skip_range: String,
}

/// The entries that the entry of a bundle replaces and skips in one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// The bundles that it skips.
    pub skips: Vec<String>,
}

/// A row of the table of entries. A bundle has one for each edge in a channel.
#[derive(Clone, Debug)]
pub struct EdgeRow {
    /// Its key.
    pub id: i64,
    /// The package, the channel and the bundle.
    pub of: (String, String, String),
    /// The key of the row that is replaced or skipped.
    pub replaces: Option<i64>,
    /// Its distance from the head of its channel.
    pub depth: Option<i64>,
}

/// A bundle's rows.
#[derive(Clone, Debug, Default)]
pub struct LegacyBundle<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its package.
    pub package: &'a str,
    /// Its image; empty when it has none.
    pub image: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its manifests: JSON objects one after the other.
    pub manifests: &'a str,
    /// Types and values, as JSON.
    pub properties: &'a [(String, String)],
    /// Types and values of its dependencies.
    pub dependencies: &'a [(String, String)],
    /// Images that belong to it.
    pub related_images: &'a [String],
}
