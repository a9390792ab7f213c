//! Reading files while more of them are unpacked: the one is work for one processor,
//! which leaves others idle.
//!
//! What is read early is a part that memory has room for. It counts only for a file
//! that lies at the same place once all layers are unpacked: nothing that a layer
//! replaces or hides is used.
//!
//! A file of which an earlier revision has all pieces is copied from there, and not even
//! written: its place in the spool is left out.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::ingest::done::{Done, PIECE};
use crate::map::{UnnamedFile, UnnamedReader};
use crate::snapshot::KnownPieces;
use ::images::layers::SpoolFile;
use fbc::read::{Reader, pieces};

/// The most bytes of results that are kept.
const ROOM: usize = 20 << 20;
/// The largest file that is read early: the end of unpacking waits for a piece of it.
const LARGEST: u64 = 4 << 20;
/// The files that may wait for the reader.
const QUEUE: usize = 1024;
/// The endings of files that are read early. Others may be anything.
const ENDINGS: [&str; 3] = [".json", ".yaml", ".yml"];

/// Pieces of some files of a catalog.
#[derive(Default)]
pub(super) struct Early {
    /// By the numbers of file and piece.
    pieces: Mutex<HashMap<(u32, u32), Done>>,
    /// The files of which all pieces are there, and nothing else: how many.
    whole: HashMap<u32, u32>,
}

/// The first pieces of a file.
pub(super) struct EarlyFile {
    pieces: Vec<Done>,
    /// Whether these are all, and the spool does not have the file.
    is_whole: bool,
}

/// Files by their place in the spool.
pub(super) type EarlyFiles = HashMap<Range<u64>, EarlyFile>;

/// A file to read: which clearing of the spool it follows, and its place.
type Job = (usize, Range<u64>);

/// A spool whose files are read while more are written.
pub(super) struct Watched<'a> {
    spool: &'a mut UnnamedFile,
    jobs: Option<SyncSender<Job>>,
    waiting: &'a AtomicUsize,
    cleared: usize,
    known: Option<&'a KnownPieces>,
    /// Bytes that are not written yet; those before `head` are done with.
    pending: Vec<u8>,
    head: usize,
    /// The place of the first one.
    at: u64,
    copied: EarlyFiles,
    /// Bytes of results that may still be kept.
    room: usize,
    /// The error of a write while no error could be returned.
    failed: Option<io::Error>,
}

impl Early {
    /// The pieces of files that are at these places, in the catalog's order. `None` when
    /// two are at one place that the spool does not have.
    pub(super) fn of(
        mut found: EarlyFiles,
        places: impl IntoIterator<Item = Option<Range<u64>>>,
    ) -> Option<Self> {
        let whole = found.iter().filter(|(_, file)| file.is_whole);
        let left_out: HashSet<Range<u64>> = whole.map(|(place, _)| place.clone()).collect();
        let mut early = Self::default();
        let pieces = early.pieces.get_mut();
        for (number, place) in (0_u32..).zip(places) {
            let Some(place) = place else { continue };
            let Some(file) = found.remove(&place) else {
                if left_out.contains(&place) {
                    return None;
                }
                continue;
            };
            let mut count = 0;
            for done in file.pieces {
                pieces.insert((number, count), done);
                count += 1;
            }
            if file.is_whole {
                early.whole.insert(number, count);
            }
        }
        Some(early)
    }

    /// What was read of a piece, once.
    pub(super) fn take(&self, file: u32, piece: u32) -> Option<Done> {
        self.pieces.lock().remove(&(file, piece))
    }

    /// How many pieces a file has of which the spool has nothing.
    pub(super) fn whole(&self, file: u32) -> Option<u32> {
        self.whole.get(&file).copied()
    }
}

/// Writes to a spool, and reads files of it meanwhile if there is a processor for that.
/// Pieces that are `known` are not read again.
///
/// # Errors
/// When the end cannot be written.
pub(super) fn beside<T>(
    spool: &mut UnnamedFile,
    known: Option<&KnownPieces>,
    write: impl FnOnce(&mut Watched<'_>) -> T,
) -> io::Result<(T, EarlyFiles)> {
    let (waiting, is_written) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, jobs) = sync_channel(QUEUE);
        let is_alone = thread::available_parallelism().map_or(1, usize::from) == 1;
        let files = spool.reader().ok().filter(|_| !is_alone);
        let early = files.map(|files| EarlyReader {
            files,
            known,
            waiting: &waiting,
            is_written: &is_written,
        });
        let reader = early.map(|early| scope.spawn(move || early.read(jobs)));
        let mut watched = Watched {
            spool,
            jobs: reader.is_some().then_some(sender),
            waiting: &waiting,
            cleared: 0,
            known,
            pending: Vec::new(),
            head: 0,
            at: 0,
            copied: EarlyFiles::new(),
            room: ROOM,
            failed: None,
        };
        let written = write(&mut watched);
        let ended = watched.end();
        let (cleared, copied) = (watched.cleared, std::mem::take(&mut watched.copied));
        drop(watched);
        is_written.store(true, Ordering::Relaxed);
        // After a panic, which the hook has logged, everything is read as usual.
        let found = reader.and_then(|reader| reader.join().ok());
        let of_last = found.filter(|(of, _)| *of == cleared);
        let mut files = of_last.map(|(_, files)| files).unwrap_or_default();
        files.extend(copied);
        ended.map(|()| (written, files))
    })
}

