//! The files of a catalog from any source, as slices of one memory map.
//!
//! Files of an image are unpacked into a spool file, files of a folder are
//! copied into one. The spool is mapped and has no name. So the files cannot
//! change while they are read, take no heap, and leave nothing behind.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;

use crate::ingest::beneath::Location;
use crate::ingest::early::{Early, EarlyFiles, beside};
use crate::ingest::files_error::{FilesError, reading, spooling};
use crate::ingest::folder_listing::{FolderRules, list};
use crate::ingest::ordered::ordered;
use crate::map::UnnamedFile;
use crate::snapshot::KnownPieces;
use ::images::digest::{Digest, Hasher};
use ::images::layers::{Layer, Limits, SpoolFile as _};
use ::images::verify::VerifiedReader;
use ::images::{Descriptor, layers as unpack};
use fbc::indexignore;
use fbc::indexignore::IndexIgnore;

/// Bytes per read.
const BUFFER: usize = 256 << 10;
/// The most files that are read in parallel.
const MAX_WORKERS: usize = 4;

/// The number of files by which workers may be ahead.
const WINDOW: usize = 64;

/// The files of a catalog in catalog order, without those to ignore.
pub(super) struct CatalogFiles {
    /// Paths below the catalog folder.
    pub(super) paths: Vec<String>,
    /// Their contents.
    pub(super) contents: Vec<Bytes>,
    /// What was read of them while they were unpacked.
    pub(super) early: Early,
    /// What an earlier revision has.
    pub(super) known: Option<Arc<KnownPieces>>,
}

impl CatalogFiles {
    pub(super) fn new(paths: Vec<String>, contents: Vec<Bytes>) -> Self {
        Self {
            paths,
            contents,
            early: Early::default(),
            known: None,
        }
    }
}

/// The files under `folder` in an image. `layers` has the layers with the paths
/// of their blobs, the lowest first; `covered` more layers are below them. Pieces
/// that are `known` are not read again.
pub(super) fn of_image(
    layers: &[(Descriptor, PathBuf)],
    covered: usize,
    folder: &str,
    limits: &Limits,
    temporary: &Path,
    known: Option<Arc<KnownPieces>>,
) -> Result<CatalogFiles, FilesError> {
    let mut spool = spool(temporary)?;
    let open = |number: usize| {
        let (descriptor, path) = &layers[number - covered];
        Ok(Layer {
            name: descriptor.digest.to_string(),
            // Verified again: files on a disk can rot.
            reader: VerifiedReader::new(File::open(path)?, descriptor),
        })
    };
    let all = covered..covered + layers.len();
    let written = beside(&mut spool, known.as_deref(), |spool| {
        unpack::unpack(all, open, folder, limits, spool)
    });
    let (files, found) = written.map_err(spooling(temporary))?;
    let content = spool.map().map_err(spooling(temporary))?;
    let (mut slices, mut places) = (Vec::new(), HashMap::new());
    for file in files? {
        places.insert(file.path.clone(), file.offset..file.offset + file.size);
        let bytes = part_of(&content, file.offset, file.size);
        slices.push((file.path, bytes));
    }
    let mut files = without_ignored(slices, folder)?;
    let Some(early) = early(found, &files.paths, places) else {
        // Links share the place of a file that was left out.
        return of_image(layers, covered, folder, limits, temporary, None);
    };
    (files.early, files.known) = (early, known);
    Ok(files)
}

/// What was read early of the files that are left. `None` when some have to be
/// unpacked again.
fn early(
    found: EarlyFiles,
    paths: &[String],
    mut places: HashMap<String, Range<u64>>,
) -> Option<Early> {
    Early::of(found, paths.iter().map(|path| places.remove(path)))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the part was written to the spool, which is mapped, so it fits into memory"
)]
fn part_of(spool: &Bytes, offset: u64, size: u64) -> Bytes {
    let start = offset as usize;
    spool.slice(start..start + size as usize)
}

/// The digest of a folder on disk, or of the one file: of the paths and contents
/// of its files. They are read in parallel, since a start with a stored catalog
/// waits for this.
pub(super) fn digest_of_folder(root: &Path, rules: &FolderRules) -> Result<Digest, FilesError> {
    let total = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all = Hasher::default();
    ordered(
        list(root, rules)?.into_iter(),
        workers.min(MAX_WORKERS),
        WINDOW,
        || vec![0; BUFFER],
        |buffer, (path, location)| {
            let digest = read_file(&location, buffer, |bytes| {
                let length = bytes.len() as u64;
                let total = total.fetch_add(length, Ordering::Relaxed) + length;
                check_size(total, &path, &rules.limits)
            });
            digest.map(|digest| (path, digest))
        },
        |read| {
            let (path, digest) = read?;
            add(&mut all, &path, &digest);
            Ok::<_, FilesError>(())
        },
    )?;
    Ok(all.finish())
}

/// The files under a folder on disk, or the one file, in a spool.
pub(super) struct FolderCopy {
    digest: Digest,
    ranges: Ranges,
    spool: UnnamedFile,
    early: EarlyFiles,
    known: Option<Arc<KnownPieces>>,
}

