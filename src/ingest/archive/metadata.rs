//! The documents of an archive: what `export` writes and `import` reads.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::name::CatalogName;
use crate::store::{Counts, Image, RevisionId, SourceIdentity};
use ::images::Descriptor;
use ::images::digest::Digest;
use ::images::manifest::{Index, IndexEntry, REFERENCE_NAME};
use fbc::problem::Problem;

/// The format of archives. A number above this one is of a newer version.
pub(super) const FORMAT: u32 = 1;
pub(super) const LAYOUT: &str = "oci-layout";
pub(super) const LAYOUT_TEXT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
pub(super) const MARKER: &str = "almanac.json";
pub(super) const INDEX: &str = "index.json";
pub(super) const BLOBS: &str = "blobs/sha256/";
/// The largest document of an archive that is held in memory, in bytes.
pub(super) const MAX_DOCUMENT: u64 = 256 << 20;

/// The marker that makes a tar an archive of almanac.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) format: u32,
    /// The version that wrote it, for people.
    pub(super) version: String,
    pub(super) metadata: Digest,
}

/// The content of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Metadata {
    pub(super) catalogs: Vec<CarriedRevision>,
    /// Catalogs that are not in it, since the other side holds them.
    #[serde(default)]
    pub(super) left_out: BTreeMap<CatalogName, Held>,
}

/// The part of a catalog that the other side holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) revision: RevisionId,
    pub(super) blobs: BTreeSet<Digest>,
}

impl Held {
    pub(super) fn new(revision: RevisionId, image: &Image) -> Self {
        let blobs = image.parts().map(|part| part.digest).collect();
        Self { revision, blobs }
    }
}

impl Metadata {
    /// What the other side holds after it imports this. An import removes earlier
    /// revisions.
    pub(super) fn held(self) -> BTreeMap<CatalogName, Held> {
        let mut held = self.left_out;
        for carried in self.catalogs {
            let now = Held::new(carried.id, &carried.image);
            held.insert(carried.catalog, now);
        }
        held
    }
}

/// A revision in an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CarriedRevision {
    pub(super) catalog: CatalogName,
    pub(super) id: RevisionId,
    pub(super) source: SourceIdentity,
    pub(super) digest: Digest,
    pub(super) content: Digest,
    /// Seconds since 1970.
    pub(super) modified: u64,
    pub(super) committed: u64,
    pub(super) counts: Counts,
    pub(super) problems: Vec<Problem>,
    pub(super) image: Image,
}

/// The images of an archive, for other tools.
pub(super) fn index(metadata: &Metadata) -> Index {
    let mut entries = Vec::new();
    for carried in &metadata.catalogs {
        for (tag, digest) in &carried.image.tags {
            let mut found = carried.image.manifests.iter();
            let Some(manifest) = found.find(|manifest| manifest.digest == *digest) else {
                continue;
            };
            let name = format!("{}:{tag}", carried.catalog);
            entries.push(IndexEntry {
                descriptor: Descriptor {
                    media_type: manifest.media_type.clone(),
                    digest: *digest,
                    size: manifest.size,
                },
                platform: None,
                annotations: BTreeMap::from([(REFERENCE_NAME.to_owned(), name)]),
            });
        }
    }
    Index { entries }
}
