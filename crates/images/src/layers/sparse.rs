//! Sparse files: the archive has only the parts that are not zero, and a map of
//! their positions.
//!
//! GNU tar has written such maps in four ways: in the header and in blocks
//! after it (its old format), in PAX records (0.0 and 0.1), and in lines before
//! the contents (1.0).

use tar::{GnuSparseHeader, Header};

use crate::layers::error::Damage;

/// The most parts of one file. Each takes sixteen bytes of memory.
const MAX_PARTS: usize = 1 << 15;

/// A sparse file before its contents are read.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    /// Offsets and lengths, alternating.
    pub(super) numbers: Vec<u64>,
    /// The size of the file with its holes, in bytes.
    size: Option<u64>,
    /// Whether the map is at the start of the contents.
    pub(super) map_in_contents: bool,
    /// Whether the map is damaged, which is an error once the file is read.
    damaged: bool,
}

/// The parts of a file, and the position in it.
#[derive(Debug)]
pub(super) struct Parts {
    /// The offset and length of each part, in order, without overlaps.
    stored: Vec<(u64, u64)>,
    next: usize,
    /// The size of the file with its holes, in bytes.
    pub(super) size: u64,
    position: u64,
}

/// The next bytes of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This many zeros, which are not stored.
    Hole(u64),
    /// This many stored bytes.
    Stored(u64),
    End,
}

impl Sparse {
    /// The header of a file in the old GNU format.
    pub(super) fn from_header(header: &Header) -> Self {
        let mut sparse = Self::default();
        let Some(header) = header.as_gnu() else {
            sparse.damaged = true;
            return sparse;
        };
        sparse.size = header.real_size().ok();
        sparse.extend(&header.sparse);
        sparse
    }

    /// A map from PAX records, or in the contents if there are no numbers.
    pub(super) fn from_records(numbers: Option<Vec<u64>>, size: Option<u64>) -> Self {
        Self {
            map_in_contents: numbers.is_none(),
            numbers: numbers.unwrap_or_default(),
            size,
            damaged: false,
        }
    }

    /// Adds to the map of a file in the old GNU format.
    pub(super) fn extend(&mut self, entries: &[GnuSparseHeader]) {
        for entry in entries.iter().take_while(|entry| !entry.is_empty()) {
            match (entry.offset(), entry.length()) {
                (Ok(offset), Ok(length)) if self.numbers.len() < 2 * MAX_PARTS => {
                    self.numbers.extend([offset, length]);
                }
                _ => self.damaged = true,
            }
        }
    }

    /// The parts. `stored` is the number of bytes in the archive, without the
    /// map.
    pub(super) fn into_parts(self, stored: u64) -> Result<Parts, Damage> {
        let (numbers, size) = (self.numbers, self.size.ok_or(Damage::SparseMap)?);
        if self.damaged || !numbers.len().is_multiple_of(2) || numbers.len() > 2 * MAX_PARTS {
            return Err(Damage::SparseMap);
        }
        let mut parts = Vec::with_capacity(numbers.len() / 2);
        let (mut end, mut total) = (0_u64, 0_u64);
        for pair in numbers.chunks_exact(2) {
            let &[offset, length] = pair else { continue };
            if offset < end {
                return Err(Damage::SparseMap);
            }
            end = offset.checked_add(length).ok_or(Damage::SparseMap)?;
            total += length;
            // An empty part marks the end.
            if length > 0 {
                parts.push((offset, length));
            }
        }
        if end > size || total != stored {
            return Err(Damage::SparseMap);
        }
        Ok(Parts {
            stored: parts,
            next: 0,
            size,
            position: 0,
        })
    }
}

impl Parts {
    /// The next bytes.
    pub(super) fn next(&self) -> Next {
        let left = self.size - self.position;
        match self.stored.get(self.next) {
            _ if left == 0 => Next::End,
            None => Next::Hole(left),
            Some((offset, _)) if self.position < *offset => Next::Hole(offset - self.position),
            Some((offset, length)) => Next::Stored(offset + length - self.position),
        }
    }

    /// Moves on by at most the length of [`Parts::next`].
    pub(super) fn advance(&mut self, count: u64) {
        self.position += count;
        if let Some((offset, length)) = self.stored.get(self.next)
            && self.position >= offset + length
        {
            self.next += 1;
        }
    }
}

/// Reads the map at the start of the contents: the number of parts, then the
/// offset and length of each, in decimal, one number a line.
/// `block` reads the next 512 bytes. The rest of the last block is ignored.
pub(super) fn read_map<E: From<Damage>>(
    mut block: impl FnMut(&mut [u8; 512]) -> Result<(), E>,
) -> Result<Vec<u64>, E> {
    let mut numbers = Vec::new();
    let mut wanted = 1;
    let mut number: Option<u64> = None;
    let mut bytes = [0; 512];
    while wanted > 0 {
        block(&mut bytes)?;
        for byte in bytes {
            match (byte, number) {
                (b'0'..=b'9', value) => {
                    let value = value.unwrap_or(0).checked_mul(10);
                    let value = value.and_then(|value| value.checked_add(u64::from(byte - b'0')));
                    number = Some(value.ok_or(Damage::SparseMap)?);
                }
                (b'\n', Some(value)) => {
                    number = None;
                    wanted -= 1;
                    if numbers.is_empty() {
                        wanted = usize::try_from(value)
                            .ok()
                            .filter(|parts| *parts <= MAX_PARTS)
                            .ok_or(Damage::SparseMap)?
                            * 2;
                    }
                    numbers.push(value);
                }
                _ => return Err(Damage::SparseMap.into()),
            }
            if wanted == 0 {
                break;
            }
        }
    }
    numbers.remove(0);
    Ok(numbers)
}

/// Reads a map in one PAX record: numbers separated by commas.
pub(super) fn read_list(value: &[u8]) -> Option<Vec<u64>> {
    let text = std::str::from_utf8(value).ok()?;
    let mut numbers = Vec::new();
    for number in text.split(',') {
        if numbers.len() >= 2 * MAX_PARTS || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        numbers.push(number.parse().ok()?);
    }
    Some(numbers)
}