impl FolderCopy {
    /// Copies all files of a folder in catalog order. Pieces that are `known` are not
    /// read again.
    pub(super) fn of(
        root: &Path,
        rules: &FolderRules,
        temporary: &Path,
        known: Option<Arc<KnownPieces>>,
    ) -> Result<Self, FilesError> {
        let mut spool = spool(temporary)?;
        let (copied, early) = beside(&mut spool, known.as_deref(), |spool| {
            let mut buffer = vec![0; BUFFER];
            let mut all = Hasher::default();
            let mut ranges = Vec::new();
            let mut total = 0;
            for (path, location) in list(root, rules)? {
                let start = total;
                let digest = read_file(&location, &mut buffer, |bytes| {
                    total += bytes.len();
                    check_size(total as u64, &path, &rules.limits)?;
                    spool.write_all(bytes).map_err(spooling(temporary))
                })?;
                add(&mut all, &path, &digest);
                spool.holds(&path, start as u64..total as u64);
                ranges.push((path, start..total));
            }
            Ok::<_, FilesError>((all.finish(), ranges))
        })
        .map_err(spooling(temporary))?;
        let (digest, ranges) = copied?;
        Ok(Self {
            digest,
            ranges,
            spool,
            early,
            known,
        })
    }

    /// The files, and their digest.
    pub(super) fn files(
        self,
        root: &Path,
        temporary: &Path,
    ) -> Result<(Digest, CatalogFiles), FilesError> {
        let content = self.spool.map().map_err(spooling(temporary))?;
        let place = |range: &Range<usize>| range.start as u64..range.end as u64;
        let places = self.ranges.iter();
        let places = places.map(|(path, range)| (path.clone(), place(range)));
        let places = places.collect();
        let files = slices(self.ranges, &content);
        let mut files = without_ignored(files, &root.display().to_string())?;
        // Each file has a place of its own.
        files.early = early(self.early, &files.paths, places)
            .ok_or_else(|| spooling(temporary)(io::Error::other("files share their place")))?;
        files.known = self.known;
        Ok((self.digest, files))
    }
}

/// Files that consist of lines, copied into a spool.
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
        ranges.push((path.clone(), start..total));
    }
    let content = UnnamedFile::map_buffered(spool).map_err(spooling(temporary))?;
    let (paths, contents) = slices(ranges, &content).into_iter().unzip();
    Ok(CatalogFiles::new(paths, contents))
}

/// Paths, and the ranges of their contents in a spool.
pub(super) type Ranges = Vec<(String, Range<usize>)>;

/// The contents of files in a spool.
pub(super) fn slices(ranges: Ranges, spool: &Bytes) -> Vec<(String, Bytes)> {
    let files = ranges.into_iter();
    files
        .map(|(path, range)| (path, spool.slice(range)))
        .collect()
}

/// A file's part in the digest of a folder.
fn add(all: &mut Hasher, path: &str, digest: &Digest) {
    all.update(&(path.len() as u64).to_le_bytes());
    all.update(path.as_bytes());
    all.update(digest.as_bytes());
}

fn read_file(
    location: &Location,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), FilesError>,
) -> Result<Digest, FilesError> {
    let mut file = location.open().map_err(reading(&location.path()))?;
    let location = &location.path();
    if !file.metadata().map_err(reading(location))?.is_file() {
        let replaced = io::Error::other("it was a file before and is none now");
        return Err(reading(location)(replaced));
    }
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
    Ok(CatalogFiles::new(paths, contents))
}

/// A file without a name, removed once nobody has it open.
pub(super) fn spool(folder: &Path) -> Result<UnnamedFile, FilesError> {
    UnnamedFile::new_in(folder).map_err(spooling(folder))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ingest::folder_listing::FolderOptions;

    #[test]
    fn the_digest_of_a_folder_is_that_of_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let package = folder.path().join(format!("package-{number}"));
            fs::create_dir(&package).unwrap();
            fs::write(package.join("catalog.json"), "x".repeat(number * 50_000)).unwrap();
        }
        let rules = FolderRules::default();
        let digest = || digest_of_folder(folder.path(), &rules).unwrap();
        let first = digest();
        assert_eq!(first, digest());
        let temporary = tempfile::tempdir().unwrap();
        let copy = FolderCopy::of(folder.path(), &rules, temporary.path(), None).unwrap();
        let (copied, files) = copy.files(folder.path(), temporary.path()).unwrap();
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
        let rules = FolderRules::new(&FolderOptions::default(), &Limits::for_testing());
        let limits = &rules.limits;
        let half = usize::try_from(limits.folder_bytes / 2 + 1).unwrap();
        for name in ["a", "b"] {
            fs::write(folder.path().join(name), "x".repeat(half)).unwrap();
        }
        let digest = digest_of_folder(folder.path(), &rules);
        let copy = FolderCopy::of(folder.path(), &rules, folder.path(), None);
        for result in [digest.map(drop), copy.map(drop)] {
            let limit = matches!(result, Err(FilesError::Limit { limit, .. }) if limit == limits.folder_bytes);
            assert!(limit, "{result:?}");
        }
    }
}
