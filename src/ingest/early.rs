//! Reading files while more of them are unpacked: the one is work for one processor,
//! which leaves others idle.
//!
//! What is read early is a part that memory has room for. It counts only for a file
//! that lies at the same place once all layers are unpacked: nothing that a layer
//! replaces or hides is used.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::ingest::done::{Done, PIECE};
use crate::map::UnnamedFile;
use ::images::layers::SpoolFile;
use fbc::read::{Reader, pieces};

/// The most bytes of results that are kept.
const ROOM: usize = 20 << 20;
/// The largest file that is read early: the end of unpacking waits for a piece of it.
const LARGEST: u64 = 4 << 20;
/// The files that may wait for the reader.
const QUEUE: usize = 2;
/// The endings of files that are read early. Others may be anything.
const ENDINGS: [&str; 3] = [".json", ".yaml", ".yml"];

/// The first pieces of some files of a catalog, by the numbers of file and piece.
#[derive(Default)]
pub(super) struct Early(Mutex<HashMap<(u32, u32), Done>>);

/// The first pieces of files, by the place of the file in the spool.
pub(super) type EarlyFiles = HashMap<Range<u64>, Vec<Done>>;

/// A file to read: which clearing of the spool it follows, its place and content.
type Job = (usize, Range<u64>, Vec<u8>);

/// A spool whose files are read while more are written.
pub(super) struct Watched<'a> {
    spool: &'a mut UnnamedFile,
    jobs: Option<SyncSender<Job>>,
    waiting: &'a AtomicUsize,
    cleared: usize,
}

impl Early {
    /// The pieces of files that are at these places, in the catalog's order.
    pub(super) fn of(
        mut found: EarlyFiles,
        places: impl IntoIterator<Item = Option<Range<u64>>>,
    ) -> Self {
        let mut early = HashMap::new();
        for (file, place) in (0_u32..).zip(places) {
            let pieces = place.and_then(|place| found.remove(&place));
            for (number, done) in (0_u32..).zip(pieces.into_iter().flatten()) {
                early.insert((file, number), done);
            }
        }
        Self(Mutex::new(early))
    }

    /// What was read of a piece, once.
    pub(super) fn take(&self, file: u32, piece: u32) -> Option<Done> {
        self.0.lock().remove(&(file, piece))
    }
}

/// Writes to a spool, and reads files of it meanwhile if there is a processor for that.
pub(super) fn beside<T>(
    spool: &mut UnnamedFile,
    write: impl FnOnce(&mut Watched<'_>) -> T,
) -> (T, EarlyFiles) {
    let (waiting, is_written) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, jobs) = sync_channel(QUEUE);
        let is_alone = thread::available_parallelism().map_or(1, usize::from) == 1;
        let reader = (!is_alone).then(|| scope.spawn(|| read(jobs, &waiting, &is_written)));
        let mut watched = Watched {
            spool,
            jobs: reader.is_some().then_some(sender),
            waiting: &waiting,
            cleared: 0,
        };
        let written = write(&mut watched);
        let cleared = watched.cleared;
        drop(watched);
        is_written.store(true, Ordering::Relaxed);
        // After a panic, which the hook has logged, everything is read as usual.
        let found = reader.and_then(|reader| reader.join().ok());
        let of_last = found.filter(|(of, _)| *of == cleared);
        (written, of_last.map(|(_, files)| files).unwrap_or_default())
    })
}

/// Reads files until the sender is gone or there is no room. Returns what was read
/// since the last clearing, and the number of that.
fn read(
    jobs: Receiver<Job>,
    waiting: &AtomicUsize,
    is_written: &AtomicBool,
) -> (usize, EarlyFiles) {
    let (mut reader, mut found, mut room, mut of) = (Reader::default(), HashMap::new(), ROOM, 0);
    for (cleared, place, content) in jobs {
        if cleared != of {
            (of, room) = (cleared, ROOM);
            found.clear();
        }
        let mut read = Vec::new();
        for piece in pieces(&content, PIECE) {
            if room == 0 || is_written.load(Ordering::Relaxed) {
                break;
            }
            let mut done = Done::default();
            let bytes = content.get(piece.range.clone()).unwrap_or_default();
            done.read(&mut reader, &piece, bytes);
            room = room.saturating_sub(done.size());
            read.push(done);
        }
        found.insert(place, read);
        waiting.fetch_sub(1, Ordering::Relaxed);
        if is_written.load(Ordering::Relaxed) {
            break;
        }
        if room == 0 {
            // Nothing is copied for it any more.
            waiting.store(QUEUE, Ordering::Relaxed);
        }
    }
    (of, found)
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.spool.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.spool.flush()
    }
}

impl SpoolFile for Watched<'_> {
    fn clear(&mut self) -> io::Result<()> {
        self.cleared += 1;
        self.spool.clear()
    }

    fn holds(&mut self, name: &str, range: Range<u64>) {
        let Some(jobs) = &self.jobs else {
            return;
        };
        let size = range.end.saturating_sub(range.start);
        if size > LARGEST
            || !ENDINGS.iter().any(|ending| name.ends_with(ending))
            || self.waiting.load(Ordering::Relaxed) >= QUEUE
        {
            return;
        }
        // What cannot be read early is read later.
        if let Ok(content) = self.spool.copy(range.clone()) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            if jobs.try_send((self.cleared, range, content)).is_err() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
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
        let ((first, other, last), found) = beside(&mut spool, |spool| {
            let first = put(spool, "catalog.json", 0);
            let other = put(spool, "index.db", first.end);
            let last = put(spool, "b.yaml", other.end);
            (first, other, last)
        });
        if is_alone() {
            return assert!(found.is_empty());
        }
        assert!(!found.contains_key(&other));
        let elsewhere = first.start + 1..first.end;
        let early = Early::of(found, [Some(elsewhere), Some(last), None, Some(first)]);
        for (file, is_read) in [(0, false), (1, true), (2, false), (3, true)] {
            let read = early.take(file, 0).map(|done| done.output.lines);
            assert_eq!(read.is_some(), is_read, "file {file}");
            assert_eq!(early.take(file, 0).map(|done| done.file), None, "once");
        }
    }

    #[test]
    fn nothing_of_a_spool_that_was_cleared_counts() {
        let mut spool = UnnamedFile::new().unwrap();
        let (_, found) = beside(&mut spool, |spool| {
            let range = put(spool, "catalog.json", 0);
            spool.clear().unwrap();
            range
        });
        assert!(found.is_empty());
        let (range, found) = beside(&mut spool, |spool| {
            put(spool, "catalog.json", 0);
            spool.clear().unwrap();
            put(spool, "other.json", 0)
        });
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
        let ((), found) = beside(&mut spool, |spool| {
            for number in 0..30 {
                spool.write_all(document.as_bytes()).unwrap();
                spool.holds("catalog.json", number * length..(number + 1) * length);
                let begin = Instant::now();
                while spool.waiting.load(Ordering::Relaxed) == 1 {
                    assert!(begin.elapsed() < Duration::from_secs(60));
                    thread::yield_now();
                }
            }
        });
        let kept: usize = found.values().flatten().map(Done::size).sum();
        assert!(kept < ROOM + 3 * document.len(), "{kept}");
        assert_eq!(kept > 0, !is_alone());
    }
}
