//! Sums up the bytes of a file while they are written.

use std::io::{self, Write};

use crate::store::revision::FileSum;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 1 << 20;

/// Sums up bytes as they come.
#[derive(Clone, Default)]
pub(crate) struct Summing {
    sum: FileSum,
    /// Of the bytes of the last block.
    open: crc32fast::Hasher,
}

impl Summing {
    /// Bytes in the last block.
    fn filled(&self) -> usize {
        // A remainder of a division by the size of a block.
        usize::try_from(self.sum.length % BLOCK as u64).unwrap_or(0)
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled()));
            self.open.update(now);
            self.sum.length += now.len() as u64;
            if self.filled() == 0 {
                self.sum
                    .blocks
                    .push(std::mem::take(&mut self.open).finalize());
            }
            bytes = rest;
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> FileSum {
        let mut summing = Self::default();
        summing.update(bytes);
        summing.finish()
    }

    pub(crate) fn finish(mut self) -> FileSum {
        if self.filled() > 0 {
            self.sum.blocks.push(self.open.finalize());
        }
        self.sum
    }
}

/// A writer whose bytes are summed up.
pub(crate) struct Summed<W> {
    pub(crate) inner: W,
    pub(crate) sums: Summing,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sums.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_how_the_bytes_come() {
        let bytes: Vec<u8> = (0..BLOCK * 2 + 7)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        let whole = Summing::of(&bytes);
        assert_eq!((whole.length, whole.blocks.len()), (bytes.len() as u64, 3));
        for size in [1000, BLOCK - 1, BLOCK, BLOCK + 1] {
            let mut summing = Summing::default();
            bytes.chunks(size).for_each(|part| summing.update(part));
            assert_eq!(summing.finish(), whole, "{size}");
        }
        assert_eq!(Summing::of(b""), FileSum::default());
        assert_eq!(Summing::of(&bytes[..BLOCK]).blocks, whole.blocks[..1]);
    }
}
