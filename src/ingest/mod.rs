//! Following sources: makes revisions of catalogs and publishes them.
//!
//! `pass` has one pass and the loop around passes, `read` reads a catalog and writes its
//! answers, `folder` lists and watches folders. `images` makes the image of a published
//! revision, `upkeep` encodes and verifies its files, and `archive` carries catalogs in a file.
//! `single_revision` makes one revision of a folder, `load` reads without one.
//! `restart` starts tasks again that panic. `serve` answers clients; the two meet in `snapshot`.

pub mod archive;
mod catalog_metrics;
mod context;
mod curation;
mod error;
mod files_error;
mod folder;
mod followed;
mod images;
mod labels;
mod load;
mod origin;
mod pass;
mod pull_progress;
mod read;
mod restart;
mod retry;
mod single_revision;
mod source;
mod stages;
mod track_identity;
mod upkeep;

pub use catalog_metrics::{describe_metrics, forget};
pub use context::{PassContext, Scrub};
pub use curation::{CurateError, Curation};
pub use error::{Cause, MirrorError, PassError, Stage};
pub use files_error::{FilesError, LastWrite};
pub use folder::listing::FolderOptions;
pub use followed::{Followed, OnInvalid, has_origin_of};
pub use images::{ImageOptions, Mirror, keep_image, restore_image};
pub use load::{LoadOptions, Loaded, Reading, Spool, load};
pub use pass::follow::{follow, restore};
pub use pass::history::trim_outlines;
pub use pass::receive::receive;
pub use restart::Restarted;
pub use single_revision::{digest_of_folder, store_folder, store_loaded};
pub use source::{LayoutSource, Source, SourceError, of_path as source_of_path};
pub use track_identity::track_identity;
pub use upkeep::encode::encode;
pub use upkeep::scrub::scrub;
