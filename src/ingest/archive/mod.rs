//! Catalogs in one file, to be carried to where there is no network.
//!
//! An archive is a tar of an OCI layout: `oci-layout`, `almanac.json` (what
//! this is, and the digest of the metadata), `index.json` with the images, and
//! `blobs/sha256/…`, of which one is the metadata: the revisions with their
//! dates, numbers and problems. `export` writes it, `import` reads it.
//!
//! What was built of a catalog is not carried along but built again, so an
//! archive can be read by versions that build something else; that it is the
//! same is told by the digest of the content.

mod check;
mod export;
mod import;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::ingest::PassError;
use crate::name::{CatalogName, NameError};
use crate::store::{Counts, DiskError, Image, RevisionId, SourceIdentity, StoreError};
use ::images::digest::Digest;
use fbc::problem::Problem;

pub use export::{Export, Exported, Since, export};
pub use import::{Imported, Outcome as ImportOutcome, import};

/// The format of archives. A number above this one is of a newer version.
const FORMAT: u32 = 1;
const LAYOUT: &str = "oci-layout";
const LAYOUT_TEXT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const MARKER: &str = "almanac.json";
const INDEX: &str = "index.json";
const BLOBS: &str = "blobs/sha256/";
/// The largest document of an archive that is held in memory, in bytes.
const MAX_DOCUMENT: u64 = 256 << 20;

/// What an archive says that it is.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    format: u32,
    /// The version that wrote it, for people.
    version: String,
    metadata: Digest,
}

/// What an archive holds.
#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    catalogs: Vec<CarriedRevision>,
    /// Catalogs that are not in it, and that the other side has.
    #[serde(default)]
    left_out: BTreeMap<CatalogName, There>,
}

/// What the other side has of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct There {
    revision: RevisionId,
    blobs: BTreeSet<Digest>,
}

impl There {
    fn new(revision: RevisionId, image: &Image) -> Self {
        let blobs = image.parts().map(|part| part.digest).collect();
        Self { revision, blobs }
    }
}

impl Metadata {
    /// What whoever imports this has afterwards. What a catalog had before is
    /// not among it: an import removes that.
    fn there(self) -> BTreeMap<CatalogName, There> {
        let mut there = self.left_out;
        for carried in self.catalogs {
            let now = There::new(carried.id, &carried.image);
            there.insert(carried.catalog, now);
        }
        there
    }
}

/// A revision as it is carried.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedRevision {
    catalog: CatalogName,
    id: RevisionId,
    source: SourceIdentity,
    digest: Digest,
    content: Digest,
    /// Seconds since 1970.
    modified: u64,
    committed: u64,
    counts: Counts,
    problems: Vec<Problem>,
    image: Image,
}

/// Tells how far long work is, and whether to go on with it.
#[derive(Clone)]
pub struct Progress {
    stop: Arc<AtomicBool>,
    tell: Arc<dyn Fn(&'static str, u64, u64) + Send + Sync>,
}

impl Progress {
    /// `tell` gets what is being done, and how many bytes of how many.
    pub fn new(tell: impl Fn(&'static str, u64, u64) + Send + Sync + 'static) -> Self {
        Self {
            stop: Arc::default(),
            tell: Arc::new(tell),
        }
    }

    /// Ends the work at the next occasion, with nothing half-done.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn at(&self, what: &'static str, done: u64, of: u64) -> Result<(), ArchiveError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ArchiveError::Stopped);
        }
        (self.tell)(what, done, of);
        Ok(())
    }
}

/// Why catalogs cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing stored.
    #[error("{} holds no catalog; name the folder of the almanac that follows some with --data-dir", path.display())]
    NoStore {
        /// The data folder.
        path: PathBuf,
    },
    /// A catalog that is not there.
    #[error("there is no catalog {name}; there are: {known}")]
    UnknownCatalog {
        /// The name that was asked for.
        name: CatalogName,
        /// Those there are.
        known: String,
    },
    /// There is nothing stored of the catalogs that are configured.
    #[error(
        "nothing is stored of the catalogs of the configuration, only of others: {known}; \
         name those that are meant with --catalog"
    )]
    NoneConfigured {
        /// Those there are.
        known: String,
    },
    /// An archive is to be written into a folder that is not there.
    #[error("there is no folder {} to write the archive into; make it, or write elsewhere", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Something that no archive can be written to.
    #[error("no archive can be written to {}: it is {problem}", path.display())]
    Output {
        /// What was named.
        path: PathBuf,
        /// What it is.
        problem: &'static str,
    },
    /// A number that no revision of the store can have.
    #[error("there is no revision {revision} in this store; there are: {known}")]
    UnknownRevision {
        /// The number that was given.
        revision: RevisionId,
        /// The catalogs, each with the number that it is at.
        known: String,
    },
    /// A catalog without an image.
    #[error(
        "the image of the catalog {catalog} is not made yet: an almanac that serves it makes it \
         a moment after it has read the catalog; its log says when, or why not. Until then name the \
         other catalogs with --catalog"
    )]
    NoImage {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A blob of the store that is gone or rotten.
    #[error("the blob {digest} of the catalog {catalog} is missing or damaged")]
    StoredBlob {
        /// The blob.
        digest: Digest,
        /// The catalog.
        catalog: CatalogName,
    },
    /// Not what `export` writes.
    #[error("{} is no archive of almanac: {problem}", path.display())]
    NoArchive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// An archive of a newer version.
    #[error(
        "{} was written by almanac {version} in format {format}, and this almanac reads formats up \
         to {FORMAT}: import it with almanac {version} or newer",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The version that wrote it.
        version: String,
    },
    /// A blob of the archive that is not what its name says.
    #[error("{}: the blob {digest} is damaged: its content has the digest {actual}; nothing was imported, copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The blob.
        digest: Digest,
        /// What its content has.
        actual: Digest,
    },
    /// A blob that neither the archive nor the store has.
    #[error(
        "{}: the blob {digest} of the catalog {catalog} is neither in the archive nor here: \
         export without --since, or since what this side has; if the archive was written so, it is \
         cut, and has to be copied again",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// The blob.
        digest: Digest,
        /// The catalog.
        catalog: CatalogName,
    },
    /// A catalog that is newer here.
    #[error(
        "{}: the catalog {catalog} is of {theirs} in the archive, and newer here, of {ours}; \
         nothing was imported. Import a newer archive, or go back to this one with --older",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The catalog.
        catalog: CatalogName,
        /// When the archive's revision was committed, as RFC 3339 has it.
        theirs: String,
        /// When the one here was.
        ours: String,
    },
    /// A catalog that cannot be read, or is another than it was.
    #[error("the catalog {catalog} of the archive is refused: {problem}")]
    Catalog {
        /// The catalog.
        catalog: CatalogName,
        /// Why.
        problem: String,
    },
    /// A pass over the catalog of an archive failed.
    #[error("the catalog {catalog} of the archive cannot be read: {source}")]
    Pass {
        /// The catalog.
        catalog: CatalogName,
        /// Why.
        source: Box<PassError>,
    },
    /// No name of a catalog.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It was told to end.
    #[error("told to end: nothing was changed")]
    Stopped,
}

impl From<DiskError> for ArchiveError {
    fn from(error: DiskError) -> Self {
        Self::Store(error.into())
    }
}

impl ArchiveError {
    fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
