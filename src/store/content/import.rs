//! Copies blobs from readers, on threads for blocking work.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::store::content::contents::Contents;
use crate::store::content::writer::BlobWriter;
use crate::store::disk::DiskError;
use ::images::digest::Digest;

/// Bytes per read.
const BUFFER: usize = 256 << 10;

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
        let writer = self.write_blob(digest)?;
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        let copied = tokio::task::spawn_blocking(move || copy(writer, reader, &still_wanted));
        copied
            .await
            .unwrap_or_else(|error| Err(ImportError::Read(io::Error::other(error))))
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
