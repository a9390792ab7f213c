//! Reading files inside a tar archive, without unpacking it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use crate::display::clip;
use crate::layers::{
    Budget, Damage, EntryKind, Fault, Limits, MAGIC, TarEntries, TarSource, compression,
};
use crate::layout::error::LayoutError;
use crate::layout::files::open_file;

/// The most entries of an archive.
const MAX_ENTRIES: u64 = 100_000;
/// The longest name, in bytes.
const MAX_NAME: usize = 4096;
/// The most links that lead to a file.
const MAX_LINKS: usize = 8;

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

impl TarFiles {
    /// Reads the headers of an archive.
    pub(in crate::layout) fn open(path: &Path) -> Result<Self, LayoutError> {
        let read = |source| LayoutError::Read {
            path: path.into(),
            source,
        };
        let (mut file, length) = open_file(path)?;
        let mut magic = Vec::with_capacity(MAGIC);
        (&mut file)
            .take(MAGIC as u64)
            .read_to_end(&mut magic)
            .map_err(read)?;
        if let Some(compression) = compression(&magic) {
            let path = path.into();
            return Err(LayoutError::Compressed { path, compression });
        }
        file.rewind().map_err(read)?;
        let source = ArchiveFile {
            file,
            length,
            offset: 0,
        };
        Ok(Self {
            path: path.into(),
            entries: entries(path, source)?,
        })
    }

    /// The path of the archive.
    pub(in crate::layout) fn path(&self) -> &Path {
        &self.path
    }

    /// A file, and its size in bytes.
    pub(in crate::layout) fn file(&self, name: &str) -> Result<(Take<File>, u64), LayoutError> {
        let (offset, size) = self.find(name)?;
        let read = |source| LayoutError::Read {
            path: self.path.clone(),
            source,
        };
        let mut file = File::open(&self.path).map_err(read)?;
        file.seek(SeekFrom::Start(offset)).map_err(read)?;
        Ok((file.take(size), size))
    }

    fn find(&self, name: &str) -> Result<(u64, u64), LayoutError> {
        let missing = || LayoutError::Missing {
            path: self.path.clone(),
            name: clip(name, MAX_NAME),
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

/// An archive of which only the headers are read.
struct ArchiveFile {
    file: File,
    length: u64,
    offset: u64,
}

impl TarSource for ArchiveFile {
    const CHECKS_TRAILER: bool = false;

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let count = self.file.read(buffer).map_err(Fault::Stored)?;
        self.offset += count as u64;
        Ok(count)
    }

    fn seek(&mut self, most: u64) -> Result<u64, Fault> {
        let count = most.min(self.length.saturating_sub(self.offset));
        let to = SeekFrom::Start(self.offset + count);
        self.offset = self.file.seek(to).map_err(Fault::Stored)?;
        Ok(count)
    }
}

fn entries(path: &Path, source: ArchiveFile) -> Result<HashMap<String, Entry>, LayoutError> {
    let limits = Limits {
        entries: MAX_ENTRIES,
        bytes: u64::MAX,
        ..Limits::default()
    };
    let mut budget = Budget::default();
    let mut archive = TarEntries::new(source, &limits, &mut budget);
    let limit = |what, limit| LayoutError::Limit {
        path: path.into(),
        what,
        limit,
    };
    let mut entries = HashMap::new();
    loop {
        let entry = match archive.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(entries),
            Err(Fault::Exceeded(_)) => return Err(limit("entries", MAX_ENTRIES)),
            Err(Fault::Damage(Damage::LongExtension { limit: most, .. })) => {
                return Err(limit("bytes of an extended header", most));
            }
            Err(Fault::Damage(damage)) => {
                return Err(LayoutError::Damaged {
                    path: path.into(),
                    damage,
                    offset: archive.source().offset,
                });
            }
            Err(Fault::Stored(source)) => {
                let path = path.into();
                return Err(LayoutError::Read { path, source });
            }
        };
        if archive.path().len().max(archive.link().len()) > MAX_NAME {
            return Err(limit("bytes of a name", MAX_NAME as u64));
        }
        let Some(name) = clean(&String::from_utf8_lossy(archive.path())) else {
            continue;
        };
        let link = String::from_utf8_lossy(archive.link());
        let entry = match entry.kind {
            EntryKind::File => Some(Entry::File {
                offset: archive.source().offset,
                size: entry.size,
            }),
            // Relative to the top of the archive.
            EntryKind::Hardlink => clean(&link).map(Entry::Link),
            // Relative to its own folder.
            EntryKind::Symlink => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                clean(&format!("{folder}/{link}")).map(Entry::Link)
            }
            _ => None,
        };
        entries.extend(entry.map(|entry| (name, entry)));
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
