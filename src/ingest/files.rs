//! The files of a catalog, wherever they came from, as slices of one map.
//!
//! Files of an image are unpacked into a spool file, those of a folder are
//! copied into one; the spool is mapped and removed at once. So what is read
//! cannot change meanwhile, lies in no heap, and leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;

use crate::ingest::labels::CONFIGS_LABEL;
use crate::ingest::wait_until_quiet::{Look, real, settle};
use crate::map::UnnamedFile;
use crate::store::LegacyError;
use ::images::digest::{Digest, Hasher};
use ::images::layers::{Layer, Limits, UnpackError, walk_order};
use ::images::verify::VerifiedReader;
use ::images::{Descriptor, layers as unpack};
use fbc::indexignore;
use fbc::indexignore::{IndexIgnore, IndexIgnoreError};

/// How much of a file is read at once, in bytes.
const BUFFER: usize = 256 << 10;
/// How often a folder is read until it stays the same meanwhile.
const MAX_TRIES: usize = 3;
/// How many files are read side by side at most.
const MAX_WORKERS: usize = 4;

/// The files of a catalog in catalog order, without those to ignore.
pub(super) struct CatalogFiles {
    /// Paths below the catalog folder.
    pub(super) paths: Vec<String>,
    /// Their contents.
    pub(super) contents: Vec<Bytes>,
}

/// Why the files of a catalog cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The image does not say where its catalog is.
    #[error(
        "the image has no label {CONFIGS_LABEL:?}, so it does not say where its catalog is; \
         is it a catalog image?"
    )]
    NoLabel,
    /// The layers cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// An `.indexignore` cannot be used.
    #[error(transparent)]
    IndexIgnore(#[from] IndexIgnoreError),
    /// A file or folder on disk cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The spool cannot be written.
    #[error("cannot write a temporary file in {}: {source}", path.display())]
    Spool {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that is not UTF-8.
    #[error("the path {0:?} is not UTF-8")]
    Path(PathBuf),
    /// More than the limits allow.
    #[error("{what} at {path:?} passes the limit of {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// Where the limit was passed.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// A SQLite database that is no catalog, or cannot be read.
    #[error("{path}: {source}")]
    Legacy {
        /// The database.
        path: String,
        /// Why not.
        source: LegacyError,
    },
    /// A defect of almanac.
    #[error("almanac failed on the database: {0}")]
    Panicked(String),
    /// There is no file at all.
    #[error(
        "there is no file in the catalog folder {0:?}: an empty catalog would take every operator \
         from its clients; check the path, or put the catalog's files there"
    )]
    Empty(String),
}

impl FilesError {
    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoLabel => "no_label",
            Self::Unpack(error) => error.reason(),
            Self::IndexIgnore(_) | Self::Path(_) => "invalid",
            Self::Read { .. } | Self::Spool { .. } => "io",
            Self::Limit { .. } => "limit",
            Self::Empty(_) => "empty",
            Self::Legacy { source, .. } if source.is_limit() => "limit",
            Self::Legacy { .. } => "database",
            Self::Panicked(_) => "panic",
        }
    }
}

/// The files under `folder` in an image with the given layers, the lowest
/// first, and where their blobs lie. So many layers below those are covered.
pub(super) fn of_image(
    layers: &[(Descriptor, PathBuf)],
    covered: usize,
    folder: &str,
    limits: &Limits,
    temporary: &Path,
) -> Result<CatalogFiles, FilesError> {
    let mut spool = spool(temporary)?;
    let open = |number: usize| {
        let (descriptor, path) = &layers[number - covered];
        Ok(Layer {
            name: descriptor.digest.to_string(),
            // Verified again: what lies on a disk for months can rot.
            reader: VerifiedReader::new(File::open(path)?, descriptor),
        })
    };
    let all = covered..covered + layers.len();
    let tree = unpack::unpack(all, open, folder, limits, &mut spool)?;
    let content = map_spool(spool, temporary)?;
    let files = tree.files().iter().map(|file| {
        let start = file.offset as usize;
        let bytes = content.slice(start..start + file.size as usize);
        (file.path.clone(), bytes)
    });
    without_ignored(files.collect(), folder)
}

/// The digest of what a folder on disk (or the one file) holds: of its files'
/// paths and contents. The files are read side by side, since this is what a
/// start with a stored catalog waits for.
pub(super) fn digest_of_folder(root: &Path, limits: &Limits) -> Result<Digest, FilesError> {
    let files = list(root, limits)?;
    let next = AtomicUsize::new(0);
    let total = AtomicU64::new(0);
    let work = || {
        let mut buffer = vec![0; BUFFER];
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, location)) = files.get(number) else {
                return Ok::<_, FilesError>(done);
            };
            let digest = read_file(location, &mut buffer, |bytes| {
                let length = bytes.len() as u64;
                let total = total.fetch_add(length, Ordering::Relaxed) + length;
                check_size(total, path, limits)
            })?;
            done.push((number, digest));
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = workers.min(MAX_WORKERS).min(files.len()).max(1);
    let mut digests = vec![None; files.len()];
    thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut all = vec![work()];
        // A panic of a worker goes on here.
        all.extend(others.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }));
        for done in all {
            for (number, digest) in done? {
                digests[number] = Some(digest);
            }
        }
        Ok::<_, FilesError>(())
    })?;
    let mut all = Hasher::default();
    for ((path, _), digest) in files.iter().zip(digests.iter().flatten()) {
        add(&mut all, path, digest);
    }
    Ok(all.finish())
}

