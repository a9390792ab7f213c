//! A revision as its row describes it, and the identity of its source.

use std::collections::BTreeMap;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use crate::name::CatalogName;
use ::images::digest::Digest;

/// The number of a revision. Numbers only grow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RevisionId(pub(crate) i64);

/// The end of the numbers that an import accepts: far beyond any that a store
/// assigns, and with room behind it. JSON has no larger whole numbers.
const NUMBERS_END: i64 = 1 << 53;

impl RevisionId {
    /// The revision with a number, which a fleet has assigned.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> i64 {
        self.0
    }

    /// Whether a store may have assigned this number.
    pub fn is_sound(self) -> bool {
        (1..NUMBERS_END).contains(&self.0)
    }

    /// The number after this one, whether or not a revision has it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
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
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[schema(as = CatalogCounts)]
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

/// A revision as the history has it, whatever its store is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Published {
    /// The source as it was configured.
    pub source: String,
    /// The digest that the source was at.
    pub digest: Digest,
    /// The digest of its content.
    pub content: Digest,
    /// When it was committed, in seconds since 1970.
    pub committed: i64,
    /// Its size; metas are not counted.
    pub counts: Counts,
}

/// The name of a revision's outline. Equal content may come from files with other problems, so
/// it is of the source, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutlineName {
    /// The digest of the content.
    pub content: Digest,
    /// The digest that the source was at.
    pub source: Digest,
}

impl fmt::Display for OutlineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.content, self.source)
    }
}

impl Published {
    /// The name of its outline.
    pub fn outline(&self) -> OutlineName {
        OutlineName {
            content: self.content,
            source: self.digest,
        }
    }
}

/// A revision of before in the history of another store.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PastRevision {
    /// Its number.
    pub id: RevisionId,
    /// What it was.
    #[serde(flatten)]
    pub published: Published,
}

/// Length and sum that a file of a revision must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileSum {
    /// Its length in bytes.
    pub length: u64,
    /// CRC-32 of each MiB.
    pub blocks: Vec<u32>,
}

impl FileSum {
    /// The damage of a file with another length.
    pub(crate) fn other_length(&self, length: u64) -> String {
        format!("it has {length} bytes instead of {}", self.length)
    }
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
    /// The sums of its files, by their names. Empty when a version without sums
    /// wrote it.
    pub files: Arc<BTreeMap<String, FileSum>>,
    /// Whether its files were found damaged.
    pub damaged: bool,
}

/// The identity of a revision besides the digest of its source.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SourceIdentity {
    /// The source as it was configured.
    pub source: String,
    /// The platform of an image, or the digest of a curated catalog's
    /// selection: with another one, the same digest is another catalog.
    pub variant: Option<String>,
}

impl SourceIdentity {
    /// Reads the form of `Display`. A folder has no variant, and spaces in its
    /// path are its own.
    pub fn from_text(text: &str) -> Self {
        match text.rsplit_once(' ') {
            Some((source, variant)) if !text.starts_with("file:") => Self {
                source: source.to_owned(),
                variant: Some(variant.to_owned()),
            },
            _ => Self {
                source: text.to_owned(),
                variant: None,
            },
        }
    }
}

impl From<String> for SourceIdentity {
    fn from(text: String) -> Self {
        Self::from_text(&text)
    }
}

impl From<SourceIdentity> for String {
    fn from(identity: SourceIdentity) -> Self {
        identity.to_string()
    }
}

/// The source, then a space and the variant: the form in archives and on the
/// admin port.
impl fmt::Display for SourceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        match &self.variant {
            Some(variant) => write!(f, " {variant}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_shown() {
        for (text, source, variant) in [
            (
                "quay.io/a/b:v1 linux/amd64",
                "quay.io/a/b:v1",
                Some("linux/amd64"),
            ),
            (
                "oci:/a b:v1 linux/arm/v7",
                "oci:/a b:v1",
                Some("linux/arm/v7"),
            ),
            ("curated:a,b sha256:0", "curated:a,b", Some("sha256:0")),
            ("file:/a b linux/amd64", "file:/a b linux/amd64", None),
            ("file:a", "file:a", None),
        ] {
            let identity = SourceIdentity::from_text(text);
            assert_eq!(identity.source, source);
            assert_eq!(identity.variant.as_deref(), variant);
            assert_eq!(identity.to_string(), text);
        }
    }
}
