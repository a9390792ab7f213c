//! The data folder, and the only SQL.
//!
//! ```text
//! data/
//!   lock                          held by the running almanac
//!   almanac.db                    catalogs, revisions, problems, images, passes, search
//!   blobs/sha256/<hex>            OCI blobs as they were pulled or made
//!   revisions/<id>/metas.jsonl    canonical metas in catalog order
//!   revisions/<id>/messages.pb    encoded parts of registry messages
//!   revisions/<id>/queries.jsonl  answers to queries over HTTP
//!   revisions/<id>/index.bin      offsets in these files, by name
//!   revisions/<id>/record.json    what the rows of the revision say
//!   revisions/<id>/image-record.json   the same of its image
//!   revisions/<id>/metas.deflate  each meta as a deflate segment, made later
//!   revisions/<id>/all.gz         metas.jsonl compressed, made later
//!   revisions/<id>/all.zst        the same
//!   revisions/<id>/groups.bin     where parts of all.gz lie, for the next revision
//!   outlines/<hex>.<format>.zst   names and digests of a revision, for the history
//! ```
//!
//! Files are written under a temporary name in the same file system, synced
//! and renamed. The SQL transaction that names them comes last, so a crash
//! leaves the previous revision current. The next start removes revisions
//! without a row. Those that a rebuilt database does not know stay for 30 days
//! (`lost-<id>`). Blobs without a row stay for a while, because the next pass may
//! need them.
//!
//! Complete files are read-only. `sums` compares them with what was written.
//!
//! [`content`] keeps the blobs, without SQL. `revisions` writes and removes revisions and their
//! rows ([`Store::commit`], [`Store::current`]), `files` has the formats of their files and
//! compares them with their sums ([`Store::open_revision`]), `images` the images of revisions,
//! `history` what earlier revisions had, `recovery` mends the database at a start.

pub mod content;
mod database;
mod error;
mod file_io;
mod files;
mod handle;
mod history;
mod images;
mod migrations;
mod open;
mod read_only;
mod record;
mod recovery;
mod revision;
mod revisions;
mod sql;
mod sqlite_index;

pub use content::{BlobPin, CacheLimits, NewBlob};
pub use error::{Damage, StoreError};
pub use file_io::{DiskError, sync_folder};
pub use files::checked::{CheckedFile, QUICK_BLOCKS, QUICK_BYTES, damaged_uses, until_damaged_use};
pub use files::encodings::{Decoded, Encoded, EncodedFile, Encoding, Plain};
pub use files::groups::{GroupedGzip, Groups};
pub use files::pieces::{Part, PieceKey, Pieces, Program, Record as PieceRecord};
pub use files::revision_files::{FILES, Files, METAS, PIECES};
pub use files::segmenter::END as SEGMENTS_END;
pub use files::segments::{KnownSegments, Segments};
pub use files::sums::{Stamps, Verification};
pub use handle::Store;
pub use history::{History, HistoryEntry, KeptHistory, MAX_CHANGES, RecordedChanges};
pub use images::earlier_images::EarlierImage;
pub use images::records::{
    Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, ImageSigner, Referrer,
};
pub use record::RECORD;
pub use revision::{
    Counts, FileSum, OutlineName, PastRevision, Published, Revision, RevisionId, SourceIdentity,
};
pub use revisions::commit::NewRevision;
pub use revisions::forget::Footprint;
pub use revisions::import::Import;
pub use revisions::keep::{Incoming, OPTIONAL_FILES, SHARED_FILES};
pub use revisions::output::Output;
pub use revisions::passes::{Outcome, Pass};
pub use revisions::search::{Found, MAX_WORDS, Searcher};
pub use revisions::writer::{Base, Finished, Kept, Lines, Made, RevisionWriter, Stored};
pub use sql::{LAST_SECOND, time_of_unix, unix_of_time};
pub use sqlite_index::{LegacyError, read_legacy};
