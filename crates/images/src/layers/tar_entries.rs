//! Reading the entries of one tar archive.
//!
//! Headers come from the `tar` crate. Its iterator is not used: it reads GNU
//! long names and PAX records of any size into memory, and finds PAX keys inside
//! binary values. Where tar's dialects differ, the rules are those of Go's
//! reader: links, folders and devices have no contents, a PAX size replaces the
//! header's, and a GNU long name replaces the PAX path.

use std::io;

use tar::{EntryType, GnuExtSparseHeader, Header};

use crate::layers::error::{Damage, Exceeded};
use crate::layers::limits::{Budget, Limits};
use crate::layers::pax::{Records, Stored, read_records};
use crate::layers::sparse;
use crate::layers::sparse::{Next, Parts, Sparse};

/// The size of a header, and of the padding unit, in bytes.
const BLOCK: usize = 512;

/// The largest extended header, as in Go's reader.
const MAX_EXTENSION: u64 = 1 << 20;

/// The size of the buffer for skipped bytes.
const SCRATCH: usize = 64 * 1024;

/// The bytes of an archive.
pub(crate) trait TarSource {
    /// Reads the next bytes; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault>;

    /// Passes over at most this many bytes without reading them; 0 if there are
    /// none, or if they have to be read.
    fn seek(&mut self, most: u64) -> Result<u64, Fault>;

    /// Whether bytes after the end of the archive are an error. Another reader
    /// could see them as an archive.
    const CHECKS_TRAILER: bool;
}

/// The entries of one archive.
pub(crate) struct TarEntries<'a, S> {
    source: S,
    limits: &'a Limits,
    budget: &'a mut Budget,
    scratch: Box<[u8]>,
    /// The unread bytes of the current entry.
    left: u64,
    /// The bytes between the end of the contents and the next header.
    padding: u64,
    path: Vec<u8>,
    link: Vec<u8>,
    /// The map of the current entry, until it is opened.
    sparse: Option<Sparse>,
    /// The parts of the current entry while it is read.
    parts: Option<Parts>,
    ended: bool,
}

/// One entry. [`TarEntries`] has its path and link target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TarEntry {
    pub(crate) kind: EntryKind,
    /// The bytes of its contents; 0 for all but files.
    pub(crate) size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    Symlink,
    Hardlink,
    /// A sparse file, which must be opened before it is read.
    Sparse,
    /// A sparse file in an unknown format.
    UnknownSparse,
    /// Any other entry, by name.
    Special(&'static str),
}

/// Why an archive cannot be read further.
#[derive(Debug)]
pub(crate) enum Fault {
    Stored(io::Error),
    Damage(Damage),
    Exceeded(Exceeded),
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// The extended headers of the next entry.
#[derive(Default)]
struct Extended {
    any: bool,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    records: Records,
}

impl<'a, S: TarSource> TarEntries<'a, S> {
    pub(crate) fn new(source: S, limits: &'a Limits, budget: &'a mut Budget) -> Self {
        Self {
            source,
            limits,
            budget,
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            left: 0,
            padding: 0,
            path: Vec::new(),
            link: Vec::new(),
            sparse: None,
            parts: None,
            ended: false,
        }
    }

    /// The source, at the contents of the current entry.
    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// The path of the current entry, as written in the archive.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The link target of the current entry, as written in the archive.
    pub(crate) fn link(&self) -> &[u8] {
        &self.link
    }

    /// The next entry. The unread rest of the one before is skipped. At the end
    /// all further bytes are read, so that the checksum of the compression is
    /// verified.
    pub(crate) fn next_entry(&mut self) -> Result<Option<TarEntry>, Fault> {
        if self.ended {
            return Ok(None);
        }
        let mut extended = Extended::default();
        (self.sparse, self.parts) = (None, None);
        loop {
            self.skip_entry()?;
            let mut header = Header::new_old();
            if !self.read_header(&mut header)? {
                self.ended = true;
                return if extended.any {
                    Err(Damage::NothingExtended.into())
                } else {
                    Ok(None)
                };
            }
            self.budget.entries += 1;
            if self.budget.entries > self.limits.entries {
                return Err(Fault::Exceeded(Exceeded::Entries(self.limits.entries)));
            }
            let size = header.entry_size().map_err(|_| Damage::Size)?;
            match header.entry_type() {
                EntryType::GNULongName => {
                    extended.long_path = Some(until_zero(self.read_extension(size)?));
                    extended.any = true;
                }
                EntryType::GNULongLink => {
                    extended.long_link = Some(until_zero(self.read_extension(size)?));
                    extended.any = true;
                }
                EntryType::XHeader => {
                    extended.records = read_records(&self.read_extension(size)?)?;
                    extended.any = true;
                }
                // Has no effect here.
                EntryType::XGlobalHeader => self.expect(size)?,
                entry_type => return self.entry(&header, entry_type, size, extended).map(Some),
            }
        }
    }

