//! A file of answers, written in chunks.

use crate::answers::span::{Region, Span};

/// The end of a file. It collects bytes and hands them to a function that stores
/// them, in chunks of at least a certain length.
pub(crate) struct ChunkWriter<'a, E> {
    store: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    chunk: usize,
    buffer: Vec<u8>,
    /// Where the first byte of the buffer will lie.
    start: u64,
}

impl<'a, E> ChunkWriter<'a, E> {
    /// A writer for a file that has `start` bytes already.
    pub(crate) fn new(
        start: u64,
        chunk: usize,
        store: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Self {
        Self {
            store,
            chunk,
            buffer: Vec::with_capacity(chunk),
            start,
        }
    }

    /// The length of the file so far.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Appends the bytes that `put` writes and returns where they lie. Nothing is
    /// appended when it fails.
    pub(crate) fn span(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Span, E> {
        if self.buffer.len() >= self.chunk {
            self.flush()?;
        }
        let before = self.buffer.len();
        put(&mut self.buffer).inspect_err(|_| self.buffer.truncate(before))?;
        let mut span = Span::since(&self.buffer, before);
        span.shift(self.start);
        Ok(span)
    }

    /// Appends bytes. Several calls may write one message that is larger than a
    /// chunk.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.chunk {
            self.flush()?;
        }
        Ok(())
    }

    /// The bytes since a position.
    pub(crate) fn since(&self, start: u64) -> Region {
        Region {
            start,
            length: self.position() - start,
        }
    }

    /// Hands over all that is collected.
    pub(crate) fn flush(&mut self) -> Result<(), E> {
        (self.store)(&self.buffer)?;
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_the_start_of_the_file() {
        let mut file = b"before".to_vec();
        let mut store = |bytes: &[u8]| {
            file.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        let mut writer = ChunkWriter::new(6, 4, &mut store);
        let put = |text: &'static [u8]| {
            move |out: &mut Vec<u8>| {
                out.extend_from_slice(text);
                Ok(())
            }
        };
        let first = writer.span(put(b"first")).unwrap();
        let second = writer.span(put(b"two")).unwrap();
        let failed = writer.span(|out| {
            out.extend_from_slice(b"lost");
            Err(())
        });
        assert_eq!(failed, Err(()));
        let start = writer.position();
        writer.part(b"th").unwrap();
        writer.part(b"ird").unwrap();
        let region = writer.since(start);
        writer.flush().unwrap();
        assert_eq!(file, b"beforefirsttwothird");
        assert_eq!(first.of(&file), Some(&b"first"[..]));
        assert_eq!(second.of(&file), Some(&b"two"[..]));
        assert_eq!((region.start, region.length), (14, 5));
    }
}
