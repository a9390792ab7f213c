//! Mistakes in the settings of curated catalogs.

use std::path::PathBuf;

use crate::name::CatalogName;
use fbc::select::RequestError;
use fbc::select::image_set::ImageSetError;

/// A mistake in the settings of a curated catalog.
#[derive(Debug, thiserror::Error)]
pub enum CuratedError {
    /// Neither a source nor anything to select from.
    #[error("it has no source; write source, or from with the names of catalogs to select from")]
    NoSource,
    /// A source beside a key that only curated catalogs have.
    #[error("it has a source, and {0} is for catalogs without one, which have from instead")]
    SourceToo(&'static str),
    /// It has no name.
    #[error("it is made from other catalogs, so no name can be made for it; write name")]
    NoName,
    /// An unknown catalog.
    #[error("there is no catalog {name} to select from{proposal}")]
    Unknown {
        /// Its name.
        name: CatalogName,
        /// Similar names.
        proposal: String,
    },
    /// It is made of itself.
    #[error("it is made of itself, by way of {0}; take that out of from")]
    Circle(CatalogName),
    /// Two keys that both select.
    #[error("image_set says what is selected, so {0} cannot; leave out one of them")]
    ImageSetToo(&'static str),
    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file that is not an `ImageSetConfiguration`.
    #[error("{} cannot be used: {problem}", path.display())]
    ImageSet {
        /// The file.
        path: PathBuf,
        /// The mistake.
        problem: ImageSetError,
    },
    /// A catalog of the file that is not configured.
    #[error(
        "{} selects from {catalog}, which no catalog has as its source; \
         add a [[catalog]] with source = {catalog:?}",
        path.display()
    )]
    NotFollowed {
        /// The file.
        path: PathBuf,
        /// The catalog, as the file writes it.
        catalog: String,
    },
    /// A selection that contradicts itself.
    #[error(transparent)]
    Request(#[from] RequestError),
}
