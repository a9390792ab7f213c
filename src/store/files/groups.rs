//! Groups of lines, compressed together: a gzip member that the next revision makes
//! anew only where something changed.
//!
//! A group is raw deflate data (RFC 1951) that ends with a full flush and is made of
//! nothing but its own bytes. So the same bytes give the same group, copied or made,
//! in `all.gz` and in the layer of an image. A list beside `all.gz` tells where its
//! groups lie. It has a checksum of its own and one for each group, and is not needed:
//! without it, everything is compressed again.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use bytes::Bytes;
use flate2::{Compression, FlushCompress};
use serde::{Deserialize, Serialize};

use crate::store::files::segmenter::{END, Segmenter};

/// The name of the list in the folder of a revision.
pub(crate) const GROUPS: &str = "groups.bin";
/// The form of the list and of the groups. It changes with the compressor: groups of
/// another one are not copied, so that the same content gives the same bytes on every
/// machine.
const FORMAT: u32 = 1;
/// How a member begins (RFC 1952): deflate, no flags, no time, no special level,
/// unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// The level of gzip: the usual one, two thirds of the size of the fastest for
/// three times its time.
const LEVEL: Compression = Compression::new(6);
/// Bytes between two checks whether to continue.
const PIECE: usize = 1 << 20;
/// The least bytes of a group to list: smaller ones are compressed in no time.
const LEAST: usize = 1 << 10;

/// A group in a gzip member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    /// Where it starts among all bytes.
    start: u64,
    length: u64,
    crc: u32,
    /// Where its compressed bytes start in the member.
    packed_start: u64,
    packed_length: u64,
    packed_crc: u32,
}

/// The groups of a revision, as they lie in its files.
#[derive(Clone, Debug)]
pub struct Groups {
    /// All lines.
    pub lines: Bytes,
    /// `all.gz`.
    pub packed: Bytes,
    /// The list.
    pub list: Bytes,
}

/// Groups that may be copied, by their bytes.
struct KnownGroups {
    groups: Groups,
    /// By CRC-32 and length. Of several, the last: a catalog that makes them collide
    /// gains nothing, since bytes are compared.
    places: HashMap<(u32, u64), Group>,
}

/// Writes groups as one gzip member.
pub struct GroupedGzip<W> {
    out: W,
    segmenter: Segmenter,
    known: Option<KnownGroups>,
    listed: Vec<Group>,
    /// Of all bytes so far.
    crc: crc32fast::Hasher,
    length: u64,
    /// Bytes written.
    written: u64,
}

impl KnownGroups {
    /// `None` when the list is damaged, or of another compressor.
    fn from_groups(groups: Groups) -> Option<Self> {
        let (head, body) = groups.list.split_at_checked(8)?;
        let sums = [FORMAT.to_le_bytes(), crc32fast::hash(body).to_le_bytes()];
        if head != sums.concat() {
            return None;
        }
        let list: Vec<Group> = postcard::from_bytes(body).ok()?;
        let places = list.iter().map(|one| ((one.crc, one.length), *one));
        let places = places.collect();
        Some(Self { groups, places })
    }

    /// The compressed form of exactly these bytes, which have this CRC-32. One that is
    /// damaged is not known.
    fn find(&self, bytes: &[u8], crc: u32) -> Option<&[u8]> {
        let group = self.places.get(&(crc, bytes.len() as u64))?;
        let known = range(group.start, group.length)?;
        if self.groups.lines.get(known)? != bytes {
            return None;
        }
        let packed = range(group.packed_start, group.packed_length)?;
        let packed = self.groups.packed.get(packed)?;
        (crc32fast::hash(packed) == group.packed_crc).then_some(packed)
    }
}

