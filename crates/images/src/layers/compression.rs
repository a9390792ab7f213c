//! Layers, and their decompression. The first bytes decide on the compression; the media
//! type is often wrong.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::layers::error::{Damage, Exceeded, UnpackError};
use crate::layers::tar_entries::{Fault, TarSource};

/// The bytes of one read: 16 KiB would take a fifth more time.
const INPUT: usize = 256 * 1024;

/// The largest zstd window, as a power of two: 32 MiB, as for levels up to 20.
/// Reading takes as much memory.
const ZSTD_WINDOW: u32 = 25;

/// The error of libzstd for a larger window.
const ZSTD_REFUSAL: &str = "Frame requires too much memory for decoding";

/// The number of bytes that identify a compression.
pub(crate) const MAGIC: usize = 6;

/// One layer of an image.
pub struct Layer<R> {
    /// The name in messages: its digest.
    pub name: String,
    /// The stored bytes: a tar archive, plain or compressed with gzip or zstd.
    /// It is read to the end unless an error occurs.
    pub reader: R,
}

/// The uncompressed archive of a layer.
pub(super) enum Decompressed<R: Read> {
    Plain(Input<R>),
    Gzip(Box<MultiGzDecoder<Input<R>>>),
    Zstd(Box<ZstdDecoder<'static, Input<R>>>),
}

pub(super) type Input<R> = BufReader<Chain<Cursor<Vec<u8>>, Stored<R>>>;

/// Decompresses the layer `name` by its first bytes.
pub(super) fn decompress<R: Read>(
    name: &str,
    mut reader: R,
) -> Result<Decompressed<R>, UnpackError> {
    let failed = |source| UnpackError::Read {
        layer: name.to_owned(),
        source,
    };
    let mut magic = Vec::with_capacity(MAGIC);
    (&mut reader)
        .take(MAGIC as u64)
        .read_to_end(&mut magic)
        .map_err(failed)?;
    let compression = compression(&magic);
    let input = Cursor::new(magic).chain(Stored { reader });
    let input = BufReader::with_capacity(INPUT, input);
    Ok(match compression {
        None => Decompressed::Plain(input),
        Some("gzip") => Decompressed::Gzip(Box::new(MultiGzDecoder::new(input))),
        Some("zstd") => {
            let mut decoder = ZstdDecoder::with_buffer(input).map_err(failed)?;
            decoder.window_log_max(ZSTD_WINDOW).map_err(failed)?;
            Decompressed::Zstd(Box::new(decoder))
        }
        Some(compression) => {
            return Err(UnpackError::Compression {
                layer: name.to_owned(),
                compression,
            });
        }
    })
}

impl<R: Read> TarSource for Decompressed<R> {
    const CHECKS_TRAILER: bool = true;

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        loop {
            let read = match self {
                Self::Plain(reader) => reader.read(buffer),
                Self::Gzip(reader) => reader.read(buffer),
                Self::Zstd(reader) => reader.read(buffer),
            };
            let error = match read {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(match error.downcast::<StoredError>() {
                Ok(StoredError(error)) => Fault::Stored(error),
                Err(error) if error.to_string() == ZSTD_REFUSAL => {
                    Fault::Exceeded(Exceeded::Window(1 << ZSTD_WINDOW))
                }
                Err(error) => Fault::Damage(Damage::Compressed(error)),
            });
        }
    }

    fn seek(&mut self, _: u64) -> Result<u64, Fault> {
        Ok(0)
    }
}

/// The compression that the first bytes of a file show; none of plain bytes.
pub(crate) fn compression(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        // A frame, or a skippable frame before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        _ => None,
    }
}

/// Marks the errors of the layer's reader, to distinguish a failing disk from a
/// damaged archive.
pub(super) struct Stored<R> {
    reader: R,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct StoredError(io::Error);

impl<R: Read> Read for Stored<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io::Error::new(error.kind(), StoredError(error))),
            }
        }
    }
}
