//! What was made of each piece of a catalog's files, so that the next revision copies
//! it instead of making it again: `pieces.bin`.
//!
//! The file has a digest of the program that wrote it, since another program may read
//! a piece otherwise. Then come records: the key of a piece, the ranges of the
//! revision's files that were made of it with their CRC-32, and what else was made of
//! it. Each record ends with a CRC-32 of its own. No client waits for this file: a
//! revision without it is whole.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use crate::answers::index;
use crate::store::files::revision_files::PIECES;
use crate::store::{Revision, Store};

/// Changes with the form of this file, and with that of what is kept in it.
const FORM: u32 = 2;
/// Bytes of the program's digest.
const PROGRAM: usize = 32;
/// The most bytes of the file. A usual catalog of 130 MB needs three million.
pub(crate) const LARGEST: u64 = 64 << 20;
/// Bytes of a record without its content: key, parts, length of the content, CRC-32.
const HEAD: usize = 32 + 2 * 20 + 4;
const END: usize = 4;

/// The identity of a piece: its notation and its bytes. Nobody can make two pieces
/// with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PieceKey([u8; 32]);

impl PieceKey {
    /// The key of these bytes in a notation, which has a number.
    pub fn new(notation: u8, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[notation]).update(bytes);
        Self(hasher.finalize().into())
    }
}

/// A range of a file of the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes from the start of the file.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its CRC-32.
    pub crc: u32,
}

impl Part {
    /// Its bytes in the file. `None` when they are not those that were written.
    pub fn of(&self, file: &Bytes) -> Option<Bytes> {
        let start = usize::try_from(self.start).ok()?;
        let end = start.checked_add(usize::try_from(self.length).ok()?)?;
        let bytes = file.get(start..end)?;
        (crc32fast::hash(bytes) == self.crc).then(|| file.slice_ref(bytes))
    }
}

/// What was made of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key of the piece.
    pub key: PieceKey,
    /// Its lines and messages.
    pub parts: [Part; 2],
    /// What else is kept.
    pub content: &'a [u8],
}

impl Record<'_> {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.key.0.to_vec();
        for part in self.parts {
            bytes.extend(part.start.to_le_bytes());
            bytes.extend(part.length.to_le_bytes());
            bytes.extend(part.crc.to_le_bytes());
        }
        bytes.extend(index::number(self.content.len()).to_le_bytes());
        bytes.extend(self.content);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// The record at the start of the bytes. `None` when it is not what was written.
    fn decode(bytes: &[u8]) -> Option<Record<'_>> {
        let length = record_length(bytes)?;
        let (record, end) = bytes.get(..length)?.split_at(length - END);
        if end != crc32fast::hash(record).to_le_bytes() {
            return None;
        }
        let (key, rest) = record.split_first_chunk::<32>()?;
        let mut numbers = rest.as_chunks::<20>().0.iter().map(|part| Part {
            start: u64_at(part, 0),
            length: u64_at(part, 8),
            crc: u32_at(part, 16),
        });
        Some(Record {
            key: PieceKey(*key),
            parts: [numbers.next()?, numbers.next()?],
            content: &record[HEAD..],
        })
    }
}

/// The length of the record at the start of the bytes.
fn record_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEAD)?;
    HEAD.checked_add(u32_at(head, HEAD - 4) as usize)?
        .checked_add(END)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(number.copied().unwrap_or_default())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(number.copied().unwrap_or_default())
}

/// The identity of a program, as far as it reads pieces in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program([u8; PROGRAM]);

impl Program {
    /// The program of a version, built from a commit as far as that is known, in a file
    /// that this text tells from others.
    pub fn new(version: &str, commit: &str, file: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in [version, commit, file] {
            hasher.update(text.as_bytes()).update(&[0]);
        }
        hasher.update(&index::FORMAT.to_le_bytes());
        hasher.update(&FORM.to_le_bytes());
        Self(hasher.finalize().into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a record.
pub(crate) fn encode(record: &Record<'_>) -> Vec<u8> {
    record.encode()
}

/// The records of a revision.
pub struct Pieces {
    file: Bytes,
    /// Where each lies. Of several with one key, one: all are the same.
    records: HashMap<PieceKey, Range<usize>>,
}

impl Pieces {
    fn from_file(file: Bytes, program: &Program) -> Option<Self> {
        let mut records = HashMap::new();
        let mut start = PROGRAM;
        if !file.starts_with(program.as_bytes()) {
            return None;
        }
        while let Some(length) = file.get(start..).and_then(record_length) {
            let end = start.checked_add(length)?;
            let key = file.get(start..end)?.first_chunk()?;
            records.insert(PieceKey(*key), start..end);
            start = end;
        }
        Some(Self { file, records })
    }

    /// What was made of the piece with this key. `None` also when its record is not
    /// what was written.
    pub fn find(&self, key: &PieceKey) -> Option<Record<'_>> {
        let range = self.records.get(key)?.clone();
        Record::decode(self.file.get(range)?)
    }
}

impl Store {
    /// What a program made of the pieces of a revision's files; `None` when another one
    /// made it, or when it was not kept.
    pub fn pieces(&self, revision: &Revision, program: &Program) -> Option<Pieces> {
        revision.files.get(PIECES)?;
        Pieces::from_file(self.map(revision.id, PIECES).ok()?, program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program::new("1.2.3", "abc", "9")
    }

    fn file(records: &[Record<'_>]) -> Vec<u8> {
        let records = records.iter().map(Record::encode);
        [program().as_bytes().to_vec()]
            .into_iter()
            .chain(records)
            .flatten()
            .collect()
    }

    fn record(key: &[u8], content: &'static [u8]) -> Record<'static> {
        let part = |start| Part {
            start,
            length: 3,
            crc: crc32fast::hash(b"abc"),
        };
        Record {
            key: PieceKey::new(1, key),
            parts: [part(1 << 40), part(7)],
            content,
        }
    }

    #[test]
    fn records_are_found_as_they_were_written_and_never_with_damage() {
        let records = [
            record(b"a", b"first"),
            record(b"b", b""),
            record(b"c", b"last"),
        ];
        let bytes = file(&records);
        let pieces = Pieces::from_file(bytes.clone().into(), &program()).unwrap();
        for record in &records {
            assert_eq!(pieces.find(&record.key), Some(*record));
        }
        assert_eq!(pieces.find(&PieceKey::new(2, b"a")), None);
        for other in [
            Program::new("1.2.4", "abc", "9"),
            Program::new("1.2.3", "abd", "9"),
            Program::new("1.2.3", "abc", "8"),
        ] {
            assert!(Pieces::from_file(bytes.clone().into(), &other).is_none());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            for bytes in [damaged, bytes[..at].to_vec()] {
                let pieces = Pieces::from_file(bytes.into(), &program());
                for record in &records {
                    let found = pieces.as_ref().and_then(|pieces| pieces.find(&record.key));
                    assert!(found.is_none_or(|found| found == *record), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn a_part_with_other_bytes_is_not_taken() {
        let part = record(b"a", b"").parts[1];
        let file = Bytes::from_static(b"0123456abcd");
        assert_eq!(part.of(&file).as_deref(), Some(&b"abc"[..]));
        for other in [&b"0123456abd"[..], b"0123456ab", b""] {
            assert_eq!(part.of(&Bytes::copy_from_slice(other)), None);
        }
    }
}