/// The files under a folder on disk, or the one file, and the digest of what
/// they held when they were copied.
pub(super) fn of_folder(
    root: &Path,
    limits: &Limits,
    temporary: &Path,
) -> Result<(Digest, CatalogFiles), FilesError> {
    let mut tries = 0;
    let (digest, ranges, spool) = loop {
        let before = Look::at(root, limits);
        let read = copy_folder(root, limits, temporary);
        tries += 1;
        // What was read while somebody wrote or swapped may be of no version
        // that ever was.
        if tries == MAX_TRIES
            || matches!((&before, Look::at(root, limits)), (Ok(a), Ok(b)) if *a == b)
        {
            break read?;
        }
        settle(root, limits)?;
    };
    let content = map_spool(spool, temporary)?;
    let files = ranges
        .into_iter()
        .map(|(path, range)| (path, content.slice(range)))
        .collect();
    let files = without_ignored(files, &root.display().to_string())?;
    Ok((digest, files))
}

fn copy_folder(
    root: &Path,
    limits: &Limits,
    temporary: &Path,
) -> Result<(Digest, Ranges, UnnamedFile), FilesError> {
    let mut spool = spool(temporary)?;
    let (digest, ranges) = read_folder(root, limits, |bytes| {
        spool.write_all(bytes).map_err(spooling(temporary))
    })?;
    Ok((digest, ranges, spool))
}

/// Files that are put together of lines, copied into a spool: what is read
/// lies in no heap.
pub(super) fn of_lines(
    files: &[(String, Vec<Bytes>)],
    limits: &Limits,
    temporary: &Path,
) -> Result<CatalogFiles, FilesError> {
    let mut spool = io::BufWriter::new(spool(temporary)?);
    let (mut ranges, mut total) = (Vec::with_capacity(files.len()), 0);
    for (path, lines) in files {
        let start = total;
        for line in lines {
            total += line.len() + 1;
            check_size(total as u64, path, limits)?;
            spool.write_all(line).map_err(spooling(temporary))?;
            spool.write_all(b"\n").map_err(spooling(temporary))?;
        }
        ranges.push(start..total);
    }
    let spool = spool.into_inner();
    let spool = spool.map_err(|error| spooling(temporary)(error.into_error()))?;
    let content = map_spool(spool, temporary)?;
    Ok(CatalogFiles {
        paths: files.iter().map(|(path, _)| path.clone()).collect(),
        contents: ranges
            .into_iter()
            .map(|range| content.slice(range))
            .collect(),
    })
}

type Ranges = Vec<(String, Range<usize>)>;

/// Reads all files in catalog order. Their bytes go to `take`, one after the
/// other; what is returned tells which range of them is which file.
fn read_folder(
    root: &Path,
    limits: &Limits,
    mut take: impl FnMut(&[u8]) -> Result<(), FilesError>,
) -> Result<(Digest, Ranges), FilesError> {
    let mut buffer = vec![0; BUFFER];
    let mut all = Hasher::default();
    let mut ranges = Vec::new();
    let mut total = 0;
    for (path, location) in list(root, limits)? {
        let start = total;
        let digest = read_file(&location, &mut buffer, |bytes| {
            total += bytes.len();
            check_size(total as u64, &path, limits)?;
            take(bytes)
        })?;
        add(&mut all, &path, &digest);
        ranges.push((path, start..total));
    }
    Ok((all.finish(), ranges))
}

/// A file's part in the digest of a folder.
fn add(all: &mut Hasher, path: &str, digest: &Digest) {
    all.update(&(path.len() as u64).to_le_bytes());
    all.update(path.as_bytes());
    all.update(digest.as_bytes());
}

fn read_file(
    location: &Path,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), FilesError>,
) -> Result<Digest, FilesError> {
    let mut file = File::open(location).map_err(reading(location))?;
    let mut hasher = Hasher::default();
    loop {
        let length = file.read(buffer).map_err(reading(location))?;
        if length == 0 {
            return Ok(hasher.finish());
        }
        take(&buffer[..length])?;
        hasher.update(&buffer[..length]);
    }
}

fn check_size(total: u64, path: &str, limits: &Limits) -> Result<(), FilesError> {
    if total > limits.folder_bytes {
        return Err(FilesError::Limit {
            what: "the size of the files, in bytes,",
            path: path.to_owned(),
            limit: limits.folder_bytes,
        });
    }
    Ok(())
}

