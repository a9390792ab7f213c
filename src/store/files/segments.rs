//! `metas.deflate`: a segment of each line, so that any selection of lines is one gzip
//! stream without compressing anything again. It is made after the revision is
//! published; until then, clients get lines that are not compressed.
//!
//! The segments lie in the order of the lines. Behind them comes a list with four
//! numbers for each line, then its form and its length: little-endian, 32 bits each. The
//! next revision copies the segments of the lines that it has too.

use std::collections::HashMap;
use std::io::{self, Write};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;

use crate::answers::index;
use crate::store::files::segmenter::Segmenter;

/// The name of the file in the folder of a revision.
pub(crate) const SEGMENTS: &str = "metas.deflate";
/// Changes with the file and with the compressor: segments of another one are not
/// copied, so that a line gives the same bytes whichever revisions came before. Then
/// [`index::FORMAT`] changes, too: replicas of two forms would send other bytes.
const FORM: u32 = 1;
/// Bytes of the list's form and length.
const END: usize = 8;
/// Bytes of lines that a worker compresses at a time, between two checks whether to
/// continue.
const BLOCK: usize = 256 << 10;
/// More workers gain little: one writes what they make.
const MAX_WORKERS: usize = 8;

/// A line and its segment, as the list has them.
#[derive(Clone, Copy)]
struct Listed {
    line: u32,
    line_crc: u32,
    segment: u32,
    segment_crc: u32,
}

impl Listed {
    const LENGTH: usize = 16;

    fn encode(self) -> [u8; Self::LENGTH] {
        let numbers = [self.line, self.line_crc, self.segment, self.segment_crc];
        let mut bytes = [0; Self::LENGTH];
        for (place, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes
    }

    fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        let mut numbers = [0; 4];
        for (number, place) in numbers.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *number = u32::from_le_bytes(*place);
        }
        let [line, line_crc, segment, segment_crc] = numbers;
        Self {
            line,
            line_crc,
            segment,
            segment_crc,
        }
    }
}

/// The segments of a revision, open for serving.
#[derive(Debug)]
pub struct Segments {
    file: Bytes,
    /// Where each segment starts, and where the last one ends.
    offsets: Box<[u64]>,
    number: u64,
}

impl Segments {
    /// The segments of lines that start at these places, of which the last is the end of
    /// all. `None` when the file is not complete, or belongs to other lines.
    pub fn open(file: Bytes, lines: &[u64]) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut offsets = Vec::with_capacity(lines.len());
        let mut offset = 0;
        let list = list(&file)?;
        let mut lengths = lines.windows(2).map(|pair| pair[1] - pair[0]);
        for listed in list {
            if lengths.next() != Some(u64::from(listed.line)) {
                return None;
            }
            offsets.push(offset);
            offset += u64::from(listed.segment);
        }
        offsets.push(offset);
        let is_whole = lengths.next().is_none() && offset == segments(&file)?.len() as u64;
        is_whole.then(|| Self {
            offsets: offsets.into(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            file,
        })
    }

    /// The file.
    pub fn file(&self) -> &Bytes {
        &self.file
    }

    /// Where each segment starts in the file, and where the last one ends.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Tells these from all others that are opened in this process.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// The files that segments may be copied from.
#[derive(Clone, Debug)]
pub struct KnownSegments {
    /// All lines.
    pub lines: Bytes,
    /// `metas.deflate` of these lines.
    pub file: Bytes,
}

/// Where a line and its segment lie.
struct Place {
    line: Range<usize>,
    segment: Range<usize>,
    segment_crc: u32,
}

/// Segments that may be copied, by their lines.
struct Known {
    files: KnownSegments,
    /// By CRC-32 and length of the line. Of several, the last: a catalog that makes them
    /// collide gains nothing, since lines are compared.
    places: HashMap<(u32, u32), Place>,
}

impl Known {
    /// `None` when the file is damaged, or of another compressor.
    fn from_segments(files: KnownSegments) -> Option<Self> {
        let (mut line, mut segment) = (0, 0);
        let places = list(&files.file)?.map(|listed| {
            let place = Place {
                line: line..line + listed.line as usize,
                segment: segment..segment + listed.segment as usize,
                segment_crc: listed.segment_crc,
            };
            (line, segment) = (place.line.end, place.segment.end);
            ((listed.line_crc, listed.line), place)
        });
        let places = places.collect();
        Some(Self { files, places })
    }

