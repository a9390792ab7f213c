//! Catalogs as SQLite databases, made into files as `opm migrate` makes them,
//! so that all that follows is the same for them.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::ingest::files::{CatalogFiles, FilesError, map_spool, spool, spooling};
use crate::store::{self, LegacyError};
use ::images::layers::Limits;

/// What a database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The files of a catalog; when it is one file, and a database, those that it
/// is made into: one a package.
pub(super) async fn migrated(
    files: CatalogFiles,
    temporary: &Path,
    limits: &Limits,
) -> Result<CatalogFiles, FilesError> {
    if !matches!(files.contents.as_slice(), [content] if content.starts_with(MAGIC)) {
        return Ok(files);
    }
    let (temporary, limit) = (temporary.to_owned(), limits.folder_bytes);
    let runtime = tokio::runtime::Handle::current();
    let work = move || runtime.block_on(migrate(&files, &temporary, limit));
    match tokio::task::spawn_blocking(work).await {
        Ok(migrated) => migrated,
        Err(error) => Err(FilesError::Panicked(error.to_string())),
    }
}

async fn migrate(
    files: &CatalogFiles,
    temporary: &Path,
    limit: u64,
) -> Result<CatalogFiles, FilesError> {
    // SQLite wants a file with a name. In a folder of its own, which a start
    // sweeps away if we do not.
    let folder = tempfile::tempdir_in(temporary).map_err(spooling(temporary))?;
    let path = folder.path().join("index.db");
    for content in &files.contents {
        fs::write(&path, content).map_err(spooling(temporary))?;
    }
    let mut out = io::BufWriter::new(spool(temporary)?);
    let mut ranges: Vec<(String, std::ops::Range<usize>)> = Vec::new();
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
            // What the sink says of itself.
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
    let out = out.into_inner().map_err(io::IntoInnerError::into_error);
    let content = map_spool(out.map_err(spooling(temporary))?, temporary)?;
    if ranges.is_empty() {
        return Err(FilesError::Empty(files.paths.concat()));
    }
    let ranges = ranges.into_iter();
    let (paths, contents) = ranges
        .map(|(path, range)| (path, content.slice(range)))
        .unzip();
    Ok(CatalogFiles { paths, contents })
}
