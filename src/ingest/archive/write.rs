//! Writing the file of an archive.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::ingest::archive::error::ArchiveError;
use crate::ingest::archive::gather::{Export, Gathered, OpenBlobs};
use crate::ingest::archive::metadata::{BLOBS, FORMAT, INDEX, LAYOUT, MARKER, Marker, index};
use crate::ingest::archive::progress::Progress;
use crate::name::CatalogName;
use crate::store::{DiskError, RevisionId, sync_folder};
use ::images::digest::{Digest, Hasher};
use ::images::document;

/// How the names of archives begin that are not complete.
const UNFINISHED: &str = ".almanac-export-";
/// The most files that are created until one is not removed by another export.
const MAX_ATTEMPTS: usize = 100;

/// The mode of an archive, less the umask.
const USUAL: u32 = 0o666;
/// The mode of an archive that is for its owner only.
const OWN: u32 = 0o600;

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

/// The folder of the file to write.
pub(super) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes an archive, whole or not at all.
pub(super) fn write(
    export: &Export,
    gathered: Gathered,
    progress: &Progress,
) -> Result<Exported, ArchiveError> {
    let (metadata, open) = (gathered.metadata, gathered.open);
    let path = &export.output;
    let failed = |source: io::Error| DiskError::at("write", path)(source);
    let folder = folder_of(path);
    remove_unfinished(folder);
    let mut catalogs = metadata.catalogs.iter();
    let is_restricted = catalogs.any(|carried| export.restricted.contains(&carried.catalog));
    let mode = if is_restricted { OWN } else { USUAL };
    // Removed when anything fails.
    let file = unfinished(folder, mode).map_err(failed)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(1 << 20, file));
    let document = serde_json::to_vec(&metadata).map_err(|error| failed(error.into()))?;
    let digest = Digest::of(&document);
    let marker = Marker {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        metadata: digest,
    };
    let marker = serde_json::to_vec(&marker).map_err(|error| failed(error.into()))?;
    let index = document::image_index(&index(&metadata));
    let index = index.map_err(|error| failed(io::Error::other(error)))?;
    let layout = document::layout_marker();
    let layout = layout.map_err(|error| failed(io::Error::other(error)))?;
    put(&mut archive, LAYOUT, &layout).map_err(failed)?;
    put(&mut archive, MARKER, &marker).map_err(failed)?;
    put(&mut archive, INDEX, &index).map_err(failed)?;
    let name = format!("{BLOBS}{}", digest.hex());
    put(&mut archive, &name, &document).map_err(failed)?;
    let blobs = open.len();
    let total = put_blobs(&mut archive, open, path, progress)?;
    let mut output = archive.into_inner().map_err(failed)?;
    output.flush().map_err(failed)?;
    let file = output
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    let bytes = file.as_file().metadata().map_err(failed)?.len();
    progress.at("exporting", total, total)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    sync_folder(folder)?;
    Ok(Exported {
        catalogs: metadata
            .catalogs
            .iter()
            .map(|carried| (carried.catalog.clone(), carried.id))
            .collect(),
        others: gathered.others,
        missing: gathered.missing,
        new: 0,
        blobs,
        held: gathered.held,
        bytes,
    })
}

/// Appends blobs, and compares each with its digest. Returns the size of all.
fn put_blobs<W: io::Write>(
    archive: &mut tar::Builder<W>,
    open: OpenBlobs,
    path: &Path,
    progress: &Progress,
) -> Result<u64, ArchiveError> {
    let total: u64 = open.values().map(|(_, part, _)| part.size).sum();
    let mut done = 0;
    for (digest, (file, part, catalog)) in open {
        let mut reader = Checked {
            inner: file,
            hasher: Hasher::default(),
            progress,
            done: &mut done,
            total,
            stopped: false,
        };
        let mut header = header(part.size);
        let name = format!("{BLOBS}{}", digest.hex());
        let appended = archive.append_data(&mut header, name, &mut reader);
        if reader.stopped {
            return Err(ArchiveError::Stopped);
        }
        appended.map_err(DiskError::at("write", path))?;
        // A damaged blob is reported here, not on the other side only.
        if reader.hasher.size() != part.size || reader.hasher.finish() != digest {
            return Err(ArchiveError::StoredBlob { digest, catalog });
        }
    }
    Ok(total)
}

fn put<W: io::Write>(archive: &mut tar::Builder<W>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64), name, bytes)
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}

/// Creates a file for an archive, with this mode less the umask, and locks it. Another
/// export may take it for one that was left, between the two.
fn unfinished(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    for _ in 0..MAX_ATTEMPTS {
        let file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        if let Some(file) = locked(file)? {
            return Ok(file);
        }
    }
    Err(io::Error::other(
        "other exports remove each file of this one",
    ))
}

/// The file, locked, unless another export is removing it.
fn locked(file: NamedTempFile) -> io::Result<Option<NamedTempFile>> {
    match file.as_file().try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Some file systems have no locks; there, a killed export leaves its file.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    match fs::symlink_metadata(file.path()) {
        Ok(named) if named.ino() == file.as_file().metadata()?.ino() => Ok(Some(file)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Removes what killed exports have left. A running one holds the lock of its
/// file.
fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Others may put pipes into a shared folder.
        let is_file = entry.file_name().to_string_lossy().starts_with(UNFINISHED)
            && entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && let Some(left) = left(&entry.path()) {
            if let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "cannot remove an unfinished archive");
            }
            // The lock is held until the name is gone: see `locked`.
            drop(left);
        }
    }
}

/// A file that no export holds, locked.
fn left(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// A blob that is hashed while it is written to the archive.
struct Checked<'a> {
    inner: File,
    hasher: Hasher,
    progress: &'a Progress,
    done: &'a mut u64,
    total: u64,
    stopped: bool,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        *self.done += read as u64;
        if self
            .progress
            .at("exporting", *self.done, self.total)
            .is_err()
        {
            self.stopped = true;
            return Err(io::Error::other("stopped"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(folder: &Path) -> NamedTempFile {
        let builder = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(folder);
        builder.unwrap()
    }

    #[test]
    fn an_export_gives_up_a_file_that_another_one_removes() {
        let folder = tempfile::tempdir().unwrap();
        // The other one has locked it, and will remove it.
        let file = created(folder.path());
        let other = left(file.path()).unwrap();
        assert!(locked(file).unwrap().is_none());
        drop(other);
        // The other one has removed it.
        let file = created(folder.path());
        remove_unfinished(folder.path());
        assert!(!file.path().exists());
        assert!(locked(file).unwrap().is_none());

        let file = unfinished(folder.path(), USUAL).unwrap();
        remove_unfinished(folder.path());
        assert!(file.path().exists(), "it is locked");
    }

    #[test]
    fn exports_that_begin_at_the_same_time_keep_their_files() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        remove_unfinished(folder.path());
                        let file = unfinished(folder.path(), USUAL).unwrap();
                        std::thread::yield_now();
                        assert!(file.path().exists());
                    }
                });
            }
        });
    }
}