    /// The segment of exactly this line, which has this CRC-32, and its own CRC-32;
    /// `None` for a damaged one.
    fn find(&self, line: &[u8], crc: u32) -> Option<(&[u8], u32)> {
        let place = self.places.get(&(crc, index::number(line.len())))?;
        if self.files.lines.get(place.line.clone())? != line {
            return None;
        }
        let segment = segments(&self.files.file)?.get(place.segment.clone())?;
        let crc = place.segment_crc;
        (crc32fast::hash(segment) == crc).then_some((segment, crc))
    }
}

/// Whether the ends of a file show that it is complete and belongs to lines of this
/// length.
pub(crate) fn are_of(file: &[u8], length: u64) -> bool {
    let lengths = |(segments, list): (&[u8], &List)| {
        let mut sums = [0; 2];
        for listed in list.iter().map(Listed::decode) {
            sums[0] += u64::from(listed.line);
            sums[1] += u64::from(listed.segment);
        }
        sums == [length, segments.len() as u64]
    };
    split(file).is_some_and(lengths)
}

/// Writes the file: segments are copied where they are known, and made where not, by
/// all processors. Returns the output and the CRC-32 of all lines; `None` when `go_on`
/// returned `false`.
pub(crate) fn write<W: Write>(
    mut out: W,
    lines: &[Bytes],
    known: Option<KnownSegments>,
    go_on: impl Fn() -> bool,
) -> io::Result<Option<(W, u32)>> {
    let known = known.and_then(Known::from_segments);
    let (known, blocks) = (known.as_ref(), blocks(lines));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = processors.min(MAX_WORKERS).min(blocks.len()).max(1);
    let mut list = Vec::with_capacity(lines.len() * Listed::LENGTH + END);
    let mut all = crc32fast::Hasher::new();
    let is_whole = thread::scope(|scope| {
        // Each worker makes every n-th block, and waits until an earlier one is written.
        let mut made = Vec::new();
        for first in 0..workers {
            let (sender, receiver) = mpsc::sync_channel(1);
            let own = blocks.iter().skip(first).step_by(workers);
            let mut segmenter = Segmenter::default();
            thread::Builder::new()
                .name("encode".into())
                .spawn_scoped(scope, move || {
                    for block in own {
                        if sender
                            .send(Block::new(block, known, &mut segmenter))
                            .is_err()
                        {
                            return;
                        }
                    }
                })?;
            made.push(receiver);
        }
        for (_, receiver) in blocks.iter().zip(made.iter().cycle()) {
            if !go_on() {
                return Ok(false);
            }
            // Without a sender, its worker panicked, and this scope will.
            let block = receiver.recv().map_err(io::Error::other)?;
            out.write_all(&block.segments)?;
            for listed in block.list {
                list.extend(listed.encode());
                let length = u64::from(listed.line);
                all.combine(&crc32fast::Hasher::new_with_initial_len(
                    listed.line_crc,
                    length,
                ));
            }
        }
        io::Result::Ok(true)
    });
    if !is_whole? {
        return Ok(None);
    }
    list.extend(FORM.to_le_bytes());
    list.extend(index::number(lines.len()).to_le_bytes());
    out.write_all(&list)?;
    Ok(Some((out, all.finalize())))
}

/// Consecutive lines, in blocks of about `BLOCK` bytes.
fn blocks(lines: &[Bytes]) -> Vec<&[Bytes]> {
    let (mut blocks, mut start, mut length) = (Vec::new(), 0, 0);
    for (number, line) in lines.iter().enumerate() {
        length += line.len();
        if length >= BLOCK {
            blocks.push(&lines[start..=number]);
            (start, length) = (number + 1, 0);
        }
    }
    if start < lines.len() {
        blocks.push(&lines[start..]);
    }
    blocks
}

/// The segments of some lines, one after the other.
struct Block {
    segments: Vec<u8>,
    list: Vec<Listed>,
}

impl Block {
    fn new(lines: &[Bytes], known: Option<&Known>, segmenter: &mut Segmenter) -> Self {
        let mut segments = Vec::new();
        let list = lines.iter().map(|line| {
            let line_crc = crc32fast::hash(line);
            let start = segments.len();
            let found = known.and_then(|known| known.find(line, line_crc));
            let segment_crc = if let Some((segment, crc)) = found {
                segments.extend_from_slice(segment);
                crc
            } else {
                segmenter.append(line, &mut segments);
                crc32fast::hash(&segments[start..])
            };
            Listed {
                line: index::number(line.len()),
                line_crc,
                segment: index::number(segments.len() - start),
                segment_crc,
            }
        });
        let list = list.collect();
        Self { segments, list }
    }
}

/// The segments of a file, without the list.
fn segments(file: &[u8]) -> Option<&[u8]> {
    split(file).map(|(segments, _)| segments)
}

/// The list of a file.
fn list(file: &[u8]) -> Option<impl ExactSizeIterator<Item = Listed> + '_> {
    let (_, list) = split(file)?;
    Some(list.iter().map(Listed::decode))
}

type List = [[u8; Listed::LENGTH]];

