//! Sums of a revision's files: the length of each, and a CRC-32 of each block.
//! They are made of the bytes that are written, kept in the database, and
//! compared with the files while these are served.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sqlx::{Row as _, Sqlite, SqliteExecutor, Transaction};

use crate::map::UnnamedFile;
use crate::store::content::{Stamp, stamp};
use crate::store::file_io::{DiskError, blocking, reread};
use crate::store::files::revision_files::{METAS, PIECES};
use crate::store::files::summing::BLOCK;
use crate::store::handle::Store;
use crate::store::revision::{FileSum, Revision, RevisionId};
use crate::store::sql::{self, signed};
use crate::store::{Damage, Encoding, StoreError};

/// A file of a revision that is compared with its sums, block by block.
pub struct Verification {
    path: PathBuf,
    file: File,
    sum: FileSum,
    next: usize,
    buffer: Vec<u8>,
}

impl Verification {
    /// Compares all blocks.
    ///
    /// # Errors
    /// As those of [`next_block`](Self::next_block).
    pub fn finish(mut self) -> Result<(), StoreError> {
        while let Some(block) = self.next_block() {
            block?;
        }
        Ok(())
    }

    /// Compares the next block, and returns it; `None` after the last one. This
    /// reads the file and no map of it, so a file that is cut does no harm.
    ///
    /// # Errors
    /// When the block is not what was written, which is damage, or cannot be read after
    /// several tries, which is none.
    pub fn next_block(&mut self) -> Option<Result<&[u8], StoreError>> {
        let wanted = *self.sum.blocks.get(self.next)?;
        let from = self.next as u64 * BLOCK as u64;
        self.next += 1;
        let left = self.sum.length.saturating_sub(from).min(BLOCK as u64);
        // At most a block.
        self.buffer
            .resize(usize::try_from(left).unwrap_or(BLOCK), 0);
        let (file, buffer) = (&self.file, &mut self.buffer);
        match reread(|| file.read_exact_at(buffer, from)) {
            Ok(()) if crc32fast::hash(buffer) == wanted => return Some(Ok(buffer)),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Some(Err(DiskError::at("read", &self.path)(error).into()));
            }
            _ => {}
        }
        let path = self.path.clone();
        let reason = format!("the bytes from {from} on differ from those that were written");
        Some(Err(Damage { path, reason }.into()))
    }
}

/// A stamp of files, which changes with any of them.
#[derive(Clone, Debug)]
pub struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

