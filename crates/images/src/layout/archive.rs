//! Tar archives that are read where they lie: a list of their files, and each
//! of these as a part of the archive. Nothing is unpacked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

/// The size of a block, in bytes.
const BLOCK: u64 = 512;
/// The most entries of an archive.
const MAX_ENTRIES: usize = 100_000;
/// The longest name, and the longest extended header, in bytes.
const MAX_NAME: u64 = 4096;
const MAX_EXTENSION: u64 = 64 << 10;
/// How many links are followed to a file.
const MAX_LINKS: usize = 8;
/// The first bytes of archives that are compressed, and what by.
const COMPRESSIONS: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
];

/// An archive's files, by their names without `./` before them.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    entries: HashMap<String, Entry>,
}

/// One of them; of several with one name the last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File {
        offset: u64,
        size: u64,
    },
    /// The name of another.
    Link(String),
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be opened or read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no file.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// It would have to be unpacked first.
    #[error("{} is compressed with {compression}; unpack it first", path.display())]
    Compressed {
        /// The archive.
        path: PathBuf,
        /// What with.
        compression: &'static str,
    },
    /// It is no tar archive, or a damaged one.
    #[error("{} is no tar archive, or damaged: {problem} at byte {offset}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
        /// Where, in bytes.
        offset: u64,
    },
    /// More than is read.
    #[error("{} has too much: {what}; the limit is {limit}", path.display())]
    Limit {
        /// The archive.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// A file that is not there.
    #[error("{} has no file {name:?}", path.display())]
    Missing {
        /// The archive.
        path: PathBuf,
        /// The file.
        name: String,
    },
}

impl Archive {
    /// Reads the headers of an archive.
    pub(crate) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let read = |source| ArchiveError::Read {
            path: path.into(),
            source,
        };
        // A named pipe would make opening it wait for ever.
        if !std::fs::metadata(path).map_err(read)?.is_file() {
            return Err(ArchiveError::NoFile(path.into()));
        }
        let file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let entries = Walk {
            path,
            file,
            length,
            offset: 0,
        }
        .entries()?;
        Ok(Self {
            path: path.into(),
            entries,
        })
    }

    /// Where the archive lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file, and its size in bytes.
    pub(crate) fn file(&self, name: &str) -> Result<(Take<File>, u64), ArchiveError> {
        let (offset, size) = self.find(name)?;
        let read = |source| ArchiveError::Read {
            path: self.path.clone(),
            source,
        };
        let mut file = File::open(&self.path).map_err(read)?;
        file.seek(SeekFrom::Start(offset)).map_err(read)?;
        Ok((file.take(size), size))
    }

    fn find(&self, name: &str) -> Result<(u64, u64), ArchiveError> {
        let missing = || ArchiveError::Missing {
            path: self.path.clone(),
            name: name.chars().take(MAX_NAME as usize).collect(),
        };
        let mut at = clean(name).ok_or_else(missing)?;
        for _ in 0..MAX_LINKS {
            match self.entries.get(&at) {
                Some(Entry::File { offset, size }) => return Ok((*offset, *size)),
                Some(Entry::Link(target)) => at.clone_from(target),
                None => return Err(missing()),
            }
        }
        Err(missing())
    }
}

/// Goes over the headers.
struct Walk<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    offset: u64,
}

/// What extended headers say of the entry after them.
#[derive(Default)]
struct Extended {
    name: Option<String>,
    link: Option<String>,
    size: Option<u64>,
}