/// Segments and list of a file. `None` when it is cut, or has another form.
fn split(file: &[u8]) -> Option<(&[u8], &List)> {
    let (rest, end) = file.split_last_chunk::<END>()?;
    let (form, count) = end.split_first_chunk::<4>()?;
    if *form != FORM.to_le_bytes() {
        return None;
    }
    let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
    let length = count.checked_mul(Listed::LENGTH)?;
    let (segments, list) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    Some((segments, list.as_chunks().0))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::store::files::segmenter::END;

    fn line(number: u32) -> Bytes {
        format!(
            "{{\"name\":\"{number}\",\"text\":\"{}\"}}\n",
            "x".repeat(number as usize * 40)
        )
        .into()
    }

    fn file(lines: &[Bytes], known: Option<KnownSegments>) -> Bytes {
        let (file, crc) = write(Vec::new(), lines, known, || true).unwrap().unwrap();
        assert_eq!(crc, crc32fast::hash(&lines.concat()));
        file.into()
    }

    fn starts(lines: &[Bytes]) -> Vec<u64> {
        let mut at = 0;
        let ends = lines.iter().map(|line| {
            at += line.len() as u64;
            at
        });
        std::iter::once(0).chain(ends.collect::<Vec<_>>()).collect()
    }

    fn decoded(segments: &Segments, line: usize) -> Vec<u8> {
        let place = |at: usize| usize::try_from(segments.offsets()[at]).unwrap();
        let range = place(line)..place(line + 1);
        let stream = [&segments.file()[range], &END[..]].concat();
        let mut text = Vec::new();
        let mut decoder = flate2::read::DeflateDecoder::new(&stream[..]);
        decoder.read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn a_file_has_a_segment_of_each_line_and_belongs_to_these_lines_only() {
        let lines: Vec<Bytes> = (0..20).map(line).collect();
        let file = file(&lines, None);
        let segments = Segments::open(file.clone(), &starts(&lines)).unwrap();
        for (number, line) in lines.iter().enumerate() {
            assert!(decoded(&segments, number) == *line);
        }
        for other in [&lines[1..], &lines[..19], &[]] {
            assert!(Segments::open(file.clone(), &starts(other)).is_none());
        }
        for length in 0..file.len() {
            assert!(Segments::open(file.slice(..length), &starts(&lines)).is_none());
        }
        let longer = [&file[..], b"\0"].concat();
        assert!(Segments::open(longer.into(), &starts(&lines)).is_none());
    }

    #[test]
    fn segments_of_many_blocks_lie_in_the_order_of_the_lines() {
        let lines: Vec<Bytes> = (0..400).map(line).collect();
        let blocks = blocks(&lines);
        assert!(blocks.len() > 2 * MAX_WORKERS / 2, "{}", blocks.len());
        assert!(blocks.concat() == lines);
        let file = file(&lines, None);
        let segments = Segments::open(file, &starts(&lines)).unwrap();
        for (number, line) in lines.iter().enumerate() {
            assert!(decoded(&segments, number) == *line);
        }
    }

    #[test]
    fn known_segments_give_the_same_file_and_damaged_ones_are_not_copied() {
        let before: Vec<Bytes> = (0..20).map(line).collect();
        let packed = file(&before, None);
        let lines: Vec<Bytes> = [5, 3, 3, 99, 19].map(line).into();
        let wanted = file(&lines, None);
        for at in 0..packed.len() {
            let mut damaged = packed.to_vec();
            damaged[at] ^= 0x10;
            for damaged in [packed.to_vec(), damaged, packed[..at].to_vec()] {
                let known = KnownSegments {
                    lines: before.concat().into(),
                    file: damaged.into(),
                };
                assert!(file(&lines, Some(known)) == wanted, "byte {at}");
            }
        }
        let known = Known::from_segments(KnownSegments {
            lines: before.concat().into(),
            file: packed,
        });
        let known = known.unwrap();
        let is_known = |line: &Bytes| known.find(line, crc32fast::hash(line)).is_some();
        assert_eq!(
            [5, 3, 99].map(|number| is_known(&line(number))),
            [true, true, false]
        );
    }

    /// Another compressor needs another form.
    #[test]
    fn the_compressor_is_the_one_of_this_form() {
        let lines: Vec<Bytes> = (0..50).map(line).collect();
        let digest = ::images::digest::Digest::of(&file(&lines, None));
        assert_eq!((FORM, index::FORMAT), (1, 7));
        let known = "sha256:f3bf7e78f83aeb51edb3dd6b382678c4bd3763ff5bb294d20d00d49af1243da2";
        assert_eq!(digest.to_string(), known);
    }

    #[test]
    fn work_ends_when_it_is_told_to() {
        let lines = [line(1)];
        assert!(write(Vec::new(), &lines, None, || false).unwrap().is_none());
    }
}
