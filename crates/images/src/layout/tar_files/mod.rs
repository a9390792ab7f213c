//! Reading files inside a tar archive, without unpacking it.

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
const MAX_NAME: usize = 4096;
const MAX_EXTENSION: u64 = 64 << 10;
/// The most links that lead to a file.
const MAX_LINKS: usize = 8;
/// The first bytes of compressed archives, and the compression.
const COMPRESSIONS: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
];

/// The files of an archive, by their names without a leading `./`.
#[derive(Clone, Debug)]
pub(in crate::layout) struct TarFiles {
    path: PathBuf,
    entries: HashMap<String, Entry>,
}

/// One of them. The last entry with a name replaces the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File {
        offset: u64,
        size: u64,
    },
    /// The name of another entry.
    Link(String),
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The archive cannot be opened or read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The archive.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The path is no regular file.
    #[error("{} is no regular file", .0.display())]
    NoFile(PathBuf),
    /// The archive is compressed.
    #[error("{} is compressed with {compression}; unpack it first", path.display())]
    Compressed {
        /// The archive.
        path: PathBuf,
        /// The compression.
        compression: &'static str,
    },
    /// The file is no tar archive, or damaged.
    #[error("{} is no tar archive, or damaged: {problem} at byte {offset}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
        /// Its position, in bytes.
        offset: u64,
    },
    /// A limit is exceeded.
    #[error("{} has too many {what}; the limit is {limit}", path.display())]
    Limit {
        /// The archive.
        path: PathBuf,
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A missing file.
    #[error("{} has no file {name:?}", path.display())]
    Missing {
        /// The archive.
        path: PathBuf,
        /// The file.
        name: String,
    },
}

impl TarFiles {
    /// Reads the headers of an archive.
    pub(in crate::layout) fn open(path: &Path) -> Result<Self, TarError> {
        let read = |source| TarError::Read {
            path: path.into(),
            source,
        };
        // Opening a named pipe would block for ever.
        if !std::fs::metadata(path).map_err(read)?.is_file() {
            return Err(TarError::NoFile(path.into()));
        }
        let file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let entries = HeaderScan {
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

    /// The path of the archive.
    pub(in crate::layout) fn path(&self) -> &Path {
        &self.path
    }

    /// A file, and its size in bytes.
    pub(in crate::layout) fn file(&self, name: &str) -> Result<(Take<File>, u64), TarError> {
        let (offset, size) = self.find(name)?;
        let read = |source| TarError::Read {
            path: self.path.clone(),
            source,
        };
        let mut file = File::open(&self.path).map_err(read)?;
        file.seek(SeekFrom::Start(offset)).map_err(read)?;
        Ok((file.take(size), size))
    }

    fn find(&self, name: &str) -> Result<(u64, u64), TarError> {
        let missing = || TarError::Missing {
            path: self.path.clone(),
            name: name.chars().take(MAX_NAME).collect(),
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

/// Reads the headers in order.
struct HeaderScan<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    offset: u64,
}

/// The extended headers of the next entry.
#[derive(Default)]
struct ExtendedHeader {
    name: Option<String>,
    link: Option<String>,
    size: Option<u64>,
}

impl HeaderScan<'_> {
    fn entries(mut self) -> Result<HashMap<String, Entry>, TarError> {
        let mut entries = HashMap::new();
        let mut count = 0;
        let mut extended = ExtendedHeader::default();
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
        said: ExtendedHeader,
        entries: &mut HashMap<String, Entry>,
    ) -> Result<(), TarError> {
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
            // Relative to the top of the archive.
            EntryType::Link => link().and_then(|link| clean(&link)).map(Entry::Link),
            // Relative to its own folder.
            EntryType::Symlink => link()
                .zip(name.as_deref())
                .and_then(|(link, name)| {
                    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                    clean(&format!("{folder}/{link}"))
                })
                .map(Entry::Link),
            _ => None,
        };
        // A link has no content, despite the size in its header.
        let content = match kind {
            EntryType::Link | EntryType::Symlink | EntryType::Directory => 0,
            _ => size,
        };
        if let (Some(name), Some(entry)) = (name, entry) {
            entries.insert(name, entry);
        }
        self.skip(content)
    }

    /// The next header; none at the end.
    fn header(&mut self) -> Result<Option<Header>, TarError> {
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
            return Err(TarError::Compressed {
                path: self.path.into(),
                compression,
            });
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        // The checksum is computed with spaces in its own place.
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

    fn skip(&mut self, size: u64) -> Result<(), TarError> {
        let end = self.offset.checked_add(size);
        let end = end.filter(|&end| end <= self.length);
        let end = end.ok_or_else(|| self.damaged("a cut file"))?;
        // The last padding can be missing.
        self.offset = end.next_multiple_of(BLOCK).min(self.length);
        Ok(())
    }

    fn extension(&mut self, size: u64, limit: u64) -> Result<Vec<u8>, TarError> {
        if size > limit {
            return Err(self.limit("bytes of an extended header", limit));
        }
        let length = usize::try_from(size).map_err(|_| self.damaged("a size"))?;
        let mut bytes = vec![0; length];
        if self.file.read_exact(&mut bytes).is_err() {
            return Err(self.damaged("a cut extended header"));
        }
        self.skip(size)?;
        Ok(bytes)
    }

    fn text(&mut self, size: u64) -> Result<String, TarError> {
        let bytes = self.extension(size, MAX_NAME as u64)?;
        // A split has at least one part.
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// PAX records: `LENGTH KEY=VALUE\n`, with the length of the whole record.
    fn records(&mut self, size: u64, extended: &mut ExtendedHeader) -> Result<(), TarError> {
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

    fn damaged(&self, problem: &'static str) -> TarError {
        TarError::Damaged {
            path: self.path.into(),
            problem,
            offset: self.offset,
        }
    }

    fn limit(&self, what: &'static str, limit: u64) -> TarError {
        TarError::Limit {
            path: self.path.into(),
            what,
            limit,
        }
    }

    fn read(&self, source: io::Error) -> TarError {
        TarError::Read {
            path: self.path.into(),
            source,
        }
    }
}

/// A normalised name; none if it leads out of the archive.
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
mod tests;
