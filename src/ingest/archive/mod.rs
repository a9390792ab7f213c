//! Catalogs in one file, to be carried to a site without a network.
//!
//! An archive is a tar of an OCI layout: `oci-layout`, `almanac.json` (the format
//! and the digest of the metadata), `index.json` with the images, and
//! `blobs/sha256/…`. One of the blobs is the metadata: the revisions with their
//! dates, numbers and problems. `export` writes an archive, `import` reads it.
//!
//! The answers for clients are not carried but built again, so other versions of
//! almanac can read an archive. The digest of the content verifies the result.

mod error;
mod export;
mod fleet;
mod fleet_folder;
mod gather;
mod import;
mod metadata;
mod progress;
mod scan;
mod write;

pub use error::ArchiveError;
pub use export::export;
pub use fleet::{FleetCatalog, FleetImport, export_of_fleet, import_into_fleet};
pub use gather::{Export, Since};
pub use import::{ImportOutcome, Imported, import};
pub use progress::Progress;
pub use write::Exported;