impl Walk<'_> {
    fn entries(mut self) -> Result<HashMap<String, Entry>, ArchiveError> {
        let mut entries = HashMap::new();
        let mut count = 0;
        let mut extended = Extended::default();
        while let Some(header) = self.header()? {
            count += 1;
            if count > MAX_ENTRIES {
                return Err(self.limit("entries", MAX_ENTRIES as u64));
            }
            let size = header.entry_size().map_err(|_| self.damaged("a size"))?;
            match header.entry_type() {
                EntryType::GNULongName => extended.name = Some(self.text(size)?),
                EntryType::GNULongLink => extended.link = Some(self.text(size)?),
                EntryType::XHeader => self.records(size, &mut extended)?,
                kind => {
                    let said = std::mem::take(&mut extended);
                    self.entry(&header, kind, said, &mut entries)?;
                }
            }
        }
        Ok(entries)
    }

    fn entry(
        &mut self,
        header: &Header,
        kind: EntryType,
        said: Extended,
        entries: &mut HashMap<String, Entry>,
    ) -> Result<(), ArchiveError> {
        let own = || String::from_utf8_lossy(&header.path_bytes()).into_owned();
        let name = clean(&said.name.unwrap_or_else(own));
        let size = match said.size {
            Some(size) => size,
            None => header.entry_size().map_err(|_| self.damaged("a size"))?,
        };
        let link = || {
            let own = || header.link_name_bytes();
            let own = || own().map(|link| String::from_utf8_lossy(&link).into_owned());
            said.link.or_else(own)
        };
        let entry = match kind {
            EntryType::Regular | EntryType::Continuous => Some(Entry::File {
                offset: self.offset,
                size,
            }),
            // From the top of the archive.
            EntryType::Link => link().and_then(|link| clean(&link)).map(Entry::Link),
            // From where it lies.
            EntryType::Symlink => link()
                .zip(name.as_deref())
                .and_then(|(link, name)| {
                    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                    clean(&format!("{folder}/{link}"))
                })
                .map(Entry::Link),
            _ => None,
        };
        // A link has no content, whatever its header says.
        let content = match kind {
            EntryType::Link | EntryType::Symlink | EntryType::Directory => 0,
            _ => size,
        };
        if let (Some(name), Some(entry)) = (name, entry) {
            entries.insert(name, entry);
        }
        self.skip(content)
    }

    /// The next header; nothing at the end.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        if self.offset == self.length {
            return Ok(None);
        }
        let mut header = Header::new_old();
        let at = self.offset;
        self.file
            .seek(SeekFrom::Start(at))
            .map_err(|source| self.read(source))?;
        if let Err(error) = self.file.read_exact(header.as_mut_bytes()) {
            return Err(match error.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged("a cut header"),
                _ => self.read(error),
            });
        }
        let bytes = header.as_bytes();
        if at == 0
            && let Some((_, compression)) = COMPRESSIONS
                .iter()
                .find(|(magic, _)| bytes.starts_with(magic))
        {
            return Err(ArchiveError::Compressed {
                path: self.path.into(),
                compression,
            });
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        // As it is summed: with spaces for the sum itself.
        let sum = bytes.iter().enumerate().map(|(at, &byte)| {
            let own = (148..156).contains(&at);
            u32::from(if own { b' ' } else { byte })
        });
        if header.cksum().ok() != Some(sum.sum()) {
            return Err(self.damaged("a header whose sum is wrong"));
        }
        self.offset += BLOCK;
        Ok(Some(header))
    }

    fn skip(&mut self, size: u64) -> Result<(), ArchiveError> {
        let end = self.offset.checked_add(size);
        let end = end.filter(|&end| end <= self.length);
        let end = end.ok_or_else(|| self.damaged("a cut file"))?;
        // The last padding may be missing.
        self.offset = end.next_multiple_of(BLOCK).min(self.length);
        Ok(())
    }

    fn extension(&mut self, size: u64, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > limit {
            return Err(self.limit("bytes of an extended header", limit));
        }
        let mut bytes = vec![0; size as usize];
        if self.file.read_exact(&mut bytes).is_err() {
            return Err(self.damaged("a cut extended header"));
        }
        self.skip(size)?;
        Ok(bytes)
    }

    fn text(&mut self, size: u64) -> Result<String, ArchiveError> {
        let bytes = self.extension(size, MAX_NAME)?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Records of PAX: `LENGTH KEY=VALUE\n`, the length that of the record.
    fn records(&mut self, size: u64, extended: &mut Extended) -> Result<(), ArchiveError> {
        let bytes = self.extension(size, MAX_EXTENSION)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let bad = || self.damaged("an extended header");
            let space = rest.iter().position(|&byte| byte == b' ').ok_or_else(bad)?;
            let length = std::str::from_utf8(&rest[..space]).ok();
            let length: usize = length.and_then(|text| text.parse().ok()).ok_or_else(bad)?;
            let record = rest.get(space + 1..length).ok_or_else(bad)?;
            rest = &rest[length..];
            let record = String::from_utf8_lossy(record);
            let (key, value) = record.split_once('=').ok_or_else(bad)?;
            let value = value.strip_suffix('\n').unwrap_or(value);
            match key {
                "path" => extended.name = Some(value.to_owned()),
                "linkpath" => extended.link = Some(value.to_owned()),
                "size" => extended.size = Some(value.parse().map_err(|_| bad())?),
                _ => {}
            }
        }
        Ok(())
    }

    fn damaged(&self, problem: &'static str) -> ArchiveError {
        ArchiveError::Damaged {
            path: self.path.into(),
            problem,
            offset: self.offset,
        }
    }

    fn limit(&self, what: &'static str, limit: u64) -> ArchiveError {
        ArchiveError::Limit {
            path: self.path.into(),
            what,
            limit,
        }
    }

    fn read(&self, source: io::Error) -> ArchiveError {
        ArchiveError::Read {
            path: self.path.into(),
            source,
        }
    }
}