/// The files of a folder in catalog order, or the one file: their paths below
/// it, and where they lie.
pub(super) fn list(root: &Path, limits: &Limits) -> Result<Vec<(String, PathBuf)>, FilesError> {
    let mut paths = Vec::new();
    let named = root;
    // What links lead to may be swapped meanwhile.
    let root = &real(root);
    if fs::metadata(root).map_err(reading(root))?.is_dir() {
        walk(root, "", limits, &mut paths)?;
        paths.sort_by(|(a, _), (b, _)| walk_order(a, b));
    } else {
        let name = named.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| FilesError::Path(root.to_owned()))?;
        paths.push((name.to_owned(), root.to_owned()));
    }
    Ok(paths)
}

/// Lists the files below a folder. Links to files are followed, links to
/// folders are not, and names that begin with `..` are passed over: Kubernetes
/// keeps the versions of a mounted `ConfigMap` there.
fn walk(
    folder: &Path,
    prefix: &str,
    limits: &Limits,
    paths: &mut Vec<(String, PathBuf)>,
) -> Result<(), FilesError> {
    for entry in fs::read_dir(folder).map_err(reading(folder))? {
        let entry = entry.map_err(reading(folder))?;
        let location = entry.path();
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| FilesError::Path(location.clone()))?;
        if name.starts_with("..") {
            continue;
        }
        let path = match prefix {
            "" => name,
            _ => format!("{prefix}/{name}"),
        };
        let kind = entry.file_type().map_err(reading(&location))?;
        if path.len() > limits.path {
            return Err(FilesError::Limit {
                what: "the length of the path",
                path,
                limit: limits.path as u64,
            });
        }
        if kind.is_dir() {
            walk(&location, &path, limits, paths)?;
        } else if fs::metadata(&location)
            .map_err(reading(&location))?
            .is_file()
        {
            if paths.len() as u64 >= limits.files {
                return Err(FilesError::Limit {
                    what: "the number of files",
                    path,
                    limit: limits.files,
                });
            }
            paths.push((path, location));
        }
    }
    Ok(())
}

fn without_ignored(files: Vec<(String, Bytes)>, folder: &str) -> Result<CatalogFiles, FilesError> {
    let is_ignore = |path: &str| path.rsplit('/').next() == Some(indexignore::FILE_NAME);
    let ignore = IndexIgnore::new(
        files
            .iter()
            .filter(|(path, _)| is_ignore(path))
            .map(|(path, content)| (path.as_str(), &content[..])),
    )?;
    let (paths, contents): (Vec<_>, Vec<_>) = files
        .into_iter()
        .filter(|(path, _)| !is_ignore(path) && !ignore.is_ignored(path))
        .unzip();
    if paths.is_empty() {
        return Err(FilesError::Empty(folder.to_owned()));
    }
    Ok(CatalogFiles { paths, contents })
}

/// A file without a name: gone when the last who has it open is.
pub(super) fn spool(folder: &Path) -> Result<UnnamedFile, FilesError> {
    UnnamedFile::new_in(folder).map_err(spooling(folder))
}

pub(super) fn map_spool(spool: UnnamedFile, folder: &Path) -> Result<Bytes, FilesError> {
    spool.map().map_err(spooling(folder))
}

fn reading(path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    let path = path.to_owned();
    move |source| FilesError::Read { path, source }
}

pub(super) fn spooling(folder: &Path) -> impl Fn(io::Error) -> FilesError {
    let path = folder.to_owned();
    move |source| FilesError::Spool {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_folder_is_that_of_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let package = folder.path().join(format!("package-{number}"));
            fs::create_dir(&package).unwrap();
            fs::write(package.join("catalog.json"), "x".repeat(number * 50_000)).unwrap();
        }
        let limits = Limits::default();
        let digest = || digest_of_folder(folder.path(), &limits).unwrap();
        let first = digest();
        assert_eq!(first, digest());
        let temporary = tempfile::tempdir().unwrap();
        let (copied, files) = of_folder(folder.path(), &limits, temporary.path()).unwrap();
        assert_eq!((copied, files.paths.len()), (first, 20));

        let (old, new) = ("package-3/catalog.json", "package-3/other.json");
        fs::rename(folder.path().join(old), folder.path().join(new)).unwrap();
        let renamed = digest();
        assert_ne!(renamed, first);
        fs::write(folder.path().join(new), "x".repeat(149_999) + "y").unwrap();
        assert_ne!(digest(), renamed);
    }

    #[test]
    fn a_folder_that_is_too_large_is_refused_however_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits::for_testing();
        let half = usize::try_from(limits.folder_bytes / 2 + 1).unwrap();
        for name in ["a", "b"] {
            fs::write(folder.path().join(name), "x".repeat(half)).unwrap();
        }
        let digest = digest_of_folder(folder.path(), &limits);
        let copy = of_folder(folder.path(), &limits, folder.path());
        for result in [digest.map(drop), copy.map(drop)] {
            let limit = matches!(result, Err(FilesError::Limit { limit, .. }) if limit == limits.folder_bytes);
            assert!(limit, "{result:?}");
        }
    }
}
