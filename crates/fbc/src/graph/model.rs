//! The graph: packages, their channels, and the entries of those.

use std::collections::BTreeMap;

/// The packages of a catalog that have no errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The packages without errors, sorted by name.
    pub packages: Vec<Package>,
    /// The names of the packages left out for their errors, sorted. Some may
    /// only be named by blobs and have no `olm.package`.
    pub quarantined: Vec<String>,
}

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name, a DNS label.
    pub name: String,
    /// Which meta of the catalog its `olm.package` blob is.
    pub meta: u32,
    /// Its `olm.package` blob, as an index in [`Blobs::packages`](crate::document::Blobs::packages).
    pub blob: usize,
    /// Its default channel, as an index in `channels`.
    pub default_channel: usize,
    /// Its channels (one at least), sorted by name.
    pub channels: Vec<Channel>,
    /// Why it is deprecated, when it is.
    pub deprecation: Option<String>,
    /// Why bundles of it are deprecated, by their index in
    /// [`Blobs::bundles`](crate::document::Blobs::bundles).
    pub deprecated_bundles: BTreeMap<usize, String>,
}

/// A channel of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The entry that nothing replaces or skips, as an index in `entries`.
    pub head: usize,
    /// Its entries (one at least), sorted by name.
    pub entries: Vec<Entry>,
    /// Why it is deprecated, when it is.
    pub deprecation: Option<String>,
}

/// An entry of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is its bundle's.
    pub name: String,
    /// Its bundle, as an index in
    /// [`Blobs::bundles`](crate::document::Blobs::bundles).
    pub bundle: usize,
    /// The entry it replaces, which the channel may lack, or empty.
    pub replaces: String,
    /// The entries it skips, in the blob's order. The channel may lack them.
    pub skips: Vec<String>,
    /// The range of versions it skips, or empty.
    pub skip_range: String,
}