/// Reads files of a spool while more are written.
struct EarlyReader<'a> {
    files: UnnamedReader,
    known: Option<&'a KnownPieces>,
    waiting: &'a AtomicUsize,
    is_written: &'a AtomicBool,
}

impl EarlyReader<'_> {
    /// Reads files until the sender is gone or there is no room. Returns what was read
    /// since the last clearing, and the number of that.
    fn read(&self, jobs: Receiver<Job>) -> (usize, EarlyFiles) {
        let (mut reader, mut content) = (Reader::default(), Vec::new());
        let (mut found, mut room, mut of) = (HashMap::new(), ROOM, 0);
        for (cleared, place) in jobs {
            if cleared != of {
                (of, room) = (cleared, ROOM);
                found.clear();
            }
            // What cannot be read early is read later.
            if self.files.read(&place, &mut content).is_ok() {
                let pieces = self.pieces(&mut reader, &content, &mut room);
                let is_whole = false;
                found.insert(place, EarlyFile { pieces, is_whole });
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if self.is_written.load(Ordering::Relaxed) {
                break;
            }
            if room == 0 && self.known.is_none() {
                // Nothing more is sent.
                self.waiting.store(QUEUE, Ordering::Relaxed);
                break;
            }
        }
        (of, found)
    }

    /// The first pieces of a file.
    fn pieces(&self, reader: &mut Reader, content: &[u8], room: &mut usize) -> Vec<Done> {
        let mut read = Vec::new();
        for piece in pieces(content, PIECE) {
            if self.is_written.load(Ordering::Relaxed) {
                break;
            }
            let mut done = Done::default();
            let bytes = content.get(piece.range.clone()).unwrap_or_default();
            if !done.take_known(&piece, bytes, self.known) {
                if *room == 0 {
                    break;
                }
                done.read(reader, &piece, bytes);
            }
            *room = room.saturating_sub(done.size());
            read.push(done);
        }
        read
    }
}

impl Watched<'_> {
    /// Writes what is pending before this place.
    fn write_until(&mut self, end: u64) -> io::Result<()> {
        let bytes = &self.pending[self.head..];
        let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let bytes = &bytes[..left.min(bytes.len())];
        self.spool.write_all(bytes)?;
        self.at += bytes.len() as u64;
        self.head += bytes.len();
        Ok(())
    }

    /// Writes all that is pending.
    fn end(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.write_until(u64::MAX)?;
        if self.copied.is_empty() {
            return Ok(());
        }
        self.spool.end_at(self.at)
    }

    /// Leaves a file out if all its pieces are known, and writes it otherwise. Whether it
    /// was written.
    fn settle(&mut self, range: &Range<u64>, is_read: bool) -> io::Result<bool> {
        let Some(known) = self.known else {
            return Ok(true);
        };
        // Parts of a large file are written before its end is known.
        if range.start >= self.at && is_read && self.room > 0 {
            self.write_until(range.start)?;
            let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let end = self.head.saturating_add(size);
            let content = self.pending.get(self.head..end);
            if let Some(pieces) = content.and_then(|content| all_known(content, known)) {
                let kept: usize = pieces.iter().map(Done::size).sum();
                self.room = self.room.saturating_sub(kept);
                let is_whole = true;
                self.copied
                    .insert(range.clone(), EarlyFile { pieces, is_whole });
                (self.head, self.at) = (end, range.end);
                self.spool.skip(size as u64)?;
                return Ok(false);
            }
        }
        self.write_until(range.end)?;
        Ok(true)
    }
}

/// The pieces of a file, if all are known.
fn all_known(content: &[u8], known: &KnownPieces) -> Option<Vec<Done>> {
    let mut all = Vec::new();
    for piece in pieces(content, PIECE) {
        let mut done = Done::default();
        let bytes = content.get(piece.range.clone())?;
        done.take_known(&piece, bytes, Some(known)).then_some(())?;
        all.push(done);
    }
    (!all.is_empty()).then_some(all)
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.known.is_none() {
            return self.spool.write(bytes);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if (self.pending.len() - self.head + bytes.len()) as u64 > LARGEST {
            self.write_until(u64::MAX)?;
        }
        self.pending.drain(..self.head);
        self.head = 0;
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_until(u64::MAX)?;
        self.spool.flush()
    }
}

