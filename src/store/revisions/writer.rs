//! Writes the files of a revision.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use indexmap::IndexSet;
use tempfile::TempDir;

use crate::answers::index::{self, Index, MetaIndex};
use crate::answers::outline::Outline;
use crate::store::file_io::{DiskError, protect};
use crate::store::files::pieces::{self, Part, PieceKey, Program};
use crate::store::files::revision_files::{INDEX, MESSAGES, METAS, PIECES, QUERIES};
use crate::store::files::summing::Summing;
use crate::store::handle::INCOMING;
use crate::store::revision::FileSum;
use crate::store::revisions::output::{Flusher, Output};
use crate::store::{Damage, Store, StoreError};
use ::images::digest::{Digest, Hasher};
use fbc::read::Meta;

/// The files of a revision that is being written. Dropped before it is
/// committed, it leaves nothing behind.
pub struct RevisionWriter {
    folder: TempDir,
    metas: Output,
    messages: Output,
    queries: Output,
    pieces: Output,
    /// Schemas and package names, each once.
    texts: IndexSet<Box<str>>,
    index: Vec<MetaIndex>,
    content: Hasher,
}

/// The canonical lines of a revision that is being written.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Bytes,
    /// Where each starts, and where the last one ends.
    starts: Vec<usize>,
}

impl Lines {
    /// The line of a meta with its line end; empty when there is no such meta.
    pub fn get(&self, meta: u32) -> &[u8] {
        let meta = meta as usize;
        match self.starts.get(meta..meta + 2) {
            Some([start, end]) => self.bytes.get(*start..*end).unwrap_or(&[]),
            _ => &[],
        }
    }
}

/// A revision whose files are complete and synced, but that has no row yet.
pub struct Finished {
    pub(crate) folder: TempDir,
    /// Digest over the digests of all canonical lines.
    pub content: Digest,
    pub(crate) metas: usize,
    pub(crate) sums: Arc<BTreeMap<String, FileSum>>,
    /// The outline for the history, if it was made.
    pub outline: Option<Outline>,
}

/// What was made of a piece of a file.
pub struct Made<'a> {
    /// Canonical lines.
    pub lines: &'a [u8],
    /// Parts of messages.
    pub messages: &'a [u8],
    /// One for each line.
    pub metas: &'a [Meta],
    /// Facts about each line.
    pub stored: &'a [Stored],
    /// What is kept for the next revision.
    pub kept: Option<Kept<'a>>,
}

/// What is kept of a piece besides its bytes in the files of the revision.
pub struct Kept<'a> {
    /// The key of the piece.
    pub key: PieceKey,
    /// The CRC-32 of lines and messages.
    pub crcs: [u32; 2],
    /// What else was made of it. No place in it depends on what comes before.
    pub content: &'a [u8],
}

/// Where the bytes that were made of a piece lie in the files of the revision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base {
    /// The lines.
    pub lines: u64,
    /// The parts of messages.
    pub messages: u64,
}

/// Facts about a meta's line that are stored beside it.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
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
            .prefix(INCOMING)
            .tempdir_in(&parent)
            .map_err(DiskError::at("write in", &parent))?;
        let flusher = Flusher::start();
        let open = |name: &str| Output::create(folder.path().join(name), &flusher);
        Ok(RevisionWriter {
            metas: open(METAS)?,
            messages: open(MESSAGES)?,
            queries: open(QUERIES)?,
            pieces: open(PIECES)?,
            texts: IndexSet::new(),
            index: Vec::new(),
            content: Hasher::default(),
            folder,
        })
    }
}

impl RevisionWriter {
    /// Keeps what this program makes of each piece, for its next revision.
    pub fn keep_pieces(&mut self, program: &Program) -> Result<(), StoreError> {
        self.pieces.append(program.as_bytes())
    }

