//! The files of a catalog from any source, as slices of one memory map.
//!
//! Files of an image are unpacked into a spool file, files of a folder are
//! copied into one. The spool is mapped and has no name. So the files cannot
//! change while they are read, take no heap, and leave nothing behind.
//!
//! A pass does without a spool where it can: the files are read while they come.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;

use crate::ingest::files_error::{FilesError, reading, spooling};
use crate::ingest::folder::listing::{FolderRules, list};
use crate::ingest::folder::open_beneath::Location;
use crate::ingest::read::file_cutter::FileCutter;
use crate::ingest::read::ordered::{Ahead, ordered};
use crate::ingest::read::read_files::{FileState, ReadFiles};
use crate::map::UnnamedFile;
use crate::snapshot::KnownPieces;
use ::images::digest::{Digest, Hasher};
use ::images::layers::{ContentSink as _, Layer, Limits, UnpackError};
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
pub(crate) struct CatalogFiles {
    /// Paths below the catalog folder.
    pub(crate) paths: Vec<String>,
    /// Their contents.
    pub(crate) contents: Vec<Bytes>,
    /// What an earlier revision has.
    pub(crate) known: Option<Arc<KnownPieces>>,
}

impl CatalogFiles {
    pub(crate) fn new(paths: Vec<String>, contents: Vec<Bytes>) -> Self {
        Self {
            paths,
            contents,
            known: None,
        }
    }
}

/// The layers of an image with the paths of their blobs, the lowest first.
pub(crate) struct ImageLayers<'a> {
    pub(crate) layers: &'a [(Descriptor, PathBuf)],
    /// How many more layers are below them.
    pub(crate) covered: usize,
}

impl ImageLayers<'_> {
    /// The files under `folder`.
    pub(crate) fn files(
        &self,
        folder: &str,
        limits: &Limits,
        temporary: &Path,
    ) -> Result<CatalogFiles, FilesError> {
        let mut spool = spool(temporary)?;
        let files = unpack::unpack(self.all(), self.open(), folder, limits, &mut spool)?;
        let content = spool.map().map_err(spooling(temporary))?;
        let slices = files.into_iter().map(|file| {
            let bytes = part_of(&content, file.offset, file.size);
            (file.path, bytes)
        });
        without_ignored(slices.collect(), folder)
    }

    /// Gives the files under `folder` to a feed.
    pub(crate) fn feed(
        &self,
        folder: &str,
        limits: &Limits,
        feed: &mut FileCutter<'_>,
    ) -> Result<(), FilesError> {
        let files = unpack::unpack_into(self.all(), self.open(), folder, limits, feed)?;
        feed.compare(&files);
        Ok(())
    }

    fn all(&self) -> Range<usize> {
        self.covered..self.covered + self.layers.len()
    }

    fn open(&self) -> impl FnMut(usize) -> io::Result<Layer<VerifiedReader<File>>> {
        |number: usize| {
            let (descriptor, path) = &self.layers[number - self.covered];
            Ok(Layer {
                name: descriptor.digest.to_string(),
                // Verified again: files on a disk can rot.
                reader: VerifiedReader::new(File::open(path)?, descriptor),
            })
        }
    }
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
pub(crate) fn digest_of_folder(root: &Path, rules: &FolderRules) -> Result<Digest, FilesError> {
    let total = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all = Hasher::default();
    let files = list(root, rules)?;
    let ahead = Ahead {
        workers: workers.min(MAX_WORKERS),
        window: WINDOW,
    };
    ordered(
        ahead,
        || vec![0; BUFFER],
        |buffer, (path, location): (String, Location)| {
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
        |push| files.into_iter().all(|file| push(file).is_ok()),
    )?;
    Ok(all.finish())
}

/// A folder on disk, or one file.
pub(crate) struct FolderFiles<'a> {
    pub(crate) root: &'a Path,
    pub(crate) rules: &'a FolderRules,
    /// What earlier passes have read.
    pub(crate) earlier: &'a ReadFiles,
    /// What the served revision has.
    pub(crate) known: Option<&'a KnownPieces>,
}

/// What was read of each file, in the order of the catalog.
pub(crate) type FilesRead = Vec<(String, FileState, Digest)>;

impl FolderFiles<'_> {
    /// Gives the files to a feed. Returns their digest, and what was read.
    pub(crate) fn feed(
        &self,
        feed: &mut FileCutter<'_>,
    ) -> Result<(Digest, FilesRead), FilesError> {
        let mut all = Hasher::default();
        let mut total = 0;
        let mut files = Vec::new();
        for (path, location) in list(self.root, self.rules)? {
            let (state, digest) = match self.feed_unchanged(&path, &location, feed)? {
                Some(unchanged) => unchanged,
                None => self.feed_file(&path, &location, total, feed)?,
            };
            total += state.size;
            check_size(total, &path, &self.rules.limits)?;
            add(&mut all, &path, &digest);
            files.push((path, state, digest));
        }
        feed.expect_files();
        Ok((all.finish(), files))
    }

    /// A file that did not change since an earlier pass, from the served revision.
    fn feed_unchanged(
        &self,
        path: &str,
        location: &Location,
        feed: &mut FileCutter<'_>,
    ) -> Result<Option<(FileState, Digest)>, FilesError> {
        let Some(known) = self.known.filter(|_| !self.earlier.is_empty()) else {
            return Ok(None);
        };
        let metadata = location.metadata().map_err(reading(&location.path()))?;
        let state = FileState::from_metadata(&metadata);
        let Some((file, pieces)) = self.earlier.find(path, state, known) else {
            return Ok(None);
        };
        feed.add_done(path, pieces).map_err(nobody_reads)?;
        Ok(Some((state, file.digest)))
    }

    /// Reads a file, of which `before` bytes come before it.
    fn feed_file(
        &self,
        path: &str,
        location: &Location,
        before: u64,
        feed: &mut FileCutter<'_>,
    ) -> Result<(FileState, Digest), FilesError> {
        feed.begin(path).map_err(nobody_reads)?;
        let (mut file, metadata) = open_file(location)?;
        let mut hasher = Hasher::default();
        loop {
            let buffer = feed.room().map_err(nobody_reads)?;
            let length = file.read(buffer).map_err(reading(&location.path()))?;
            if length == 0 {
                break;
            }
            hasher.update(&buffer[..length]);
            check_size(before + hasher.size(), path, &self.rules.limits)?;
            feed.advance(length).map_err(nobody_reads)?;
        }
        feed.end().map_err(nobody_reads)?;
        let state = FileState::from_metadata(&metadata).with_size(hasher.size());
        Ok((state, hasher.finish()))
    }
}

