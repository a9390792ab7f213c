//! The names of blobs in their folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::store::disk::DiskError;
use ::images::digest::Digest;

/// The folder of the blobs. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct BlobFolder(Arc<Path>);

impl BlobFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a blob, whether it exists or not.
    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.0.join(digest.hex())
    }

    /// A file for a blob that is not complete yet.
    pub(super) fn temporary(&self) -> Result<NamedTempFile, DiskError> {
        NamedTempFile::new_in(&self.0).map_err(DiskError::at("write in", &self.0))
    }

    /// All files. Those without a digest are incomplete blobs.
    pub(super) fn files(&self) -> Result<Vec<(PathBuf, Option<Digest>)>, DiskError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(DiskError::at("read", &self.0))? {
            let path = entry.map_err(DiskError::at("read", &self.0))?.path();
            let digest = digest_in_name(&path);
            files.push((path, digest));
        }
        Ok(files)
    }
}

fn digest_in_name(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    format!("sha256:{name}").parse().ok()
}
