//! The files of a revision, opened for serving.

use std::fs;

use bytes::Bytes;

use crate::answers::index::Index;
use crate::store::disk::DiskError;
use crate::store::revision::Revision;
use crate::store::{Store, StoreError};

pub(super) const METAS: &str = "metas.jsonl";
pub(super) const SEGMENTS: &str = "metas.deflate";
pub(super) const MESSAGES: &str = "messages.pb";
pub(super) const QUERIES: &str = "queries.jsonl";
pub(super) const INDEX: &str = "index.bin";

/// A revision's files, open for serving.
pub struct Files {
    /// The serving index.
    pub index: Index,
    /// `metas.jsonl`.
    pub metas: Bytes,
    /// `metas.deflate`.
    pub segments: Bytes,
    /// `messages.pb`.
    pub messages: Bytes,
    /// `queries.jsonl`.
    pub queries: Bytes,
}

impl Store {
    /// Opens a revision's files.
    pub fn open_revision(&self, revision: &Revision) -> Result<Files, StoreError> {
        let folder = self.revision_folder(revision.id);
        let map = |name: &str| {
            let path = folder.join(name);
            self.map(revision.id, name)
                .map_err(DiskError::at("open", &path))
        };
        let path = folder.join(INDEX);
        let index = fs::read(&path).map_err(DiskError::at("read", &path))?;
        let index = Index::decode(&index);
        let index = index.map_err(|reason| StoreError::Damaged { path, reason })?;
        let files = Files {
            index,
            metas: map(METAS)?,
            segments: map(SEGMENTS)?,
            messages: map(MESSAGES)?,
            queries: map(QUERIES)?,
        };
        if !has_indexed_lengths(&files) {
            return Err(StoreError::Damaged {
                path: folder,
                reason: "its files do not have the lengths that its index names".into(),
            });
        }
        Ok(files)
    }
}

fn has_indexed_lengths(files: &Files) -> bool {
    let index = &files.index;
    let lines: u64 = index.metas.iter().map(|meta| u64::from(meta.length)).sum();
    let segments = index.metas.iter().map(|meta| u64::from(meta.segment));
    // The answers to lists are written last.
    let mut lists = [&index.package_names, &index.bundle_list].into_iter();
    lines == files.metas.len() as u64
        && segments.sum::<u64>() == files.segments.len() as u64
        && lists.all(|list| list.start.saturating_add(list.length) <= files.messages.len() as u64)
}
