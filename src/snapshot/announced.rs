//! The digests that a cluster announces for its catalogs. Where it announces one,
//! clients over HTTP get exactly that digest or none: they keep content under the
//! announced reference and never ask again.

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use ::images::digest::Digest;

/// Knows what a cluster announces for its catalogs.
pub trait Announcements: Send + Sync {
    /// The announcement for a catalog now. The answer is at least as new as the
    /// call, unless the cluster cannot be asked.
    fn announced<'a>(&'a self, catalog: &'a str) -> BoxFuture<'a, Announced>;
}

/// The announcement of a cluster for a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The cluster does not know the catalog.
    Unknown,
    /// No content: the catalog is not resolved yet, or set unavailable.
    Nothing,
    /// The content at this digest.
    Digest {
        /// The digest.
        digest: Digest,
        /// When it was first seen: it was announced before.
        since: Instant,
    },
}

/// The party that announces the digests of a catalog in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnouncedBy {
    /// None: the configuration names the catalog.
    #[default]
    Nobody,
    /// Another program: clients over HTTP get the announced digest only.
    Another,
    /// This almanac: clients also get what it is about to announce.
    Almanac,
}
