//! The framing of OpenPGP packets (RFC 9580, section 4), and compressed packets.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::{DeflateDecoder, ZlibDecoder};

pub(super) const SIGNATURE: u8 = 2;
pub(super) const ONE_PASS_SIGNATURE: u8 = 4;
pub(super) const PUBLIC_KEY: u8 = 6;
pub(super) const COMPRESSED: u8 = 8;
pub(super) const LITERAL: u8 = 11;
pub(super) const USER_ID: u8 = 13;
pub(super) const PUBLIC_SUBKEY: u8 = 14;
pub(super) const USER_ATTRIBUTE: u8 = 17;

/// The largest content of a compressed packet, in bytes.
const MAX_DECOMPRESSED: usize = 1 << 20;
const CUT: &str = "a packet is cut short";

/// A packet with its body.
#[derive(Debug)]
pub(super) struct RawPacket<'a> {
    pub(super) tag: u8,
    pub(super) body: Cow<'a, [u8]>,
}

/// The packets of a text. It ends after an error.
pub(super) struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of at most four bytes.
    fn number(&mut self, length: usize) -> Result<usize, &'static str> {
        let bytes = self.take(length)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn packet(&mut self) -> Result<RawPacket<'a>, &'static str> {
        let first = self.number(1)?;
        // Both are at most 63.
        let tag = |bits: usize| u8::try_from(bits).unwrap_or(0);
        match first {
            0x00..0x80 => Err("there is something that is not a packet"),
            0x80..0xC0 => {
                let length = match first & 3 {
                    3 => self.0.len(),
                    kind => self.number(1 << kind)?,
                };
                Ok(RawPacket {
                    tag: tag(first >> 2 & 15),
                    body: self.take(length)?.into(),
                })
            }
            _ => Ok(RawPacket {
                tag: tag(first & 63),
                body: self.new_body()?,
            }),
        }
    }

    /// A body of the newer format, which may come in parts.
    fn new_body(&mut self) -> Result<Cow<'a, [u8]>, &'static str> {
        let mut parts = Vec::new();
        loop {
            let length = match self.number(1)? {
                short @ ..192 => short,
                long @ 192..224 => ((long - 192) << 8) + self.number(1)? + 192,
                part @ 224..255 => {
                    parts.extend_from_slice(self.take(1 << (part & 31))?);
                    continue;
                }
                _ => self.number(4)?,
            };
            let last = self.take(length)?;
            if parts.is_empty() {
                return Ok(last.into());
            }
            parts.extend_from_slice(last);
            return Ok(parts.into());
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<RawPacket<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let packet = self.packet();
        if packet.is_err() {
            self.0 = &[];
        }
        Some(packet)
    }
}

/// The packets in the body of a compressed packet, of a bounded size and with
/// nothing behind them.
pub(super) fn decompressed(body: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (algorithm, data) = body.split_first().ok_or(CUT)?;
    let mut content = Vec::new();
    let limit = MAX_DECOMPRESSED as u64 + 1;
    let damaged = |_| "its compressed packet is damaged";
    let rest = match algorithm {
        0 => {
            content.extend_from_slice(&data[..data.len().min(MAX_DECOMPRESSED + 1)]);
            &[]
        }
        1 => {
            let mut decoder = DeflateDecoder::new(data).take(limit);
            decoder.read_to_end(&mut content).map_err(damaged)?;
            decoder.into_inner().into_inner()
        }
        2 => {
            let mut decoder = ZlibDecoder::new(data).take(limit);
            decoder.read_to_end(&mut content).map_err(damaged)?;
            decoder.into_inner().into_inner()
        }
        _ => return Err("the algorithm of its compressed packet is not supported"),
    };
    if content.len() > MAX_DECOMPRESSED {
        return Err("its compressed packet contains more than 1 MiB");
    }
    if !rest.is_empty() {
        return Err("there is something behind its compressed data");
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn bodies(bytes: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, &'static str> {
        let packets = Packets::new(bytes);
        packets
            .map(|packet| packet.map(|packet| (packet.tag, packet.body.into_owned())))
            .collect()
    }

    #[test]
    fn each_form_of_a_length_is_read() {
        let mut long = vec![0xCB, 192, 8];
        long.extend([7; 200]);
        let mut wide = vec![0xCB, 255, 0, 0, 1, 0];
        wide.extend([7; 256]);
        let mut parts = vec![0xCB, 0xE9];
        parts.extend([7; 512]);
        parts.extend([2, 7, 7]);
        for (bytes, tag, length) in [
            (vec![0xCB, 2, 7, 7], 11, 2),
            (vec![0xCB, 0], 11, 0),
            (long, 11, 200),
            (wide, 11, 256),
            (parts, 11, 514),
            (vec![0x88, 2, 7, 7], 2, 2),
            (vec![0x89, 0, 2, 7, 7], 2, 2),
            (vec![0x8A, 0, 0, 0, 2, 7, 7], 2, 2),
            (vec![0xA3, 7, 7, 7], 8, 3),
        ] {
            assert_eq!(bodies(&bytes).unwrap(), [(tag, vec![7; length])]);
            for cut in 1..bytes.len() {
                // A packet without a length ends anywhere.
                assert!(
                    bodies(&bytes[..cut]).is_err() || tag == 8,
                    "{bytes:?} {cut}"
                );
            }
        }
        assert_eq!(bodies(&[0xCB, 0, 0x88, 0]).unwrap().len(), 2);
        for junk in [&[0xCB, 0, 0][..], b"-----BEGIN", &[0xCB, 0, 0xCB]] {
            assert!(bodies(junk).is_err(), "{junk:?}");
        }
    }

    #[test]
    fn compressed_data_is_bounded_and_ends_with_its_packet() {
        let zlib = |bytes: &[u8]| {
            let mut encoder = flate2::write::ZlibEncoder::new(vec![2], flate2::Compression::best());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(decompressed(&zlib(b"abc")).unwrap(), b"abc");
        assert_eq!(decompressed(b"\0abc").unwrap(), b"abc");
        let full = vec![0; 1 << 20];
        assert_eq!(decompressed(&zlib(&full)).unwrap(), full);
        let bomb = zlib(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert!(decompressed(&bomb).unwrap_err().contains("1 MiB"));
        let mut trailing = zlib(b"abc");
        trailing.push(0);
        assert!(decompressed(&trailing).unwrap_err().contains("behind"));
        let cut = zlib(b"abc");
        assert!(decompressed(&cut[..cut.len() - 6]).is_err());
        for bytes in [&[][..], &[3, 0], &[2], &[1, 0xFF]] {
            assert!(decompressed(bytes).is_err(), "{bytes:?}");
        }
    }
}