/// A name without what says nothing; nothing when it leads out of the archive.
fn clean(name: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> tempfile::NamedTempFile {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        written(&builder.into_inner().unwrap())
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn add(builder: &mut tar::Builder<Vec<u8>>, name: &str, content: &str) {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        builder
            .append_data(&mut header, name, content.as_bytes())
            .unwrap();
    }

    fn link(builder: &mut tar::Builder<Vec<u8>>, kind: EntryType, name: &str, target: &str) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_link(&mut header, name, target).unwrap();
    }

    fn content(archive: &Archive, name: &str) -> Option<String> {
        let (mut file, size) = archive.file(name).ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, size);
        Some(text)
    }

    #[test]
    fn a_file_is_found_by_its_name_and_by_links_to_it() {
        let long = format!("{}/file", "long".repeat(60));
        let file = archive(|builder| {
            add(builder, "a/b", "first");
            add(builder, "a/b", "second");
            add(builder, &long, "long");
            link(builder, EntryType::Symlink, "c/d", "../a/b");
            link(builder, EntryType::Link, "e", "a/b");
            link(builder, EntryType::Symlink, "out", "../../etc/passwd");
            link(builder, EntryType::Symlink, "loop", "loop");
        });
        let archive = Archive::open(file.path()).unwrap();
        for name in ["a/b", "./a/b", "c/d", "e"] {
            assert_eq!(content(&archive, name).as_deref(), Some("second"), "{name}");
        }
        assert_eq!(content(&archive, &long).as_deref(), Some("long"));
        for name in ["a", "out", "loop", "", "../a/b", "etc/passwd"] {
            assert!(archive.find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_name_in_an_extended_header_counts() {
        let file = archive(|builder| {
            builder
                .append_pax_extensions([("path", b"blobs/x".as_slice())])
                .unwrap();
            add(builder, "short", "content");
        });
        let archive = Archive::open(file.path()).unwrap();
        assert_eq!(content(&archive, "blobs/x").as_deref(), Some("content"));
        assert!(archive.find("short").is_err());
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let error = |bytes: &[u8]| {
            let file = written(bytes);
            Archive::open(file.path()).unwrap_err().to_string()
        };
        assert!(error(b"schema: olm.package").contains("cut header"));
        assert!(error(&[b'x'; 1024]).contains("sum is wrong"));
        let mut gzip = b"\x1f\x8b".to_vec();
        gzip.resize(1024, 0);
        assert!(error(&gzip).contains("compressed with gzip"));
        let whole = {
            let file = archive(|builder| add(builder, "a", &"x".repeat(2000)));
            std::fs::read(file.path()).unwrap()
        };
        assert!(error(&whole[..1024]).contains("cut file"));
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            Archive::open(folder.path()),
            Err(ArchiveError::NoFile(_))
        ));
    }

    #[test]
    fn an_archive_of_ever_more_entries_is_given_up() {
        let mut header = Header::new_gnu();
        header.set_size(0);
        header.set_cksum();
        let file = written(&header.as_bytes().repeat(MAX_ENTRIES + 1));
        let error = Archive::open(file.path()).unwrap_err().to_string();
        assert!(error.contains("entries; the limit is 100000"), "{error}");
    }

    #[test]
    fn a_huge_extended_header_is_refused_unread() {
        let file = archive(|builder| {
            let value = vec![b'a'; 1 << 20];
            builder
                .append_pax_extensions([("comment", value.as_slice())])
                .unwrap();
            add(builder, "a", "b");
        });
        let error = Archive::open(file.path()).unwrap_err();
        assert!(matches!(error, ArchiveError::Limit { .. }), "{error}");
    }
}
