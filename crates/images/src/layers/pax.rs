//! The records of a PAX header about the name, size and storage of an entry.

use crate::layers::error::Damage;
use crate::layers::sparse;
use crate::layers::sparse::Sparse;

/// The PAX records of the next entry.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// The records of a sparse file.
    sparse: SparseRecords,
}

/// The records that begin with `GNU.sparse.`.
#[derive(Debug, Default)]
struct SparseRecords {
    major: Option<Vec<u8>>,
    minor: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    size: Option<u64>,
    /// Offsets and lengths, alternating.
    numbers: Vec<u64>,
    has_map: bool,
}

/// How a file is stored.
pub(super) enum Stored {
    Plain,
    Sparse(Sparse),
    /// Sparse, in an unknown format.
    Unknown,
}

impl Records {
    /// How the file is stored. Takes the name of a sparse file as the path.
    pub(super) fn stored(&mut self) -> Stored {
        let sparse = std::mem::take(&mut self.sparse);
        let version = (sparse.major.as_deref(), sparse.minor.as_deref());
        let numbers = match version {
            (Some(b"1"), Some(b"0")) => None,
            (None, None) if !sparse.has_map => return Stored::Plain,
            (None, None) | (Some(b"0"), Some(b"0" | b"1")) => Some(sparse.numbers),
            _ => return Stored::Unknown,
        };
        // The path of a sparse file is a placeholder.
        if let Some(name) = sparse.name {
            self.path = Some(name);
        }
        Stored::Sparse(Sparse::from_records(numbers, sparse.size))
    }
}

impl SparseRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let text = || (!value.is_empty()).then(|| value.to_vec());
        let number = || decimal(value).ok_or(Damage::SparseMap);
        match key {
            b"major" => self.major = text(),
            b"minor" => self.minor = text(),
            b"name" => self.name = text(),
            b"size" | b"realsize" => self.size = Some(number()?),
            // 0.0: one record for each number. The size of an extended header
            // bounds them.
            b"offset" | b"numbytes" => {
                let is_offset = self.numbers.len().is_multiple_of(2);
                if is_offset != (key == b"offset") {
                    return Err(Damage::SparseMap);
                }
                self.numbers.push(number()?);
                self.has_map = true;
            }
            // 0.1: one record for all numbers.
            b"map" => {
                self.numbers = sparse::read_list(value).ok_or(Damage::SparseMap)?;
                self.has_map = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads PAX records: `<length> <key>=<value>\n`, the length being that of the
/// whole record. Later ones replace earlier ones, an empty value unsets.
pub(super) fn read_records(mut rest: &[u8]) -> Result<Records, Damage> {
    let mut records = Records::default();
    while !rest.is_empty() {
        let record = first_record(rest).ok_or(Damage::Extension)?;
        rest = &rest[record.len()..];
        let (key, value) = key_and_value(record).ok_or(Damage::Extension)?;
        let text = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => records.path = text(),
            b"linkpath" => records.link = text(),
            b"size" if value.is_empty() => records.size = None,
            b"size" => records.size = Some(decimal(value).ok_or(Damage::Size)?),
            key => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    records.sparse.take(key, value)?;
                }
            }
        }
    }
    Ok(records)
}

fn first_record(rest: &[u8]) -> Option<&[u8]> {
    // A length has few digits.
    let space = memchr::memchr(b' ', &rest[..rest.len().min(20)])?;
    let length = usize::try_from(decimal(&rest[..space])?).ok()?;
    let record = rest.get(..length)?;
    (length > space && record.ends_with(b"\n")).then_some(record)
}

fn key_and_value(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', record)?;
    let pair = record.get(space + 1..record.len() - 1)?;
    let equals = memchr::memchr(b'=', pair)?;
    Some((&pair[..equals], &pair[equals + 1..]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