impl SpoolFile for Watched<'_> {
    fn clear(&mut self) -> io::Result<()> {
        self.cleared += 1;
        self.pending.clear();
        (self.head, self.at, self.room, self.failed) = (0, 0, ROOM, None);
        self.copied.clear();
        self.spool.clear()
    }

    fn holds(&mut self, name: &str, range: Range<u64>) {
        let size = range.end.saturating_sub(range.start);
        let is_named = ENDINGS.iter().any(|ending| name.ends_with(ending));
        let is_read = is_named && (1..=LARGEST).contains(&size);
        match self.settle(&range, is_read) {
            Ok(true) if is_read => {}
            Ok(_) => return,
            Err(error) => {
                self.failed.get_or_insert(error);
                return;
            }
        }
        let Some(jobs) = &self.jobs else {
            return;
        };
        if self.waiting.load(Ordering::Relaxed) >= QUEUE {
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if jobs.try_send((self.cleared, range)).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const DOCUMENT: &[u8] = b"{\"schema\":\"a\",\"name\":\"x\"}\n";

    /// Writes a file, and waits until it was read, if it will be.
    fn put(spool: &mut Watched<'_>, name: &str, start: u64) -> Range<u64> {
        spool.write_all(DOCUMENT).unwrap();
        let range = start..start + DOCUMENT.len() as u64;
        spool.holds(name, range.clone());
        let begin = Instant::now();
        while spool.jobs.is_some() && spool.waiting.load(Ordering::Relaxed) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        range
    }

    fn is_alone() -> bool {
        thread::available_parallelism().map_or(1, usize::from) == 1
    }

    #[test]
    fn a_file_that_is_read_early_counts_at_its_place_alone() {
        let mut spool = UnnamedFile::new().unwrap();
        let ((first, other, last), found) = beside(&mut spool, None, |spool| {
            let first = put(spool, "catalog.json", 0);
            let other = put(spool, "index.db", first.end);
            let last = put(spool, "b.yaml", other.end);
            (first, other, last)
        })
        .unwrap();
        if is_alone() {
            return assert!(found.is_empty());
        }
        assert!(!found.contains_key(&other));
        let elsewhere = first.start + 1..first.end;
        let early = Early::of(found, [Some(elsewhere), Some(last), None, Some(first)]);
        let early = early.unwrap();
        for (file, is_read) in [(0, false), (1, true), (2, false), (3, true)] {
            let read = early.take(file, 0).map(|done| done.output.lines);
            assert_eq!(read.is_some(), is_read, "file {file}");
            assert_eq!(early.take(file, 0).map(|done| done.file), None, "once");
        }
    }

    #[test]
    fn nothing_of_a_spool_that_was_cleared_counts() {
        let mut spool = UnnamedFile::new().unwrap();
        let (_, found) = beside(&mut spool, None, |spool| {
            let range = put(spool, "catalog.json", 0);
            spool.clear().unwrap();
            range
        })
        .unwrap();
        assert!(found.is_empty());
        let (range, found) = beside(&mut spool, None, |spool| {
            put(spool, "catalog.json", 0);
            spool.clear().unwrap();
            put(spool, "other.json", 0)
        })
        .unwrap();
        assert_eq!(found.contains_key(&range), !is_alone());
    }

    #[test]
    fn results_are_bounded() {
        let mut spool = UnnamedFile::new().unwrap();
        let document = format!(
            "{{\"schema\":\"a\",\"text\":\"{}\"}}\n",
            "x".repeat(3 << 20)
        );
        let length = document.len() as u64;
        let ((), found) = beside(&mut spool, None, |spool| {
            for number in 0..30 {
                spool.write_all(document.as_bytes()).unwrap();
                spool.holds("catalog.json", number * length..(number + 1) * length);
                let begin = Instant::now();
                while spool.waiting.load(Ordering::Relaxed) == 1 {
                    assert!(begin.elapsed() < Duration::from_secs(60));
                    thread::yield_now();
                }
            }
        })
        .unwrap();
        let pieces = found.values().flat_map(|file| &file.pieces);
        let kept: usize = pieces.map(Done::size).sum();
        assert!(kept < ROOM + 3 * document.len(), "{kept}");
        assert_eq!(kept > 0, !is_alone());
    }

    #[test]
    fn two_files_at_one_place_that_the_spool_lacks_are_told() {
        let file = |is_whole| {
            let pieces = vec![Done::default(), Done::default()];
            EarlyFiles::from([(3..5, EarlyFile { pieces, is_whole })])
        };
        let places = [Some(0..3), Some(3..5), Some(3..5)];
        assert!(Early::of(file(true), places.clone()).is_none());
        let early = Early::of(file(false), places.clone()).unwrap();
        assert_eq!([0, 1, 2].map(|file| early.whole(file)), [None; 3]);
        let early = Early::of(file(true), places[..2].to_vec()).unwrap();
        assert_eq!([0, 1].map(|file| early.whole(file)), [None, Some(2)]);
        assert!(early.take(1, 1).is_some());
    }
}
