//! OCI blobs in a folder, each under its digest. No SQL: commands that read
//! one image use this store alone, and [`Store`](crate::store::Store) puts its
//! rows on top.
//!
//! A blob is written under a temporary name, synced and renamed. Pins keep a
//! blob while a pass needs it. Claims let one of several passes fetch a blob
//! that all of them need. The caller decides which of the other blobs stay,
//! within [`CacheLimits`].

mod contents;
mod open_blob;
mod pins;
mod spare;
mod tally;
mod writer;

pub use contents::Contents;
pub use open_blob::{DamagedBlob, OpenBlob};
pub(crate) use open_blob::{Stamp, stamp};
pub use pins::{BlobClaim, BlobPin};
pub use spare::CacheLimits;
pub use tally::Tally;
pub use writer::{BlobWriter, ImportError, NewBlob};
