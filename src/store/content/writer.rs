//! Blobs that are being written, also copied from readers. Dropped before they are
//! finished, they leave nothing behind.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tempfile::NamedTempFile;

use crate::store::content::contents::Contents;
use crate::store::content::pins::BlobPin;
use crate::store::content::tally::Tally;
use crate::store::file_io::{DiskError, blocking, protect};
use ::images::digest::{Digest, Hasher};

/// Bytes per read.
const BUFFER: usize = 256 << 10;

/// A blob whose digest is known before its bytes.
pub struct BlobWriter {
    digest: Digest,
    path: PathBuf,
    file: NamedTempFile,
    tally: Tally,
}

/// A blob whose digest is known after its last byte.
pub struct NewBlob {
    contents: Contents,
    file: NamedTempFile,
    hasher: Hasher,
}

/// Why a blob was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The reader failed, or found that the bytes are not the blob's.
    #[error("cannot read the blob: {0}")]
    Read(#[source] io::Error),
    /// The blob could not be written.
    #[error(transparent)]
    Write(#[from] DiskError),
}

impl Contents {
    /// Starts a blob. The caller has verified the bytes, or does so while it
    /// writes them. This blocks.
    pub fn write_blob(&self, digest: Digest) -> Result<BlobWriter, DiskError> {
        Ok(BlobWriter {
            digest,
            path: self.path_of(&digest),
            file: self.temporary()?,
            tally: self.tally.clone(),
        })
    }

    /// Starts a blob whose digest is not known yet. This blocks.
    pub fn new_blob(&self) -> Result<NewBlob, DiskError> {
        Ok(NewBlob {
            contents: self.clone(),
            file: self.temporary()?,
            hasher: Hasher::default(),
        })
    }

    /// Copies a blob into the store from a reader that verifies it: an error of
    /// the reader, also one at its end, leaves nothing behind. Reading, writing
    /// and syncing happen on a thread for blocking work, so that large blobs
    /// hold up no other task. The copy stops soon after the future is dropped.
    ///
    /// # Errors
    /// When the reader fails, or the blob cannot be written.
    pub async fn import(
        &self,
        digest: Digest,
        reader: impl Read + Send + 'static,
    ) -> Result<PathBuf, ImportError> {
        let contents = self.clone();
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        let copied = tokio::task::spawn_blocking(move || {
            let writer = contents.write_blob(digest)?;
            copy(writer, reader, &still_wanted)
        });
        copied
            .await
            .unwrap_or_else(|error| Err(ImportError::Read(io::Error::other(error))))
    }
}

impl BlobWriter {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file
            .write_all(bytes)
            .map_err(DiskError::at("write", &self.path))?;
        self.tally.add(bytes.len());
        Ok(())
    }

    /// Syncs the blob, gives it its name and returns its path. The disk may
    /// need seconds: this waits on a thread for blocking work.
    pub async fn finish(self) -> Result<PathBuf, DiskError> {
        blocking("sync", self.path.clone(), |_| self.finish_blocking()).await
    }

    /// As [`finish`](Self::finish), for a thread that may block.
    pub fn finish_blocking(self) -> Result<PathBuf, DiskError> {
        let Self {
            digest, path, file, ..
        } = self;
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
        persist(self.file, &self.contents.path_of(&pin.digest()))?;
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
    protect(file.as_file()).map_err(DiskError::at("protect", path))?;
    file.as_file()
        .sync_data()
        .map_err(DiskError::at("sync", path))?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(DiskError::at("write", path)(error.error)),
    }
}

fn copy(
    mut writer: BlobWriter,
    mut reader: impl Read,
    wanted: &Weak<()>,
) -> Result<PathBuf, ImportError> {
    let mut buffer = vec![0; BUFFER];
    loop {
        if wanted.strong_count() == 0 {
            let stopped = io::Error::new(io::ErrorKind::Interrupted, "it is no longer needed");
            return Err(ImportError::Read(stopped));
        }
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(writer.finish_blocking()?),
            Ok(length) => writer.write(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ImportError::Read(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn a_failed_import_leaves_nothing_behind() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the digest does not match"))
            }
        }
        let root = tempfile::tempdir().unwrap();
        let contents = Contents::open(root.path().join("sha256")).unwrap();
        let digest = Digest::of(b"blob");
        let failed = contents.import(digest, (&b"bl"[..]).chain(Fails)).await;
        assert!(matches!(failed, Err(ImportError::Read(_))));
        assert!(contents.blob(&digest).is_none());
        assert_eq!(fs::read_dir(contents.folder()).unwrap().count(), 0);
        let path = contents.import(digest, &b"blob"[..]).await.unwrap();
        assert_eq!(fs::read(path).unwrap(), b"blob");
    }

    #[tokio::test]
    async fn a_dropped_import_stops() {
        /// Never ends, and tells when it is dropped.
        struct Endless(std::sync::mpsc::Sender<()>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(0);
                std::thread::yield_now();
                Ok(buffer.len().min(1 << 10))
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let root = tempfile::tempdir().unwrap();
        let contents = Contents::open(root.path().join("sha256")).unwrap();
        let (sender, dropped) = std::sync::mpsc::channel();
        let import = contents.import(Digest::of(b""), Endless(sender));
        tokio::select! {
            biased;
            done = import => panic!("{done:?}"),
            () = tokio::task::yield_now() => {}
        }
        dropped.recv().unwrap();
    }
}
