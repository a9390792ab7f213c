//! The options and the result of an export.

use std::path::PathBuf;

use crate::name::CatalogName;
use crate::store::RevisionId;

/// What to export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The data folder.
    pub data: PathBuf,
    /// The catalogs; with none, all configured ones.
    pub catalogs: Vec<CatalogName>,
    /// The configured catalogs; with none, all stored ones.
    pub configured: Vec<CatalogName>,
    /// The content that the other side holds.
    pub since: Option<Since>,
    /// Whether signatures and other attachments of mirrored images are included.
    pub signatures: bool,
    /// The file to write.
    pub output: PathBuf,
}

/// The content that the other side holds.
#[derive(Clone, Debug)]
pub enum Since {
    /// Everything after the import of an archive: its catalogs, and those that it
    /// left out.
    Archive(PathBuf),
    /// Everything up to a revision of the same store.
    Revision(RevisionId),
}

/// The result of an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The catalogs, each with its revision.
    pub catalogs: Vec<(CatalogName, RevisionId)>,
    /// Stored catalogs that are left out, since they are not configured.
    pub others: Vec<CatalogName>,
    /// Configured catalogs without a stored revision.
    pub missing: Vec<CatalogName>,
    /// How many of the catalogs are new to the other side.
    pub new: usize,
    /// Blobs in the archive.
    pub blobs: usize,
    /// Blobs that the other side holds.
    pub held: usize,
    /// Bytes of the file.
    pub bytes: u64,
}
