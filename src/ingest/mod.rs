//! Following sources: what makes revisions of catalogs and publishes them.
//!
//! `pass` is one pass, `follow` the loop around it, `load` a reading without a
//! revision. Answering clients is left to `serve`; the two meet in
//! `snapshot`.

mod build;
mod error;
mod files;
mod follow;
mod load;
mod ordered;
mod pass;
mod pull;
mod read;
mod source;

pub use error::{Cause, PassError, Stage};
pub use files::FilesError;
pub use follow::{follow, restore};
pub use load::{LoadOptions, Loaded, Reading, Spool, load};
pub use pass::{Followed, PassResult, Workshop, run_once};
pub use source::{Source, SourceError};

/// What to do with a catalog whose packages are not all valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInvalid {
    /// Leave those packages out of the gRPC answers and serve the rest.
    #[default]
    Quarantine,
    /// Refuse the catalog and keep what was served.
    Reject,
}