/// The feed is at its end. The reason for that is told by who reads the pieces.
fn nobody_reads(source: io::Error) -> FilesError {
    FilesError::Unpack(UnpackError::Spool(source))
}

/// The files under a folder on disk, or the one file, in a spool.
pub(crate) struct FolderCopy {
    digest: Digest,
    ranges: Ranges,
    spool: UnnamedFile,
}

impl FolderCopy {
    /// Copies all files of a folder in catalog order.
    pub(crate) fn new(
        root: &Path,
        rules: &FolderRules,
        temporary: &Path,
    ) -> Result<Self, FilesError> {
        let mut spool = spool(temporary)?;
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
            ranges.push((path, start..total));
        }
        Ok(Self {
            digest: all.finish(),
            ranges,
            spool,
        })
    }

    /// The files, and their digest.
    pub(crate) fn files(
        self,
        root: &Path,
        temporary: &Path,
    ) -> Result<(Digest, CatalogFiles), FilesError> {
        let content = self.spool.map().map_err(spooling(temporary))?;
        let files = slices(self.ranges, &content);
        let files = without_ignored(files, &root.display().to_string())?;
        Ok((self.digest, files))
    }
}

/// Files that consist of lines, copied into a spool.
pub(crate) fn from_lines(
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
pub(crate) type Ranges = Vec<(String, Range<usize>)>;

/// The contents of files in a spool.
pub(crate) fn slices(ranges: Ranges, spool: &Bytes) -> Vec<(String, Bytes)> {
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
    let (mut file, _) = open_file(location)?;
    let mut hasher = Hasher::default();
    loop {
        let length = file.read(buffer).map_err(reading(&location.path()))?;
        if length == 0 {
            return Ok(hasher.finish());
        }
        take(&buffer[..length])?;
        hasher.update(&buffer[..length]);
    }
}

fn open_file(location: &Location) -> Result<(File, Metadata), FilesError> {
    let file = location.open().map_err(reading(&location.path()))?;
    let path = &location.path();
    let metadata = file.metadata().map_err(reading(path))?;
    if !metadata.is_file() {
        let replaced = io::Error::other("it was a file before and is none now");
        return Err(reading(path)(replaced));
    }
    Ok((file, metadata))
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
    let files = files.into_iter().filter(|(path, _)| !is_ignore(path));
    let mut hidden = 0;
    let (paths, contents): (Vec<_>, Vec<_>) = files
        .filter(|(path, _)| {
            let is_ignored = ignore.is_ignored(path);
            hidden += usize::from(is_ignored);
            !is_ignored
        })
        .unzip();
    let folder = folder.to_owned();
    match (paths.is_empty(), hidden) {
        (false, _) => Ok(CatalogFiles::new(paths, contents)),
        (true, 0) => Err(FilesError::Empty(folder)),
        (true, files) => Err(FilesError::Hidden { folder, files }),
    }
}

/// A file without a name, removed once nobody has it open.
pub(crate) fn spool(folder: &Path) -> Result<UnnamedFile, FilesError> {
    UnnamedFile::new_in(folder).map_err(spooling(folder))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ingest::folder::listing::FolderOptions;

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
        let copy = FolderCopy::new(folder.path(), &rules, temporary.path()).unwrap();
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
    fn a_folder_whose_files_are_all_ignored_says_so() {
        let error = |files: &[(&str, &'static [u8])]| {
            let files = files.iter();
            let files = files.map(|(path, bytes)| ((*path).to_owned(), Bytes::from_static(bytes)));
            without_ignored(files.collect(), "/configs").err().unwrap()
        };
        let hidden = error(&[
            (".indexignore", b"**/*"),
            ("a.yaml", b""),
            ("b/c.yaml", b""),
        ]);
        assert!(hidden.is_refusal());
        assert_eq!(hidden.reason(), "empty");
        let said = ".indexignore hides all 2 files of the catalog folder \"/configs\"";
        assert!(hidden.to_string().starts_with(said), "{hidden}");
        let empty = error(&[(".indexignore", b"**/*")]);
        assert!(matches!(empty, FilesError::Empty(_)), "{empty}");
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
        let copy = FolderCopy::new(folder.path(), &rules, folder.path());
        for result in [digest.map(drop), copy.map(drop)] {
            let limit = matches!(result, Err(FilesError::Limit { limit, .. }) if limit == limits.folder_bytes);
            assert!(limit, "{result:?}");
        }
    }
}