impl Stamps {
    /// The stamps of files in a folder.
    pub(crate) fn from_files(
        folder: &Path,
        names: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Self {
        let stamp = |name: &Path| fs::metadata(folder.join(name)).map(|it| stamp(&it)).ok();
        let names = names.into_iter();
        Self(
            names
                .map(|name| (name.as_ref().to_owned(), stamp(name.as_ref())))
                .collect(),
        )
    }

    /// Whether a file of both has changed. One that only one of them has was added or
    /// removed on purpose.
    pub fn differ(&self, earlier: &Self) -> bool {
        let mut files = self.0.iter();
        files.any(|(name, now)| earlier.0.get(name).is_some_and(|before| before != now))
    }
}

impl Store {
    /// Begins to compare a file of a revision with its sums. This blocks.
    ///
    /// # Errors
    /// When the file is missing or has another length, which is damage, or cannot be
    /// opened after several tries, which is none.
    pub fn verify(
        &self,
        revision: RevisionId,
        name: &str,
        sum: &FileSum,
    ) -> Result<Verification, StoreError> {
        let path = self.revision_folder(revision).join(name);
        let open = || File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let reason = match reread(open) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("it cannot be opened: {error}")
            }
            Err(error) => return Err(DiskError::at("open", &path)(error).into()),
            Ok((length, _)) if length != sum.length => sum.other_length(length),
            Ok((_, file)) => {
                return Ok(Verification {
                    path,
                    file,
                    sum: sum.clone(),
                    next: 0,
                    buffer: Vec::with_capacity(BLOCK),
                });
            }
        };
        Err(Damage { path, reason }.into())
    }

    /// Compares the files of a revision with their sums, without those that it does
    /// without. This blocks.
    ///
    /// # Errors
    /// As those of [`verify`](Self::verify) and [`Verification::next_block`].
    pub fn verify_all(&self, revision: &Revision) -> Result<(), StoreError> {
        for (name, sum) in &*revision.files {
            if Encoding::from_file_name(name).is_none() && name != PIECES {
                self.verify(revision.id, name, sum)?.finish()?;
            }
        }
        Ok(())
    }

    /// A verified copy of a revision's metas, which cannot change any more. This
    /// blocks.
    ///
    /// # Errors
    /// When they are damaged, or cannot be copied.
    pub fn copy_of_metas(&self, revision: &Revision) -> Result<Bytes, StoreError> {
        let folder = self.temporary();
        let mut copy = UnnamedFile::new_in(&folder).map_err(DiskError::at("write in", &folder))?;
        let path = self.revision_folder(revision.id).join(METAS);
        if let Some(sum) = revision.files.get(METAS) {
            let mut verification = self.verify(revision.id, METAS, sum)?;
            while let Some(block) = verification.next_block() {
                let written = copy.write_all(block?);
                written.map_err(DiskError::at("write in", &folder))?;
            }
        } else {
            // Of a version without sums. The digest of the content decides.
            let copied = File::open(&path).and_then(|mut file| io::copy(&mut file, &mut copy));
            copied.map_err(DiskError::at("copy", &path))?;
        }
        Ok(copy.map().map_err(DiskError::at("copy", &path))?)
    }

    /// The stamps of a revision's files, with those in these encodings, which are
    /// added later. This blocks.
    pub fn stamps(&self, revision: &Revision, encodings: &[Encoding]) -> Stamps {
        let folder = self.revision_folder(revision.id);
        let names = revision.files.keys().map(String::as_str);
        let names = names.filter(|name| Encoding::from_file_name(name).is_none());
        let added = encodings.iter().flat_map(|one| one.files());
        Stamps::from_files(&folder, names.chain(added.copied()))
    }

    /// The sums of a revision's files as they are now.
    pub async fn sums(
        &self,
        revision: RevisionId,
    ) -> Result<BTreeMap<String, FileSum>, StoreError> {
        let query = sqlx::query("SELECT file, length, sums FROM revision_files WHERE revision = ?");
        let rows = sql::all(&self.pool, "read the sums of files", query.bind(revision.0)).await?;
        let sums = rows.iter().map(|row| {
            let blocks = row.get::<&[u8], _>("sums").as_chunks().0.iter();
            let sum = FileSum {
                length: u64::try_from(row.get::<i64, _>("length")).unwrap_or(0),
                blocks: blocks.map(|sum| u32::from_le_bytes(*sum)).collect(),
            };
            (row.get("file"), sum)
        });
        Ok(sums.collect())
    }

    /// Records the sums of files that were added to a revision.
    pub async fn record_files(
        &self,
        revision: RevisionId,
        sums: &[(&str, FileSum)],
    ) -> Result<(), StoreError> {
        for (name, sum) in sums {
            insert_one(&self.pool, revision, name, sum).await?;
        }
        Ok(())
    }

    /// Removes a file of a revision that can be rebuilt.
    pub async fn remove_file(&self, revision: RevisionId, name: &str) -> Result<(), StoreError> {
        let statement = sqlx::query("DELETE FROM revision_files WHERE revision = ? AND file = ?");
        let statement = statement.bind(revision.0).bind(name);
        sql::execute(&self.pool, "forget a file", statement).await?;
        let path = self.revision_folder(revision).join(name);
        let removed = blocking("remove", path, |path| match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::at("remove", path)(error))
            }
            _ => Ok(()),
        });
        Ok(removed.await?)
    }

    /// Records whether a revision is damaged.
    pub async fn record_damage(
        &self,
        revision: RevisionId,
        is_damaged: bool,
    ) -> Result<(), StoreError> {
        let statement = sqlx::query("UPDATE revisions SET damaged = ? WHERE id = ?");
        let statement = statement.bind(is_damaged).bind(revision.0);
        sql::execute(&self.pool, "record damage", statement).await
    }
}

/// Writes the sums of a revision.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    revision: RevisionId,
    sums: &BTreeMap<String, FileSum>,
) -> Result<(), StoreError> {
    for (name, sum) in sums {
        insert_one(&mut **transaction, revision, name, sum).await?;
    }
    Ok(())
}

async fn insert_one(
    database: impl SqliteExecutor<'_>,
    revision: RevisionId,
    name: &str,
    sum: &FileSum,
) -> Result<(), StoreError> {
    let blocks: Vec<u8> = sum
        .blocks
        .iter()
        .flat_map(|sum| sum.to_le_bytes())
        .collect();
    let statement = sqlx::query(
        "INSERT OR REPLACE INTO revision_files (revision, file, length, sums)
         SELECT id, ?2, ?3, ?4 FROM revisions WHERE id = ?1",
    );
    let statement = statement.bind(revision.0).bind(name);
    let statement = statement.bind(signed(sum.length)).bind(blocks);
    sql::execute(database, "record the sums of a file", statement).await
}
