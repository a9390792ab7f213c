//! A revision on its way into the store.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use tempfile::TempDir;

use crate::map;
use crate::store::file_error::sync_folder;
use crate::store::index::Texts;
use crate::store::{Index, MetaIndex, Store, StoreError};
use ::images::digest::{Digest, Hasher};
use fbc::read::Meta;

/// The files of a revision that is being written. Dropped before it is
/// committed, it leaves nothing behind.
pub struct RevisionWriter {
    folder: TempDir,
    metas: Output,
    segments: Output,
    messages: Output,
    queries: Output,
    texts: Texts,
    index: Vec<MetaIndex>,
    content: Hasher,
    flusher: Flusher,
}

/// Writes the answers to queries of a revision, from the start of their file.
pub struct QueryWriter {
    output: Output,
    flusher: Flusher,
}

impl QueryWriter {
    /// Appends answers.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.output.append(bytes, &self.flusher)
    }

    /// Lets the disk keep what was appended, while others still write.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.output.sync()
    }
}

/// A file that only grows.
#[derive(Clone)]
struct Output {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    /// How much of it the disk was asked to keep.
    flushed: u64,
}

/// How much is written to a file before the disk is asked to keep it, in bytes.
const FLUSH: u64 = 16 << 20;

/// Asks the disk to keep files while more is written to them, so that little
/// is left to wait for at the end.
#[derive(Clone)]
struct Flusher(SyncSender<Arc<File>>);

impl Flusher {
    fn start() -> Self {
        let (sender, files) = sync_channel::<Arc<File>>(2);
        // Ends with the sender. Errors are not lost: the last sync has them too.
        thread::spawn(move || {
            for file in files {
                let _ = file.sync_data();
            }
        });
        Self(sender)
    }
}

/// The canonical lines of a revision that is being written.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Bytes,
    /// Where each starts, and where the last one ends.
    starts: Vec<usize>,
}

