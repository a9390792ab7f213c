//! Following sources: makes revisions of catalogs and publishes them.
//!
//! `pass` is one pass: `origin` and `pull` bring an image into the store, `files`
//! unpacks or copies the catalog, `read` and `build` process it, and `make_revision`
//! commits it. Where `feed` can cut the files as they come, `draft` reads them meanwhile. `follow` is the loop around passes, `curate` a
//! pass over other catalogs, `folder` a single revision of a folder, `load` a
//! reading without a revision. `encode` prepares encodings of a published
//! revision, `scrub` verifies stored files and `repair` rebuilds damaged ones,
//! `images` makes its image, and `archive` carries catalogs in a file. `receive` shows what a
//! fleet has published, and `restart` starts tasks again that panic.
//! `serve` answers clients; the two meet in `snapshot`.

pub mod archive;
mod beneath;
mod build;
mod catalog_metrics;
mod context;
mod curate;
mod curation;
mod done;
mod draft;
mod encode;
mod error;
mod feed;
mod files;
mod files_error;
mod folder;
mod folder_listing;
mod follow;
mod followed;
mod history;
mod images;
mod kept;
mod labels;
mod load;
mod make_revision;
mod ordered;
mod origin;
mod part;
mod pass;
mod pass_events;
mod pass_failures;
mod problem_log;
mod pull;
mod pull_progress;
mod read;
mod read_files;
mod read_unchanged;
mod receive;
mod repair;
mod restart;
mod retry;
mod scrub;
mod source;
mod sqlite;
mod stages;
mod track_identity;
mod wait_until_quiet;
mod watch;
mod watched_paths;

pub use catalog_metrics::{describe_metrics, forget};
pub use context::{PassContext, Scrub};
pub use curation::{CurateError, Curation};
pub use encode::encode;
pub use error::{Cause, MirrorError, PassError, Stage};
pub use files_error::{FilesError, LastWrite};
pub use folder::{digest_of_folder, store_folder, store_loaded};
pub use folder_listing::FolderOptions;
pub use follow::{follow, restore};
pub use followed::{Followed, OnInvalid, has_origin_of};
pub use history::trim_outlines;
pub use images::{ImageOptions, Mirror, keep_image, restore_image};
pub use load::{LoadOptions, Loaded, Reading, Spool, load};
pub use receive::receive;
pub use restart::Restarted;
pub use scrub::scrub;
pub use source::{LayoutSource, Source, SourceError, of_path as source_of_path};
pub use track_identity::track_identity;
