//! gRPC's framing: a byte that is zero for an uncompressed message, four bytes
//! with its length, and the message.

use std::ops::Range;

use crate::answers::chunks::ChunkWriter;

/// Bytes before each message.
pub const PREFIX: usize = 5;

/// The prefix of a message of `length` bytes.
pub fn prefix(length: u32) -> [u8; PREFIX] {
    let [a, b, c, d] = length.to_be_bytes();
    [0, a, b, c, d]
}

/// Appends a message with its prefix.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a message is made of one document's texts, which are at most 1 GiB long"
)]
pub fn put_framed(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; PREFIX]);
    put(out);
    let length = out.len() - start - PREFIX;
    out[start..start + PREFIX].copy_from_slice(&prefix(length as u32));
}

/// Appends a message with its prefix to a file.
pub(crate) fn put_frame<E>(
    out: &mut ChunkWriter<'_, E>,
    put: impl FnOnce(&mut Vec<u8>),
) -> Result<(), E> {
    out.span(|out| {
        put_framed(out, put);
        Ok(())
    })?;
    Ok(())
}

/// The ranges of framed messages, prefixes included. It ends at the first one
/// that is not complete.
pub fn framed(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let [_, length @ ..] = *bytes.get(start..)?.first_chunk::<PREFIX>()?;
        let message = start + PREFIX;
        let end = message.checked_add(u32::from_be_bytes(length) as usize)?;
        let whole = start..end;
        bytes.get(whole.clone())?;
        start = end;
        Some(whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_their_prefixes_as_long_as_they_are_whole() {
        let mut bytes = Vec::new();
        for message in [&b"first"[..], b"", &[7; 300]] {
            put_framed(&mut bytes, |out| out.extend_from_slice(message));
        }
        assert_eq!(bytes[..10], *b"\0\0\0\0\x05first");
        let found = |length: usize| framed(&bytes[..length]).collect::<Vec<_>>();
        let whole = [0..10, 10..15, 15..320];
        assert_eq!(found(bytes.len()), whole);
        for length in 0..bytes.len() {
            let fit = whole.iter().filter(|range| range.end <= length).count();
            assert_eq!(found(length), whole[..fit], "{length}");
        }
        assert_eq!(framed(&[0xff; 50]).count(), 0);
    }
}