impl<W: Write> GroupedGzip<W> {
    /// Starts a member.
    ///
    /// # Errors
    /// Those of writing, as of the other functions.
    pub fn new(mut out: W, known: Option<Groups>) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        Ok(Self {
            out,
            segmenter: Segmenter::new(LEVEL),
            known: known.and_then(KnownGroups::from_groups),
            listed: Vec::new(),
            crc: crc32fast::Hasher::new(),
            length: 0,
            written: HEADER.len() as u64,
        })
    }

    /// Appends a group: copied where it is known, compressed where not. Returns the
    /// CRC-32 of its bytes; `None` when `go_on` returned `false`.
    pub fn append(&mut self, bytes: &[u8], go_on: impl Fn() -> bool) -> io::Result<Option<u32>> {
        if !go_on() {
            return Ok(None);
        }
        let crc = crc32fast::hash(bytes);
        let start = self.written;
        let known = self.known.as_ref().and_then(|known| known.find(bytes, crc));
        let packed_crc = if let Some(packed) = known {
            self.out.write_all(packed)?;
            self.written += packed.len() as u64;
            crc32fast::hash(packed)
        } else {
            match self.compress(bytes, go_on)? {
                Some(packed_crc) => packed_crc,
                None => return Ok(None),
            }
        };
        if bytes.len() >= LEAST {
            self.listed.push(Group {
                start: self.length,
                length: bytes.len() as u64,
                crc,
                packed_start: start,
                packed_length: self.written - start,
                packed_crc,
            });
        }
        let length = bytes.len() as u64;
        let part = crc32fast::Hasher::new_with_initial_len(crc, length);
        self.crc.combine(&part);
        self.length += length;
        Ok(Some(crc))
    }

    /// Compresses a group; returns the CRC-32 of what that gave.
    fn compress(&mut self, bytes: &[u8], go_on: impl Fn() -> bool) -> io::Result<Option<u32>> {
        let (out, written) = (&mut self.out, &mut self.written);
        let mut crc = crc32fast::Hasher::new();
        let mut sink = |part: &[u8]| {
            crc.update(part);
            *written += part.len() as u64;
            out.write_all(part)
        };
        self.segmenter.reset();
        let mut pieces = bytes.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let flush = match pieces.peek() {
                Some(_) if !go_on() => return Ok(None),
                Some(_) => FlushCompress::None,
                None => FlushCompress::Full,
            };
            self.segmenter.feed(piece, flush, &mut sink)?;
        }
        Ok(Some(crc.finalize()))
    }

    /// CRC-32 of all bytes so far.
    pub fn crc(&self) -> u32 {
        self.crc.clone().finalize()
    }

    /// Ends the member. Returns the output, and the content of the list.
    pub fn finish(mut self) -> io::Result<(W, Vec<u8>)> {
        self.out.write_all(&END)?;
        self.out.write_all(&self.crc.finalize().to_le_bytes())?;
        // The length modulo 2^32.
        self.out.write_all(&self.length.to_le_bytes()[..4])?;
        let body = postcard::to_stdvec(&self.listed).map_err(io::Error::other)?;
        let sum = crc32fast::hash(&body).to_le_bytes();
        Ok((self.out, [&FORMAT.to_le_bytes()[..], &sum, &body].concat()))
    }
}

