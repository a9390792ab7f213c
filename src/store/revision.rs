//! A revision as its row describes it.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::SystemTime;

use crate::name::CatalogName;
use crate::store::source_identity::SourceIdentity;
use ::images::digest::Digest;

/// The number of a revision. Numbers only grow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RevisionId(pub(super) i64);

/// The end of the numbers that an import accepts: far beyond any that a store
/// assigns, and with room behind it. JSON has no larger whole numbers.
const NUMBERS_END: i64 = 1 << 53;

impl RevisionId {
    /// Whether a store may have assigned this number.
    pub fn is_sound(self) -> bool {
        (1..NUMBERS_END).contains(&self.0)
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RevisionId {
    type Err = ParseIntError;
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// The size of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Blobs.
    pub metas: u64,
    /// Packages served over gRPC.
    pub packages: u64,
    /// Their channels.
    pub channels: u64,
    /// Their channels' entries.
    pub entries: u64,
    /// Their bundles.
    pub bundles: u64,
    /// Packages left out because of their errors.
    pub quarantined: u64,
}

/// One catalog at one digest.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number.
    pub id: RevisionId,
    /// The catalog.
    pub catalog: CatalogName,
    /// Its source.
    pub identity: SourceIdentity,
    /// The digest that the source was at.
    pub digest: Digest,
    /// The digest of the canonical metas.
    pub content: Digest,
    /// When this content first became a revision of the catalog; whole seconds.
    pub modified: SystemTime,
    /// When it was committed; whole seconds.
    pub committed: SystemTime,
    /// Its size.
    pub counts: Counts,
}
