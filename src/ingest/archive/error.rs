//! Why catalogs cannot be exported or imported.

use std::path::PathBuf;

use crate::fleet::FleetError;
use crate::ingest::archive::metadata::FORMAT;
use crate::ingest::error::PassError;
use crate::name::{CatalogName, NameError};
use crate::store::{DiskError, RevisionId, StoreError};
use ::images::digest::Digest;

const UPLOADED_AGAIN: &str = ". A replica that has its bytes uploads them again: try again in a \
     minute; if none has them, after the next revision of the catalog";

/// Why catalogs cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file that cannot be read or written.
    #[error(transparent)]
    Io(#[from] DiskError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing is stored.
    #[error("{} has no catalog; name the folder of the almanac that follows some with --data-dir", path.display())]
    NoStore {
        /// The data folder.
        path: PathBuf,
    },
    /// A data folder whose revisions have the numbers of a fleet.
    #[error(
        "{} is the cache of a replica of a fleet: import with the configuration of the fleet, which \
         names its database and objects",
        path.display()
    )]
    Replica {
        /// The data folder.
        path: PathBuf,
    },
    /// What a fleet shares.
    #[error(transparent)]
    Fleet(FleetError),
    /// A revision of a fleet that does not come from the bucket.
    #[error(
        "the revision of {catalog} that the fleet serves cannot be fetched: {cause}{}",
        match cause {
            // It tells itself.
            FleetError::Damaged { .. } => "",
            cause if cause.is_lost() => UPLOADED_AGAIN,
            _ => "",
        }
    )]
    Unfetched {
        /// The catalog.
        catalog: CatalogName,
        /// Why. It is no `source`, since the text already tells all of it.
        cause: FleetError,
    },
    /// A fleet that serves nothing that is asked for.
    #[error("the fleet serves none of the catalogs yet; wait for their first revisions")]
    EmptyFleet,
    /// A catalog that no replica would serve.
    #[error(
        "the configuration of the fleet has no catalog {catalog}, so no replica would serve it; \
         nothing was imported. Add it, or export without it"
    )]
    NotConfigured {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A catalog that no replica would serve, as it is of another place.
    #[error(
        "the catalog {catalog} is of {theirs} in the archive and of {ours} in the configuration of \
         the fleet, so no replica would serve it; nothing was imported. Configure the same source"
    )]
    OtherSource {
        /// The catalog.
        catalog: CatalogName,
        /// Its source in the archive.
        theirs: String,
        /// Its source here.
        ours: String,
    },
    /// A catalog that is not stored.
    #[error("there is no catalog {name}; there are: {known}")]
    UnknownCatalog {
        /// The name that was asked for.
        name: CatalogName,
        /// The known ones.
        known: String,
    },
    /// None of the configured catalogs is stored.
    #[error(
        "nothing is stored of the catalogs of the configuration, only of others: {known}; \
         choose catalogs with --catalog"
    )]
    NoneConfigured {
        /// The known ones.
        known: String,
    },
    /// The folder of the archive does not exist.
    #[error("there is no folder {} to write the archive into; make it, or write elsewhere", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A path that no archive can be written to.
    #[error("no archive can be written to {}: {problem}", path.display())]
    Output {
        /// The path.
        path: PathBuf,
        /// The defect of the place.
        problem: &'static str,
    },
    /// The number of no revision of the store.
    #[error("there is no revision {revision} in this store; there are: {known}")]
    UnknownRevision {
        /// The number that was given.
        revision: RevisionId,
        /// The catalogs, each with its current number.
        known: String,
    },
    /// A catalog without an image.
    #[error(
        "the image of the catalog {catalog} is not made yet: an almanac that serves it, and is not \
         offline, makes it a moment after it has read the catalog; its status shows why not. Until \
         then name the other catalogs with --catalog"
    )]
    NoImage {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A blob of the store that is missing or damaged.
    #[error("the blob {digest} of the catalog {catalog} is missing or damaged")]
    StoredBlob {
        /// The blob.
        digest: Digest,
        /// The catalog.
        catalog: CatalogName,
    },
    /// A file that `export` did not write.
    #[error("{} is not an archive of almanac: {problem}", path.display())]
    NoArchive {
        /// The file.
        path: PathBuf,
        /// The defect.
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
    /// A blob of the archive that does not have the digest in its name.
    #[error("{}: the blob {digest} is damaged: its content has the digest {actual}; nothing was imported, copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The blob.
        digest: Digest,
        /// The digest of its content.
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
        /// The commit date in the archive, in RFC 3339.
        theirs: String,
        /// The commit date here.
        ours: String,
    },
    /// A catalog that cannot be read, or differs from the exported one.
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
    /// An invalid name of a catalog.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The work was stopped.
    #[error("stopped; no archive was written, and no catalog was changed")]
    Stopped,
}

impl From<FleetError> for ArchiveError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Store(error) => Self::Store(error),
            error => Self::Fleet(error),
        }
    }
}
