//! Encoded messages of unary calls, and streams of messages as pieces of the
//! message file.

use std::ops::Range;

use bytes::Bytes;

use crate::answers::grpc::message::put_field_header;
use crate::snapshot::slices::position;
use crate::store::CheckedFile;

/// One encoded message, in parts.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The parts, in order.
    pub parts: Vec<Bytes>,
    /// Their length together, in bytes.
    pub length: usize,
}

impl Message {
    // A message has several parts, and a call to append one costs more than the rest.
    #[inline]
    pub(super) fn push(&mut self, part: Bytes) {
        self.length += part.len();
        self.parts.push(part);
    }

    pub(super) fn push_field_header(&mut self, number: u32, length: usize) {
        self.push(field_header(number, length));
    }

    /// Appends the same value as two fields. No list is made of its parts: lists of
    /// some kilobytes cost the allocator more than the parts cost.
    pub(super) fn push_twice(&mut self, numbers: [u32; 2], value: impl Iterator<Item = Bytes>) {
        let (place, before) = (self.parts.len(), self.length);
        // The first header tells the length, which is known behind the value.
        self.parts.push(Bytes::new());
        for part in value {
            self.push(part);
        }
        let (end, length) = (self.parts.len(), self.length - before);
        let [first, second] = numbers.map(|number| field_header(number, length));
        self.length += first.len() + length;
        self.parts[place] = first;
        self.push(second);
        self.parts.extend_from_within(place + 1..end);
    }
}

fn field_header(number: u32, length: usize) -> Bytes {
    let mut header = Vec::with_capacity(8);
    put_field_header(&mut header, number, length as u64);
    header.into()
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        let mut message = Self::default();
        message.push(bytes);
        message
    }
}

/// Messages with gRPC's framing, ready to send.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The bytes, in order.
    pub parts: Vec<Bytes>,
}

/// The pieces of a stream in a file. Adjacent pieces become one.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<Range<u64>>);

impl Pieces {
    /// Appends a piece, unless it is empty.
    pub(super) fn push(&mut self, piece: Range<u64>) {
        match self.0.last_mut() {
            _ if piece.is_empty() => {}
            Some(last) if last.end == piece.start => last.end = piece.end,
            _ => self.0.push(piece),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes. A piece that is not in the file is left out.
    pub(super) fn of(&self, file: &CheckedFile) -> Stream {
        let parts = self.0.iter();
        let parts = parts.map(|piece| file.slice(position(piece.start)..position(piece.end)));
        Stream {
            parts: parts.filter(|part| !part.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pieces: &[(u64, u64)]) -> Vec<Bytes> {
        let mut all = Pieces::default();
        for (start, end) in pieces {
            all.push(*start..*end);
        }
        let file = CheckedFile::new(Bytes::from_static(b"0123456789"), None);
        all.of(&file).parts
    }

    #[test]
    fn a_value_in_two_fields_is_the_same_twice() {
        let value = [&b"ab"[..], b"", b"cde"].map(Bytes::from_static);
        let mut twice = Message::from(Bytes::from_static(b"before"));
        twice.push_twice([2, 3], value.clone().into_iter());
        let mut once = Message::from(Bytes::from_static(b"before"));
        for number in [2, 3] {
            once.push_field_header(number, 5);
            for part in &value {
                once.push(part.clone());
            }
        }
        assert_eq!(twice.parts.concat(), once.parts.concat());
        assert_eq!(twice.length, twice.parts.concat().len());
    }

    #[test]
    fn pieces_that_lie_side_by_side_are_one() {
        assert_eq!(parts(&[(0, 10)]), ["0123456789"]);
        assert_eq!(parts(&[(0, 3), (3, 4), (4, 10)]), ["0123456789"]);
        assert_eq!(parts(&[(2, 4), (4, 4), (4, 5)]), ["234"]);
        // In another order they are not, nor what stands there twice.
        assert_eq!(parts(&[(4, 6), (2, 4), (7, 9)]), ["45", "23", "78"]);
        assert_eq!(parts(&[(1, 2), (1, 2), (2, 3)]), ["1", "12"]);
        assert!(parts(&[(3, 3)]).is_empty());
    }

    #[test]
    fn pieces_that_are_not_in_the_file_give_nothing() {
        assert!(parts(&[(5, 11)]).is_empty());
        assert!(parts(&[(7, 3), (u64::MAX, 2), (20, u64::MAX)]).is_empty());
        assert_eq!(parts(&[(9, 10), (11, 12)]), ["9"]);
    }
}