    /// Appends what was made of the next piece in catalog order.
    pub fn append(&mut self, made: &Made<'_>) -> Result<Base, StoreError> {
        let starts = [&self.metas, &self.messages].map(Output::length);
        self.metas.append(made.lines)?;
        self.messages.append(made.messages)?;
        if let Some(kept) = &made.kept
            && (1..pieces::LARGEST).contains(&self.pieces.length())
        {
            let lengths = [made.lines, made.messages].map(|part| part.len() as u64);
            let part = |of: usize| Part {
                start: starts[of],
                length: lengths[of],
                crc: kept.crcs[of],
            };
            let record = pieces::Record {
                key: kept.key,
                parts: [part(0), part(1)],
                content: kept.content,
            };
            self.pieces.append(&pieces::encode(&record))?;
        }
        let texts = &mut self.texts;
        let mut number = |text: &str| match texts.get_index_of(text) {
            Some(known) => index::number(known),
            None => index::number(texts.insert_full(text.into()).0),
        };
        for (meta, stored) in made.metas.iter().zip(made.stored) {
            self.content.update(stored.digest.as_bytes());
            self.index.push(MetaIndex {
                schema: number(meta.schema()),
                package: number(meta.package()),
                name: meta.name().into(),
                length: meta.length,
                crc: stored.crc,
            });
        }
        let [lines, messages] = starts;
        Ok(Base { lines, messages })
    }

    /// The metas so far of other schemas than these, sorted: the numbers of
    /// schema and package in the index's texts, then the number of the meta.
    pub fn metas_but_of(&self, schemas: &[&str]) -> Vec<[u32; 3]> {
        let number = |schema: &&str| self.texts.get_index_of(*schema).map(index::number);
        let left_out: Vec<u32> = schemas.iter().filter_map(number).collect();
        let metas = (0..).zip(&self.index);
        let kept = metas.filter(|(_, meta)| !left_out.contains(&meta.schema));
        let mut kept: Vec<_> = kept
            .map(|(number, meta)| [meta.schema, meta.package, number])
            .collect();
        kept.sort_unstable();
        kept
    }

    /// Says that no more pieces will be appended: the disk takes them from now on.
    pub fn end_pieces(&self) {
        for output in [&self.metas, &self.messages, &self.pieces] {
            output.sync_later();
        }
    }

    /// How many metas were appended. The limits of a catalog's files keep it far
    /// below the end of `u32`.
    pub fn metas(&self) -> u32 {
        u32::try_from(self.index.len()).unwrap_or(u32::MAX)
    }

    /// Appends messages.
    pub fn append_messages(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.messages.append(bytes)
    }

    /// The message parts so far.
    pub fn messages(&self) -> Result<Bytes, StoreError> {
        self.messages.map()
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
            bytes: self.metas.map()?,
            starts,
        })
    }

    /// The file of the answers to queries; may be written beside this writer.
    pub fn queries(&self) -> Output {
        self.queries.clone()
    }

    /// Completes the files. The metas and texts of `index` are replaced by those
    /// that were appended.
    pub fn finish(self, mut index: Index) -> Result<Finished, StoreError> {
        index.metas = self.index;
        index.texts = self.texts.into_iter().collect();
        let path = self.folder.path().join(INDEX);
        let bytes = index.encode().map_err(|error| Damage {
            path: path.clone(),
            reason: format!("it cannot be encoded: {error}"),
        })?;
        let outputs = [
            (METAS, &self.metas),
            (MESSAGES, &self.messages),
            (QUERIES, &self.queries),
            (PIECES, &self.pieces),
        ];
        // Beside each other: the disk takes several files in the time of one.
        let sums = thread::scope(|scope| {
            let finishing = outputs.map(|(name, output)| {
                let finishing = scope.spawn(|| output.finish());
                (name, finishing)
            });
            write_index(&path, &bytes)?;
            let mut sums = BTreeMap::from([(INDEX.to_owned(), Summing::of(&bytes))]);
            for (name, finishing) in finishing {
                let finished = finishing.join();
                let sum = finished.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                sums.insert(name.to_owned(), sum);
            }
            Ok::<_, StoreError>(sums)
        })?;
        // The names are synced with the record, which comes last.
        Ok(Finished {
            folder: self.folder,
            content: self.content.finish(),
            metas: index.metas.len(),
            sums: Arc::new(sums),
            outline: None,
        })
    }
}

fn write_index(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create_new(path).map_err(DiskError::at("create", path))?;
    let written = file
        .write_all(bytes)
        .and_then(|()| protect(&file))
        .and_then(|()| file.sync_data());
    Ok(written.map_err(DiskError::at("write", path))?)
}
