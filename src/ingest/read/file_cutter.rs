//! Cuts files into pieces for whoever reads them while more files arrive. Nothing of the
//! files is kept, so that this works only for files that come in the order of the
//! catalog, and of which none is ignored. Otherwise the feed gives up.

use std::io;
use std::ops::Range;

use crate::ingest::read::file_part::{Buffer, DATABASE, FilePart, FilePartContent, Pool, Text};
use crate::ingest::read::ordered::{Push, Stopped};
use crate::ingest::read::read_piece::{PIECE, ReadPiece};
use ::images::layers::{ContentSink, UnpackedFile, walk_order};
use fbc::indexignore;
use fbc::read::{Cutter, Piece};

/// Bytes that are read at once behind the end of a piece: as few as possible, since what
/// belongs to the next piece is copied.
const STEP: usize = 64 << 10;
/// The most bytes of one piece. Larger ones are read from a file.
const LARGEST: usize = 16 << 20;

/// Takes files and sends their pieces.
pub(crate) struct FileCutter<'a> {
    parts: &'a mut Push<'a, FilePart>,
    pool: Pool,
    buffer: Buffer,
    filled: usize,
    cutter: Cutter,
    /// The path of the present file, until its first piece is sent.
    path: Option<String>,
    /// All files so far, with their places in all contents.
    files: Vec<(String, Range<u64>)>,
    position: u64,
    gave_up: bool,
}

impl<'a> FileCutter<'a> {
    /// Sends pieces to whoever reads them.
    pub(crate) fn new(parts: &'a mut Push<'a, FilePart>) -> Self {
        let pool = Pool::default();
        Self {
            parts,
            buffer: pool.take(PIECE + STEP),
            pool,
            filled: 0,
            cutter: Cutter::new(PIECE),
            path: None,
            files: Vec::new(),
            position: 0,
            gave_up: false,
        }
    }

    /// Whether the files have to be read in another way.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Gives up, unless exactly these files came, in this order.
    pub(crate) fn compare(&mut self, files: &[UnpackedFile]) {
        let came = self.files.iter();
        let came = came.map(|(path, place)| (&**path, place.start, place.end - place.start));
        let files = files.iter();
        let is_same = came.eq(files.map(|file| (&*file.path, file.offset, file.size)));
        if !is_same {
            self.gave_up = true;
        }
        self.expect_files();
    }

    /// Gives up when no file came: there is another error for that.
    pub(crate) fn expect_files(&mut self) {
        self.gave_up |= self.files.is_empty();
    }

    fn give_up<T>(&mut self) -> io::Result<T> {
        self.gave_up = true;
        Err(io::Error::other("the files cannot be read as they arrive"))
    }

    /// Sends the piece at the start of the buffer. What follows it begins the next one.
    fn send(&mut self, piece: &Piece) -> io::Result<()> {
        let length = piece.range.end;
        let is_first = self.files.len() == 1 && self.path.is_some();
        let rest = self.buffer.bytes.get(length..self.filled);
        let rest = rest.unwrap_or_default();
        let mut next = self.pool.take((PIECE + STEP).max(rest.len() + STEP));
        if let Some(start) = next.bytes.get_mut(..rest.len()) {
            start.copy_from_slice(rest);
        }
        self.filled = rest.len();
        let buffer = std::mem::replace(&mut self.buffer, next);
        let text = Text::Buffered { buffer, length };
        if is_first && text.starts_with(DATABASE) {
            return self.give_up();
        }
        self.push(FilePartContent::Text(piece.clone(), text))
    }

    fn push(&mut self, content: FilePartContent) -> io::Result<()> {
        let part = FilePart {
            path: self.path.take(),
            content,
        };
        let sent = (self.parts)(part);
        sent.map_err(|Stopped| io::Error::other("nobody reads the files any more"))
    }

    /// Takes a file of which an earlier revision has all pieces.
    pub(crate) fn add_done(&mut self, path: &str, pieces: Vec<ReadPiece>) -> io::Result<()> {
        self.begin(path)?;
        for piece in pieces {
            self.push(FilePartContent::Read(Box::new(piece)))?;
        }
        Ok(())
    }
}

impl ContentSink for FileCutter<'_> {
    fn clear(&mut self) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        self.give_up()
    }

    fn begin(&mut self, path: &str) -> io::Result<()> {
        let is_ignore = path.rsplit('/').next() == Some(indexignore::FILE_NAME);
        let last = self.files.last();
        let is_next = last.is_none_or(|(last, _)| walk_order(last, path).is_lt());
        if is_ignore || !is_next {
            return self.give_up();
        }
        self.files
            .push((path.to_owned(), self.position..self.position));
        self.path = Some(path.to_owned());
        self.cutter = Cutter::new(PIECE);
        Ok(())
    }

    fn room(&mut self) -> io::Result<&mut [u8]> {
        let end = PIECE.max(self.filled) + STEP;
        if end > LARGEST {
            return self.give_up();
        }
        if self.buffer.bytes.len() < end {
            self.buffer.bytes.resize(end, 0);
        }
        Ok(&mut self.buffer.bytes[self.filled..end])
    }

    fn advance(&mut self, count: usize) -> io::Result<()> {
        self.filled += count;
        self.position += count as u64;
        let bytes = &self.buffer.bytes[..self.filled];
        match self.cutter.next(bytes) {
            Some(piece) => self.send(&piece),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some((_, place)) = self.files.last_mut() {
            place.end = self.position;
        }
        loop {
            let piece = self.cutter.last(&self.buffer.bytes[..self.filled]);
            self.send(&piece)?;
            if self.filled == 0 {
                return Ok(());
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
