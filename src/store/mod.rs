//! What lies on disk: the only place with SQL and the data folder.
//!
//! ```text
//! data/
//!   lock                          held by the almanac that runs
//!   almanac.db                    catalogs, revisions, problems, images, passes, search
//!   blobs/sha256/<hex>            OCI blobs as they were pulled or made
//!   revisions/<id>/metas.jsonl    canonical metas in catalog order
//!   revisions/<id>/metas.deflate  each of them as a deflate segment
//!   revisions/<id>/messages.pb    encoded parts of registry messages
//!   revisions/<id>/queries.jsonl  answers to queries over HTTP
//!   revisions/<id>/index.bin      what serving needs to find its way
//!   revisions/<id>/all.gz         the whole of metas.jsonl, made later
//!   revisions/<id>/all.zst        the same
//! ```
//!
//! Files are written under a temporary name in the same file system, synced
//! and renamed; the SQL transaction that names them comes last. So a crash
//! leaves the previous revision current, and revisions that no row names are
//! swept away at the next start. Blobs that no row names may stay for a while,
//! as a pass that failed may want them again.

mod blobs;
pub mod content;
mod encodings;
mod error;
mod file_error;
mod handle;
mod images;
mod import;
mod index;
mod migrations;
mod open;
mod passes;
mod read_only;
mod revisions;
mod search;
mod segment;
mod sqlite_index;
mod writer;

pub use content::{BlobPin, BlobWriter, CacheLimits, NewBlob};
pub use encodings::{Decoded, Encoding};
pub use error::StoreError;
pub use file_error::FileError;
pub use handle::Store;
pub use images::{Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, Referrer};
pub use import::Import;
pub use index::{
    BundleIndex, ChannelIndex, CustomSchemas, EntryIndex, Index, MetaIndex, PackageAnswers,
    PackageIndex, Provider, QuarantinedApi, QueryIndex, Region,
};
pub use passes::{Outcome, Pass};
pub use revisions::{Counts, Files, LAST_SECOND, NewRevision, Revision, RevisionId};
pub use search::{MAX_WORDS, SearchRow, Searcher};
pub use segment::{END as SEGMENTS_END, Segmenter};
pub use sqlite_index::{LegacyError, read_legacy};
pub use writer::{Finished, Lines, QueryWriter, RevisionWriter, Stored};
