//! Copies blobs from readers, on threads for blocking work.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::store::content::writer::BlobWriter;
use crate::store::disk_error::DiskError;

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

/// Copies all that `reader` has. The copy stops soon after the returned future
/// is dropped.
pub(super) async fn import(
    writer: BlobWriter,
    reader: impl Read + Send + 'static,
) -> Result<PathBuf, ImportError> {
    let wanted = Arc::new(());
    let still_wanted = Arc::downgrade(&wanted);
    let copied = tokio::task::spawn_blocking(move || copy(writer, reader, &still_wanted));
    copied
        .await
        .unwrap_or_else(|error| Err(ImportError::Read(io::Error::other(error))))
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