impl Lines {
    /// The line of a meta, its end included; nothing when there is no such
    /// meta.
    pub fn get(&self, meta: u32) -> &[u8] {
        let meta = meta as usize;
        match self.starts.get(meta..meta + 2) {
            Some([start, end]) => self.bytes.get(*start..*end).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// A revision whose files are complete and synced, but not yet named.
pub struct Finished {
    pub(super) folder: TempDir,
    /// Digest over the digests of all canonical lines.
    pub content: Digest,
    pub(super) metas: usize,
}

/// What is stored beside a meta's line.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Bytes of its segment.
    pub segment: u32,
    /// CRC-32 of its line.
    pub crc: u32,
    /// Digest of its line.
    pub digest: Digest,
}

impl Store {
    /// Starts a revision.
    pub fn write_revision(&self) -> Result<RevisionWriter, StoreError> {
        let parent = self.revisions_folder();
        let folder = tempfile::Builder::new()
            .prefix("new-")
            .tempdir_in(&parent)
            .map_err(StoreError::io("write in", &parent))?;
        let open = |name: &str| {
            let path = folder.path().join(name);
            // Read as well: message parts are looked at again.
            let file = File::options()
                .read(true)
                .append(true)
                .create_new(true)
                .open(&path)
                .map_err(StoreError::io("create", &path))?;
            Ok::<_, StoreError>(Output {
                path,
                file: Arc::new(file),
                length: 0,
                flushed: 0,
            })
        };
        Ok(RevisionWriter {
            metas: open(crate::store::revisions::METAS)?,
            segments: open(crate::store::revisions::SEGMENTS)?,
            messages: open(crate::store::revisions::MESSAGES)?,
            queries: open(crate::store::revisions::QUERIES)?,
            texts: Texts::default(),
            index: Vec::new(),
            content: Hasher::default(),
            flusher: Flusher::start(),
            folder,
        })
    }
}

impl RevisionWriter {
    /// Appends metas in catalog order: their lines, their segments, and what
    /// is known of each. Returns where the lines start.
    pub fn append_metas(
        &mut self,
        lines: &[u8],
        segments: &[u8],
        metas: &[Meta],
        stored: &[Stored],
    ) -> Result<u64, StoreError> {
        let start = self.metas.length;
        self.metas.append(lines, &self.flusher)?;
        self.segments.append(segments, &self.flusher)?;
        for (meta, stored) in metas.iter().zip(stored) {
            self.content.update(stored.digest.as_bytes());
            self.index.push(MetaIndex {
                schema: self.texts.number(meta.schema()),
                package: self.texts.number(meta.package()),
                name: meta.name().into(),
                length: meta.length,
                segment: stored.segment,
                crc: stored.crc,
            });
        }
        Ok(start)
    }

    /// The metas so far whose schema is none of these: the numbers that schema
    /// and package have among the texts of the index, and that of the meta;
    /// sorted.
    pub fn metas_but_of(&self, schemas: &[&str]) -> Vec<[u32; 3]> {
        let left_out = schemas.iter().filter_map(|schema| self.texts.get(schema));
        let left_out: Vec<u32> = left_out.collect();
        let metas = (0..).zip(&self.index);
        let kept = metas.filter(|(_, meta)| !left_out.contains(&meta.schema));
        let mut kept: Vec<_> = kept
            .map(|(number, meta)| [meta.schema, meta.package, number])
            .collect();
        kept.sort_unstable();
        kept
    }

    /// How many metas were appended.
    pub fn metas(&self) -> u32 {
        self.index.len() as u32
    }

    /// Appends message parts and returns where they start.
    pub fn append_messages(&mut self, bytes: &[u8]) -> Result<u64, StoreError> {
        let start = self.messages.length;
        self.messages.append(bytes, &self.flusher)?;
        Ok(start)
    }

    /// The message parts so far. What is appended later lies behind them.
    pub fn messages(&self) -> Result<Bytes, StoreError> {
        map::map_file(&self.messages.file).map_err(StoreError::io("map", &self.messages.path))
    }

    /// The lines of the metas so far.
    pub fn lines(&self) -> Result<Lines, StoreError> {
        let mut starts = Vec::with_capacity(self.index.len() + 1);
        let mut start = 0;
        starts.push(start);
        for meta in &self.index {
            start += meta.length as usize;
            starts.push(start);
        }
        Ok(Lines {
            bytes: map::map_file(&self.metas.file)
                .map_err(StoreError::io("map", &self.metas.path))?,
            starts,
        })
    }

    /// Writes the answers to queries; may be used beside this writer.
    pub fn queries(&self) -> QueryWriter {
        QueryWriter {
            output: self.queries.clone(),
            flusher: self.flusher.clone(),
        }
    }

    /// Completes the files. `index` is taken as it is, but for its metas and
    /// texts, which are those that were appended.
    pub fn finish(self, mut index: Index) -> Result<Finished, StoreError> {
        index.metas = self.index;
        index.texts = self.texts.finish();
        let path = self.folder.path().join(crate::store::revisions::INDEX);
        let bytes = index.encode().map_err(|error| StoreError::Damaged {
            path: path.clone(),
            reason: format!("it cannot be encoded: {error}"),
        })?;
        let mut file = File::create_new(&path).map_err(StoreError::io("create", &path))?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .map_err(StoreError::io("write", &path))?;
        for output in [&self.metas, &self.segments, &self.messages, &self.queries] {
            output.sync()?;
        }
        sync_folder(self.folder.path())?;
        Ok(Finished {
            folder: self.folder,
            content: self.content.finish(),
            metas: index.metas.len(),
        })
    }
}

impl Output {
    fn sync(&self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(StoreError::io("sync", &self.path))
    }

    fn append(&mut self, bytes: &[u8], flusher: &Flusher) -> Result<(), StoreError> {
        (&*self.file)
            .write_all(bytes)
            .map_err(StoreError::io("write", &self.path))?;
        self.length += bytes.len() as u64;
        // A flusher that is busy is asked again with the next bytes.
        if self.length >= self.flushed + FLUSH && flusher.0.try_send(self.file.clone()).is_ok() {
            self.flushed = self.length;
        }
        Ok(())
    }
}
