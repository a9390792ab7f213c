//! The rows of a package and of a bundle, and the entries of channels made from them.

use std::collections::{BTreeMap, HashMap};

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

/// The entries of channels, by package, channel and name.
///
/// A bundle has a row for each edge. The chain of replaced bundles from a head
/// to its end gives `replaces`; all other edges are `skips`. The bundles' own rows are not used: indexes that order
/// bundles by version have nothing there.
pub fn entries(rows: &[EdgeRow]) -> BTreeMap<(&str, &str), BTreeMap<&str, Edges>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&at| rows[at].id);
    let by_id: HashMap<i64, usize> = order.iter().map(|&at| (rows[at].id, at)).collect();
    let next = |at: usize| by_id.get(&rows[at].replaces?).copied();

    let head = rows.iter().filter_map(|row| row.depth).min();
    let is_head = |at: &usize| head.is_some() && rows[*at].depth == head;
    let mut on_the_way = vec![false; rows.len()];
    for start in (0..rows.len()).filter(is_head) {
        let mut at = Some(start);
        while let Some(here) = at.filter(|&here| !on_the_way[here]) {
            on_the_way[here] = true;
            at = next(here);
        }
    }

    let mut entries: BTreeMap<_, BTreeMap<&str, Edges>> = BTreeMap::new();
    for at in order {
        let (package, channel, name) = &rows[at].of;
        let channel = entries.entry((package.as_str(), channel.as_str()));
        let edges = channel.or_default().entry(name.as_str()).or_default();
        if let Some(other) = next(at) {
            let other = rows[other].of.2.clone();
            if on_the_way[at] {
                edges.replaces = edges.replaces.take().max(Some(other));
            } else {
                edges.skips.push(other);
            }
        }
    }
    entries
}