    /// Opens the current entry, a sparse file: its holes are read as zeros.
    /// Returns its size with the holes.
    pub(super) fn open_sparse(&mut self) -> Result<u64, Fault> {
        let mut sparse = self.sparse.take().unwrap_or_default();
        if sparse.map_in_contents {
            sparse.numbers = sparse::read_map(|block| {
                let mut filled = 0;
                while filled < BLOCK {
                    match self.read_stored(&mut block[filled..])? {
                        0 => return Err(Fault::Damage(Damage::SparseMap)),
                        count => filled += count,
                    }
                }
                Ok(())
            })?;
        }
        let parts = sparse.into_parts(self.left)?;
        let size = parts.size;
        self.parts = Some(parts);
        Ok(size)
    }

    /// Reads from the current entry's contents; 0 at their end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let Some(next) = self.parts.as_ref().map(Parts::next) else {
            return self.read_stored(buffer);
        };
        let most = |left: u64| usize::try_from(left).map_or(buffer.len(), |n| n.min(buffer.len()));
        let count = match next {
            Next::End => 0,
            Next::Hole(left) => {
                let count = most(left);
                buffer[..count].fill(0);
                count
            }
            Next::Stored(left) => {
                let count = most(left);
                self.read_stored(&mut buffer[..count])?
            }
        };
        if let Some(parts) = &mut self.parts {
            parts.advance(count as u64);
        }
        Ok(count)
    }

    fn read_stored(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if most == 0 {
            return Ok(0);
        }
        let count = self.fill(&mut buffer[..most])?;
        if count == 0 {
            return Err(Damage::CutFile.into());
        }
        self.left -= count as u64;
        Ok(count)
    }

    fn entry(
        &mut self,
        header: &Header,
        entry_type: EntryType,
        size: u64,
        extended: Extended,
    ) -> Result<TarEntry, Fault> {
        let Extended {
            long_path,
            long_link,
            mut records,
            ..
        } = extended;
        let stored = match entry_type {
            EntryType::Regular | EntryType::Continuous => records.stored(),
            _ => Stored::Plain,
        };
        let size = records.size.unwrap_or(size);
        replace(
            &mut self.path,
            long_path.or(records.path),
            &header.path_bytes(),
        );
        let link = header.link_name_bytes().unwrap_or_default();
        replace(&mut self.link, long_link.or(records.link), &link);

        let kind = match entry_type {
            // Old archives have no type for folders.
            EntryType::Regular if header.as_old().linkflag[0] == 0 && self.path.ends_with(b"/") => {
                EntryKind::Folder
            }
            EntryType::Regular | EntryType::Continuous => match stored {
                Stored::Plain => EntryKind::File,
                Stored::Unknown => EntryKind::UnknownSparse,
                Stored::Sparse(sparse) => {
                    self.sparse = Some(sparse);
                    EntryKind::Sparse
                }
            },
            EntryType::Directory => EntryKind::Folder,
            EntryType::Symlink => EntryKind::Symlink,
            EntryType::Link => EntryKind::Hardlink,
            EntryType::GNUSparse => {
                self.sparse = Some(self.read_sparse_map(header)?);
                EntryKind::Sparse
            }
            EntryType::Char => EntryKind::Special("a character device"),
            EntryType::Block => EntryKind::Special("a block device"),
            EntryType::Fifo => EntryKind::Special("a fifo"),
            _ => EntryKind::Special("an entry of an unknown type"),
        };
        let has_contents = !matches!(
            entry_type,
            EntryType::Link
                | EntryType::Symlink
                | EntryType::Char
                | EntryType::Block
                | EntryType::Fifo
        ) && kind != EntryKind::Folder;
        self.expect(if has_contents { size } else { 0 })?;
        Ok(TarEntry {
            kind,
            size: self.left,
        })
    }

    /// Sets the number of bytes of contents.
    fn expect(&mut self, size: u64) -> Result<(), Fault> {
        let padded = size
            .checked_next_multiple_of(BLOCK as u64)
            .ok_or(Damage::Size)?;
        self.left = size;
        self.padding = padded - size;
        Ok(())
    }

    fn skip_entry(&mut self) -> Result<(), Fault> {
        while self.left + self.padding > 0 {
            let rest = self.left + self.padding;
            let count = match self.source.seek(rest)? {
                0 => self.fill_scratch(rest)? as u64,
                count => count,
            };
            if count == 0 {
                return Err(Damage::CutFile.into());
            }
            let contents = count.min(self.left);
            self.left -= contents;
            self.padding -= count - contents;
        }
        Ok(())
    }

    /// Reads one header; false at the end of the archive. The end marker is
    /// optional, as in Go's reader: some builders omit it, and the digest
    /// detects a cut layer.
    fn read_header(&mut self, header: &mut Header) -> Result<bool, Fault> {
        let block = header.as_mut_bytes();
        if !self.read_block(block)? {
            return Ok(false);
        }
        if block.iter().all(|byte| *byte == 0) {
            if S::CHECKS_TRAILER {
                self.read_trailer()?;
            }
            return Ok(false);
        }
        if !checksum_matches(header) {
            return Err(Damage::Checksum.into());
        }
        Ok(true)
    }

    /// Only zeros may follow the end.
    fn read_trailer(&mut self) -> Result<(), Fault> {
        loop {
            let count = self.fill_scratch(u64::MAX)?;
            if count == 0 {
                return Ok(());
            }
            if self.scratch[..count].iter().any(|byte| *byte != 0) {
                return Err(Damage::Trailing.into());
            }
        }
    }

    /// Reads one block; false at the end of the bytes.
    fn read_block(&mut self, block: &mut [u8; BLOCK]) -> Result<bool, Fault> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.fill(&mut block[filled..])? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(Damage::CutHeader.into()),
                count => filled += count,
            }
        }
        Ok(true)
    }

    /// Reads the contents of an extended header.
    fn read_extension(&mut self, size: u64) -> Result<Vec<u8>, Fault> {
        if size > MAX_EXTENSION {
            return Err(Damage::LongExtension {
                size,
                limit: MAX_EXTENSION,
            }
            .into());
        }
        let length = usize::try_from(size).map_err(|_| Damage::Size)?;
        self.expect(size)?;
        let mut contents = vec![0; length];
        let mut filled = 0;
        while filled < contents.len() {
            filled += self.read(&mut contents[filled..])?;
        }
        Ok(contents)
    }

    /// The map of a file in the old GNU format, which can continue in blocks
    /// before the contents.
    fn read_sparse_map(&mut self, header: &Header) -> Result<Sparse, Fault> {
        let mut sparse = Sparse::from_header(header);
        let mut more = header.as_gnu().is_some_and(tar::GnuHeader::is_extended);
        while more {
            let mut map = GnuExtSparseHeader::new();
            if !self.read_block(map.as_mut_bytes())? {
                return Err(Damage::CutHeader.into());
            }
            sparse.extend(map.sparse());
            more = map.is_extended();
        }
        Ok(sparse)
    }

    /// Fills the buffer for skipped bytes with at most this many.
    fn fill_scratch(&mut self, most: u64) -> Result<usize, Fault> {
        let most = usize::try_from(most).map_or(SCRATCH, |most| most.min(SCRATCH));
        let mut scratch = std::mem::take(&mut self.scratch);
        let filled = self.fill(&mut scratch[..most]);
        self.scratch = scratch;
        filled
    }

    /// Reads and counts uncompressed bytes: a small layer can unpack to any
    /// size.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let count = self.source.read(buffer)?;
        self.budget.bytes += count as u64;
        if self.budget.bytes > self.limits.bytes {
            return Err(Fault::Exceeded(Exceeded::Bytes(self.limits.bytes)));
        }
        Ok(count)
    }
}

/// A long name ends at a zero byte.
fn until_zero(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = memchr::memchr(0, &name) {
        name.truncate(end);
    }
    name
}

fn replace(field: &mut Vec<u8>, extended: Option<Vec<u8>>, plain: &[u8]) {
    if let Some(extended) = extended {
        *field = extended;
    } else {
        field.clear();
        field.extend_from_slice(plain);
    }
}

/// Some old writers add up signed bytes.
fn checksum_matches(header: &Header) -> bool {
    let Ok(expected) = header.cksum() else {
        return false;
    };
    let block = header.as_bytes();
    let summed = || {
        block[..148]
            .iter()
            .chain([b' '; 8].iter())
            .chain(&block[156..])
    };
    let unsigned: u32 = summed().map(|byte| u32::from(*byte)).sum();
    let signed = || {
        summed()
            .map(|byte| i64::from(byte.cast_signed()))
            .sum::<i64>()
    };
    unsigned == expected || signed() == i64::from(expected)
}
