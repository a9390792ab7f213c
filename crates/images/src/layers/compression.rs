//! Decompressing layers. The first bytes decide on the compression; the media
//! type is often wrong.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::layers::error::UnpackError;

/// The bytes of one read: 16 KiB would take a fifth more time.
const INPUT: usize = 256 * 1024;

/// The largest zstd window, as a power of two: 32 MiB, as for levels up to 20.
/// Reading takes as much memory.
const ZSTD_WINDOW: u32 = 25;

/// The error of libzstd for a larger window.
const ZSTD_REFUSAL: &str = "Frame requires too much memory for decoding";

/// The number of bytes that identify a compression.
const MAGIC: usize = 6;

/// The uncompressed archive of a layer.
pub(super) enum Decompressed<R: Read> {
    Plain(Input<R>),
    Gzip(Box<MultiGzDecoder<Input<R>>>),
    Zstd(Box<ZstdDecoder<'static, Input<R>>>),
}

pub(super) type Input<R> = BufReader<Chain<Cursor<Vec<u8>>, Stored<R>>>;

/// Decompresses the layer `name` by its first bytes.
pub(super) fn decompress<R: Read>(name: &str, reader: R) -> Result<Decompressed<R>, UnpackError> {
    let failed = |source| UnpackError::Read {
        layer: name.to_owned(),
        source,
    };
    let mut reader = Stored { reader };
    let mut magic = Vec::with_capacity(MAGIC);
    (&mut reader)
        .take(MAGIC as u64)
        .read_to_end(&mut magic)
        .map_err(|error| failed(stored_error(error).unwrap_or_else(|error| error)))?;
    let kind = Kind::of(&magic);
    let input = BufReader::with_capacity(INPUT, Cursor::new(magic).chain(reader));
    Ok(match kind {
        Kind::Plain => Decompressed::Plain(input),
        Kind::Gzip => Decompressed::Gzip(Box::new(MultiGzDecoder::new(input))),
        Kind::Zstd => {
            let mut decoder = ZstdDecoder::with_buffer(input).map_err(failed)?;
            decoder.window_log_max(ZSTD_WINDOW).map_err(failed)?;
            Decompressed::Zstd(Box::new(decoder))
        }
        Kind::Unsupported(compression) => {
            return Err(UnpackError::Compression {
                layer: name.to_owned(),
                compression,
            });
        }
    })
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            Self::Zstd(reader) => reader.read(buffer),
        }
    }
}

/// The window limit in bytes, if an error of a decompressor is about it.
pub(super) fn exceeded_window(error: &io::Error) -> Option<u64> {
    (error.to_string() == ZSTD_REFUSAL).then_some(1 << ZSTD_WINDOW)
}

/// Extracts an error of the stored bytes from an error of a decompressor. `Err`
/// returns an error of the decompressor itself.
pub(super) fn stored_error(error: io::Error) -> Result<io::Error, io::Error> {
    match error.downcast::<StoredError>() {
        Ok(StoredError(error)) => Ok(error),
        Err(error) => Err(error),
    }
}

enum Kind {
    Plain,
    Gzip,
    Zstd,
    Unsupported(&'static str),
}

impl Kind {
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => Self::Unsupported("bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Unsupported("xz"),
            _ => Self::Plain,
        }
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
