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
//! [`content`] keeps the blobs, without SQL. [`commit`](Store::commit) writes a
//! revision, [`Store::current`] finds it, [`Store::open_revision`] opens its
//! files.

mod blobs;
mod checked;
mod commit;
pub mod content;
mod database;
mod disk;
mod earlier_images;
mod encodings;
mod error;
mod forget;
mod groups;
mod handle;
mod history;
mod images;
mod import;
mod keep;
mod mapped;
mod migrations;
mod open;
mod output;
mod own_images;
mod passes;
mod pieces;
mod read_only;
mod reconcile;
mod record;
mod recorded;
mod recover;
mod revision;
mod revision_files;
mod revisions;
mod search;
mod segmenter;
mod segments;
mod sql;
mod sqlite_index;
mod summing;
mod sums;
mod writer;

pub use checked::{CheckedFile, QUICK_BLOCKS, QUICK_BYTES, damaged_uses, until_damaged_use};
pub use commit::NewRevision;
pub use content::{BlobPin, CacheLimits, NewBlob};
pub use disk::{DiskError, sync_folder};
pub use earlier_images::EarlierImage;
pub use encodings::{Decoded, Encoded, EncodedFile, Encoding, Plain};
pub use error::{Damage, StoreError};
pub use forget::Footprint;
pub use groups::{GroupedGzip, Groups};
pub use handle::Store;
pub use history::{History, HistoryEntry, KeptHistory, MAX_CHANGES, RecordedChanges};
pub use images::{Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, ImageSigner, Referrer};
pub use import::Import;
pub use keep::{Incoming, OPTIONAL_FILES, SHARED_FILES};
pub use output::Output;
pub use passes::{Outcome, Pass};
pub use pieces::{Part, PieceKey, Pieces, Program, Record as PieceRecord};
pub use record::RECORD;
pub use revision::{
    Counts, FileSum, OutlineName, PastRevision, Published, Revision, RevisionId, SourceIdentity,
};
pub use revision_files::{FILES, Files, METAS, PIECES};
pub use search::{Found, MAX_WORDS, Searcher};
pub use segmenter::END as SEGMENTS_END;
pub use segments::{KnownSegments, Segments};
pub use sql::{LAST_SECOND, time_of_unix, unix_of_time};
pub use sqlite_index::{LegacyError, read_legacy};
pub use sums::{Stamps, Verification};
pub use writer::{Base, Finished, Kept, Lines, Made, RevisionWriter, Stored};
