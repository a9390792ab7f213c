//! Catalogs that are SQLite databases: they become files as `opm migrate` makes
//! them, and are read like any other catalog.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::ingest::files_error::{FilesError, spooling};
use crate::ingest::folder::listing::FolderRules;
use crate::ingest::read::file_part::DATABASE;
use crate::ingest::read::files::{CatalogFiles, FolderCopy, Ranges, slices, spool};
use crate::ingest::read::read_unchanged::read_unchanged;
use crate::map::UnnamedFile;
use crate::store::{self, LegacyError};
use ::images::digest::Digest;
use ::images::layers::Limits;

/// The files under a folder on disk, or the one file, and the digest of their
/// copy. A folder that changes during every attempt is refused. A database becomes
/// files, as in [`migrated`].
pub(crate) fn from_folder(
    root: &Path,
    rules: &FolderRules,
    temporary: &Path,
) -> Result<(Digest, CatalogFiles), FilesError> {
    let copy = read_unchanged(root, rules, || FolderCopy::new(root, rules, temporary))?;
    from_copy(copy, root, rules, temporary)
}

/// The files of a folder that was copied, and the digest of the copy.
pub(crate) fn from_copy(
    copy: FolderCopy,
    root: &Path,
    rules: &FolderRules,
    temporary: &Path,
) -> Result<(Digest, CatalogFiles), FilesError> {
    let (digest, files) = copy.files(root, temporary)?;
    Ok((digest, migrated(files, temporary, &rules.limits)?))
}

/// The files of a catalog. A single file that is a database becomes one file per
/// package.
///
/// # Panics
/// On an async thread: this blocks until the database is read.
pub(crate) fn migrated(
    files: CatalogFiles,
    temporary: &Path,
    limits: &Limits,
) -> Result<CatalogFiles, FilesError> {
    if !matches!(files.contents.as_slice(), [content] if content.starts_with(DATABASE)) {
        return Ok(files);
    }
    let migrating = migrate(&files, temporary, limits.folder_bytes);
    tokio::runtime::Handle::current().block_on(migrating)
}

async fn migrate(
    files: &CatalogFiles,
    temporary: &Path,
    limit: u64,
) -> Result<CatalogFiles, FilesError> {
    // SQLite needs a file with a name. The next start removes its folder if a
    // crash leaves it.
    let folder = tempfile::tempdir_in(temporary).map_err(spooling(temporary))?;
    let path = folder.path().join("index.db");
    for content in &files.contents {
        fs::write(&path, content).map_err(spooling(temporary))?;
    }
    let mut out = io::BufWriter::new(spool(temporary)?);
    let mut ranges = Ranges::new();
    let mut end = 0;
    let read = store::read_legacy(&path, |package, text| {
        let start = end;
        end += text.len();
        if end as u64 > limit {
            return Err(io::Error::other(FilesError::Limit {
                what: "the size of the blobs, in bytes,",
                path: package.to_owned(),
                limit,
            }));
        }
        out.write_all(text)?;
        let name = format!("{}/catalog.json", package.replace('/', "_"));
        match ranges.last_mut() {
            Some((last, range)) if *last == name => range.end = end,
            _ => ranges.push((name, start..end)),
        }
        Ok(())
    });
    if let Err(error) = read.await {
        return Err(match error {
            // An error of the closure above.
            LegacyError::Write(error) => match error.downcast() {
                Ok(own) => own,
                Err(error) => spooling(temporary)(error),
            },
            source => {
                let path = files.paths.concat();
                FilesError::Legacy { path, source }
            }
        });
    }
    let content = UnnamedFile::map_buffered(out).map_err(spooling(temporary))?;
    if ranges.is_empty() {
        return Err(FilesError::EmptyDatabase(files.paths.concat()));
    }
    let (paths, contents) = slices(ranges, &content).into_iter().unzip();
    Ok(CatalogFiles::new(paths, contents))
}
