//! The files of a revision, opened for serving.

use crate::answers::index::Index;
use crate::store::file_io::DiskError;
use crate::store::files::checked::CheckedFile;
use crate::store::record::{IMAGE_RECORD, RECORD};
use crate::store::revision::Revision;
use crate::store::{Damage, Store, StoreError};

/// The canonical lines of a catalog.
pub const METAS: &str = "metas.jsonl";
pub(crate) const MESSAGES: &str = "messages.pb";
pub(crate) const QUERIES: &str = "queries.jsonl";
pub(crate) const INDEX: &str = "index.bin";
/// What was made of each piece of the catalog's files, for the next revision.
pub const PIECES: &str = "pieces.bin";

/// The names of the files of a revision, without those in other encodings.
pub const FILES: [&str; 7] = [
    METAS,
    MESSAGES,
    QUERIES,
    INDEX,
    PIECES,
    RECORD,
    IMAGE_RECORD,
];

/// A revision's files, open for serving.
pub struct Files {
    /// The serving index.
    pub index: Index,
    /// `metas.jsonl`.
    pub metas: CheckedFile,
    /// `messages.pb`.
    pub messages: CheckedFile,
    /// `queries.jsonl`.
    pub queries: CheckedFile,
}

impl Store {
    /// Opens a revision's files, whose lengths are checked. Their bytes are compared
    /// before their first use; the index has a checksum of its own.
    ///
    /// # Errors
    /// When one is missing, or does not have its length.
    pub fn open_revision(&self, revision: &Revision) -> Result<Files, StoreError> {
        let folder = self.revision_folder(revision.id);
        let sound = |name: &str, length: usize| match revision.files.get(name) {
            Some(sum) if sum.length != length as u64 => Err(Damage {
                path: folder.join(name),
                reason: sum.other_length(length as u64),
            }),
            _ => Ok(()),
        };
        let map = |name: &str| {
            let path = folder.join(name);
            let bytes = self.map(revision.id, name);
            let bytes = bytes.map_err(DiskError::at("open", &path))?;
            sound(name, bytes.len())?;
            Ok::<_, StoreError>(CheckedFile::new(bytes, revision.files.get(name)))
        };
        // Mapped, since large memory that is freed at once leaves gaps.
        let index = Index::decode(map(INDEX)?.unchecked()).map_err(|reason| Damage {
            path: folder.join(INDEX),
            reason,
        })?;
        let files = Files {
            index,
            metas: map(METAS)?,
            messages: map(MESSAGES)?,
            queries: map(QUERIES)?,
        };
        if !has_indexed_lengths(&files) {
            let reason = "its files do not have the lengths that its index names".into();
            let path = folder;
            return Err(Damage { path, reason }.into());
        }
        Ok(files)
    }
}

fn has_indexed_lengths(files: &Files) -> bool {
    let index = &files.index;
    let lines: u64 = index.metas.iter().map(|meta| u64::from(meta.length)).sum();
    // The answers to lists are written last.
    let mut lists = [&index.package_names, &index.bundle_list].into_iter();
    let answers = index.queries.packages.iter().flat_map(|package| {
        let channels = package.channels.iter().map(|(_, span)| span.end());
        channels.chain([package.summary.end(), package.details.end()])
    });
    lines == files.metas.len() as u64
        && lists.all(|list| list.start.saturating_add(list.length) <= files.messages.len() as u64)
        && answers.max().unwrap_or(0) <= files.queries.len() as u64
}
