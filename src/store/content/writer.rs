//! Blobs that are being written. Dropped before they are finished, they leave
//! nothing behind.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::store::content::contents::Contents;
use crate::store::content::pins::BlobPin;
use crate::store::disk::{DiskError, blocking};
use ::images::digest::{Digest, Hasher};

/// A blob whose digest is known before its bytes.
pub struct BlobWriter {
    digest: Digest,
    path: PathBuf,
    file: NamedTempFile,
}

/// A blob whose digest is known after its last byte.
pub struct NewBlob {
    contents: Contents,
    file: NamedTempFile,
    hasher: Hasher,
}

impl Contents {
    /// Starts a blob. The caller has verified the bytes, or does so while it
    /// writes them.
    pub fn write_blob(&self, digest: Digest) -> Result<BlobWriter, DiskError> {
        Ok(BlobWriter {
            digest,
            path: self.folder.blob(&digest),
            file: self.folder.temporary()?,
        })
    }

    /// Starts a blob whose digest is not known yet.
    pub fn new_blob(&self) -> Result<NewBlob, DiskError> {
        Ok(NewBlob {
            contents: self.clone(),
            file: self.folder.temporary()?,
            hasher: Hasher::default(),
        })
    }
}

impl BlobWriter {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file
            .write_all(bytes)
            .map_err(DiskError::at("write", &self.path))
    }

    /// Syncs the blob, gives it its name and returns its path. The disk may
    /// need seconds: this waits on a thread for blocking work.
    pub async fn finish(self) -> Result<PathBuf, DiskError> {
        blocking("sync", self.path.clone(), |_| self.finish_blocking()).await
    }

    /// As [`finish`](Self::finish), for a thread that may block.
    pub fn finish_blocking(self) -> Result<PathBuf, DiskError> {
        let Self { digest, path, file } = self;
        persist(file, &path)?;
        tracing::debug!(%digest, "blob stored");
        Ok(path)
    }
}

impl NewBlob {
    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.hasher.size()
    }

    /// Syncs the blob, gives it its name, and keeps it as long as the pin lives. This blocks.
    pub fn finish(self) -> Result<BlobPin, DiskError> {
        let pin = self.contents.pin(self.hasher.finish());
        persist(self.file, &self.contents.folder.blob(&pin.digest()))?;
        Ok(pin)
    }
}

impl Write for NewBlob {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn persist(file: NamedTempFile, path: &Path) -> Result<(), DiskError> {
    file.as_file()
        .sync_data()
        .map_err(DiskError::at("sync", path))?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(DiskError::at("write", path)(error.error)),
    }
}