fn range(start: u64, length: u64) -> Option<Range<usize>> {
    let end = start.checked_add(length)?;
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use ::images::digest::Digest;

    /// Texts as long as groups are, which differ by their number.
    fn text(number: u32) -> Vec<u8> {
        let line = |at: u32| format!("{{\"at\":{},\"of\":{number}}}\n", at.wrapping_mul(40_503));
        (0..3_000).map(line).collect::<String>().into_bytes()
    }

    fn packed(groups: &[Vec<u8>], known: Option<Groups>) -> (Groups, usize) {
        let mut gzip = GroupedGzip::new(Vec::new(), known).unwrap();
        let mut found = 0;
        for group in groups {
            let crc = crc32fast::hash(group);
            let known = gzip.known.as_ref().and_then(|known| known.find(group, crc));
            found += usize::from(known.is_some());
            assert_eq!(gzip.append(group, || true).unwrap(), Some(crc));
        }
        let (packed, list) = gzip.finish().unwrap();
        let groups = Groups {
            lines: groups.concat().into(),
            packed: packed.into(),
            list: list.into(),
        };
        (groups, found)
    }

    fn unpacked(gzip: &[u8]) -> Vec<u8> {
        let mut decoder = flate2::bufread::GzDecoder::new(gzip);
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).unwrap();
        assert!(decoder.into_inner().is_empty(), "one member and no more");
        plain
    }

    #[test]
    fn copied_groups_give_the_bytes_of_groups_that_are_made() {
        let mut texts: Vec<_> = (0..4).map(text).collect();
        texts[2] = texts[2].repeat(2 * PIECE / texts[2].len());
        let small = vec![b"{}\n".to_vec(), Vec::new(), b"[]\n".to_vec()];
        let first = [&texts[..2], &small, &texts[2..3]].concat();
        let next = [&small, &texts[2..4], &texts[..1]].concat();
        let (known, _) = packed(&first, None);
        let (fresh, _) = packed(&next, None);
        let (copied, found) = packed(&next, Some(known));
        assert_eq!(found, 2, "of the texts that both have");
        assert!(copied.packed == fresh.packed && copied.list == fresh.list);
        assert!(unpacked(&copied.packed) == next.concat());
    }

    #[test]
    fn neither_other_bytes_nor_damaged_ones_are_copied() {
        let texts: Vec<_> = (0..2).map(text).collect();
        let (known, _) = packed(&texts, None);
        let found = |change: &dyn Fn(&mut Groups)| {
            let mut changed = known.clone();
            change(&mut changed);
            let (made, found) = packed(&texts, Some(changed));
            assert!(made.packed == known.packed);
            found
        };
        let flipped = |bytes: &Bytes, at: usize| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1;
            Bytes::from(bytes)
        };
        assert_eq!(found(&|_| ()), 2);
        // As lines that were made to have the same CRC-32 and length.
        assert_eq!(found(&|groups| groups.lines = flipped(&groups.lines, 7)), 1);
        let damaged = HEADER.len() + 100;
        assert_eq!(
            found(&|groups| groups.packed = flipped(&groups.packed, damaged)),
            1
        );
        for at in 0..known.list.len() {
            assert_eq!(found(&|groups| groups.list = flipped(&groups.list, at)), 0);
            assert_eq!(found(&|groups| groups.list.truncate(at)), 0);
        }
        for files in [Bytes::new(), known.packed.slice(..50)] {
            assert_eq!(found(&|groups| groups.packed = files.clone()), 0);
            assert_eq!(found(&|groups| groups.lines = files.clone()), 0);
        }
    }

    #[test]
    fn equal_groups_and_colliding_keys_cost_no_answer() {
        let groups = vec![text(1); 5];
        let (known, _) = packed(&groups, None);
        let (copied, found) = packed(&groups, Some(known.clone()));
        assert_eq!(found, 5);
        assert!(copied.packed == known.packed);
        assert!(unpacked(&copied.packed) == groups.concat());
    }

    #[test]
    fn writing_ends_when_it_is_told_to() {
        let mut gzip = GroupedGzip::new(Vec::new(), None).unwrap();
        assert_eq!(gzip.append(&text(1), || false).unwrap(), None);
        let asked = std::cell::Cell::new(0);
        let go_on = || asked.replace(asked.get() + 1) < 2;
        assert_eq!(gzip.append(&vec![b'a'; 3 * PIECE], go_on).unwrap(), None);
    }

    /// When this fails, the compressor gives other bytes, and `FORMAT` has to change.
    #[test]
    fn the_compressor_is_the_one_of_this_format() {
        let (known, _) = packed(&[text(1), text(2)], None);
        assert_eq!(
            (FORMAT, Digest::of(&known.packed).to_string().as_str()),
            (
                1,
                "sha256:c5d3da3a8d08096da965e5f55d3371ffab0a609acf6ae3adc652dbeecf38f1ce"
            )
        );
    }
}
