//! Brings what a generation names from the bucket to the disk.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use sqlx::Row as _;
use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::name::CatalogName;
use crate::store::disk::{DiskError, blocking};
use crate::store::fleet::error::FleetError;
use crate::store::fleet::file_limit::{FileLimit, MAX_FILES};
use crate::store::fleet::generation::Generation;
use crate::store::fleet::leases::format;
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::upload::{Coding, OUTLINE, key, stopped};
use crate::store::history;
use crate::store::keep::Incoming;
use crate::store::record::{self, RECORD, Record};
use crate::store::revision_files::METAS;
use crate::store::{BlobPin, Encoding, Image, Revision, RevisionId, Store, StoreError};
use ::images::digest::{Digest, Hasher};

/// The longest record or outline in bytes. Those of the largest known catalog have 3 MB.
const MAX_WHOLE: u64 = 256 << 20;

/// A generation on the disk of a replica.
pub struct Fetched {
    /// Its revision.
    pub revision: Revision,
    /// Its image, unless it has none.
    pub image: Option<FetchedImage>,
}

/// An image on the disk of a replica.
pub struct FetchedImage {
    /// The revision that it was made of, which may be an earlier one.
    pub revision: RevisionId,
    /// The image.
    pub image: Image,
    /// Keep its parts on the disk.
    pub pins: Vec<BlobPin>,
}

/// An object to fetch.
pub(super) struct Wanted {
    name: String,
    digest: Digest,
    incarnation: i64,
    key: String,
    coding: Coding,
    pub(super) size: u64,
}

impl Fleet {
    /// Brings a generation to the disk. What is there already is not fetched, but the
    /// files of a revision if they are to be `fresh`.
    ///
    /// # Errors
    /// When an object is missing, damaged or beyond the limit, or the disk has no room.
    pub async fn fetch(
        &self,
        store: &Store,
        limit: FileLimit,
        (catalog, generation): (&CatalogName, &Generation),
        fresh: bool,
    ) -> Result<Fetched, FleetError> {
        let id = generation.revision;
        let kept = store.kept(catalog, id).await?;
        let is_same = |kept: &Revision| !fresh && kept.content.to_string() == generation.content;
        let same = kept.filter(is_same);
        let revision = if let Some(revision) = same {
            revision
        } else {
            let of = (catalog, generation);
            self.fetch_revision(store, limit, of).await?;
            let kept = store.kept(catalog, id).await?;
            kept.ok_or(StoreError::KnownDamage(id))?
        };
        let image = match generation.image {
            Some(number) => Some(self.fetch_image(store, limit, number).await?),
            None => None,
        };
        Ok(Fetched { revision, image })
    }

    async fn fetch_revision(
        &self,
        store: &Store,
        limit: FileLimit,
        (catalog, generation): (&CatalogName, &Generation),
    ) -> Result<(), FleetError> {
        let id = generation.revision;
        let rows = sqlx::query(
            "SELECT f.name, f.digest, f.incarnation, o.coding, o.size
             FROM files f JOIN objects o USING (digest, incarnation)
             WHERE f.revision = $1 AND f.format = $2",
        );
        let rows = rows.bind(id.0).bind(format());
        let mut rows = self.rows("list the files of a revision", rows).await?;
        if rows.is_empty() {
            return Err(FleetError::OtherFormat(id));
        }
        if rows.len() > MAX_FILES {
            return Err(FleetError::Row("files"));
        }
        // The record first, which tells of the others.
        rows.sort_by_key(|row| row.get::<&str, _>("name") != RECORD);
        let own = store.clone();
        let incoming = tokio::task::spawn_blocking(move || Ok(own.incoming()?)).await;
        let incoming = Arc::new(incoming.unwrap_or_else(stopped)?);
        let mut has_lines = false;
        for row in &rows {
            let wanted = wanted(row)?;
            limit.check(id, &wanted.name, wanted.size)?;
            if wanted.name == OUTLINE {
                let bytes = self.whole_object(store, &wanted).await?;
                let folder = incoming.folder.path().join(RECORD);
                let kept = blocking("write in", store.folder.to_path_buf(), move |data| {
                    let record = record::read::<Record<'static>>(&folder)?;
                    record.map_or(Ok(()), |record| {
                        history::keep_encoded_outline(data, &record.published().outline(), &bytes)
                    })
                });
                kept.await?;
                continue;
            }
            if !is_file_name(&wanted.name) {
                return Err(FleetError::Row("files"));
            }
            let is_lines = wanted.name == Encoding::Zstd.file();
            has_lines |= is_lines;
            let incoming = Arc::clone(&incoming);
            let written = self.object(store, &wanted, move |wanted, spool| {
                write(&incoming, wanted, spool, is_lines.then_some((id, limit)))
            });
            written.await?;
        }
        // Each reader has ended.
        let incoming = Arc::into_inner(incoming).ok_or(FleetError::Gone)?;
        let incoming = tokio::task::spawn_blocking(move || {
            if !has_lines {
                incoming.write(METAS, &mut io::empty())?;
            }
            Ok(incoming)
        });
        let incoming = incoming.await.unwrap_or_else(stopped)?;
        Ok(store.adopt(catalog, id, incoming).await?)
    }

    pub(super) async fn fetch_image(
        &self,
        store: &Store,
        limit: FileLimit,
        number: i64,
    ) -> Result<FetchedImage, FleetError> {
        let query = sqlx::query("SELECT revision, document FROM images WHERE id = $1").bind(number);
        let found = self.find("look up an image", query).await?;
        let found = found.ok_or(FleetError::Row("images"))?;
        let image = serde_json::from_str(found.get("document"));
        let image: Image = image.map_err(|_| FleetError::Row("images"))?;
        let revision = RevisionId(found.get("revision"));
        limit.check_image(revision, &image)?;
        let rows = sqlx::query(
            "SELECT o.digest, o.incarnation, o.coding, o.size, '' AS name
             FROM image_parts p JOIN objects o USING (digest, incarnation) WHERE p.image = $1",
        );
        let rows = self.rows("list the parts of an image", rows.bind(number));
        let rows = rows.await?;
        let mut pins = Vec::new();
        for part in image.parts() {
            // Pinned first, so that it stays once it is found.
            pins.push(store.contents().pin(part.digest));
            let path = store.contents().folder().to_owned();
            let (contents, digest, size) = (store.contents().clone(), part.digest, part.size);
            let found = blocking("read", path, move |_| {
                let Some(path) = contents.blob(&digest) else {
                    return Ok(false);
                };
                let fits = path.metadata().is_ok_and(|found| found.len() == size);
                if !fits {
                    contents.remove_blob(&digest);
                }
                Ok(fits)
            });
            if found.await? {
                continue;
            }
            let row = rows
                .iter()
                .find(|row| row.get::<&[u8], _>("digest") == part.digest.as_bytes());
            let wanted = wanted(row.ok_or(FleetError::Row("image_parts"))?)?;
            if wanted.size != size {
                return Err(FleetError::Row("image_parts"));
            }
            let own = store.clone();
            let pin = self.object(store, &wanted, move |wanted, spool| {
                let mut blob = own.contents().new_blob()?;
                let mut content = decoder(wanted, spool)?;
                let copied = io::copy(&mut content, &mut blob);
                let copied = copied.map_err(DiskError::at("write in", own.contents().folder()));
                content.finish(wanted, copied)?;
                Ok(blob.finish()?)
            });
            pins.push(pin.await?);
        }
        Ok(FetchedImage {
            revision,
            image,
            pins,
        })
    }

    /// Downloads an object and reads it by `read`, which blocks. One with other bytes is
    /// asked for twice, as its way may have altered it. A lost one is noted, so that a
    /// holder of its bytes uploads them again.
    pub(super) async fn object<T: Send + 'static>(
        &self,
        store: &Store,
        wanted: &Arc<Wanted>,
        read: impl Fn(&Wanted, &File) -> Result<T, FleetError> + Send + Sync + 'static,
    ) -> Result<T, FleetError> {
        let read = Arc::new(read);
        let mut is_second = false;
        loop {
            let done = match self.download(store, wanted).await {
                Ok(spool) => {
                    let (wanted, read) = (Arc::clone(wanted), Arc::clone(&read));
                    let done = tokio::task::spawn_blocking(move || read(&wanted, &spool));
                    done.await.unwrap_or_else(stopped)
                }
                Err(error) => Err(error),
            };
            match done {
                Err(FleetError::Damaged { .. }) if !is_second => is_second = true,
                Err(error) if error.is_lost() => {
                    // The object is told of, whatever the database says.
                    if let Err(unnoted) = self.lose(wanted).await {
                        tracing::warn!(
                            object = wanted.key, error = %unnoted,
                            "cannot note that an object is lost"
                        );
                    }
                    return Err(error);
                }
                done => return done,
            }
        }
    }

    /// Downloads an object that is read as a whole.
    pub(super) async fn whole_object(
        &self,
        store: &Store,
        wanted: &Arc<Wanted>,
    ) -> Result<Vec<u8>, FleetError> {
        // Before it comes: its row may be forged.
        if wanted.size > MAX_WHOLE {
            return Err(damaged(wanted, "it is larger than 256 MiB"));
        }
        self.object(store, wanted, whole).await
    }

    /// Notes that an object is not in the bucket as it should be, if the bucket is known to
    /// be the fleet's.
    async fn lose(&self, wanted: &Wanted) -> Result<(), FleetError> {
        if !self.owns_bucket() {
            return Ok(());
        }
        let statement = sqlx::query(
            "UPDATE objects SET state = 'lost' WHERE digest = $1 AND incarnation = $2
             AND state = 'there'",
        );
        let statement = statement.bind(&wanted.digest.as_bytes()[..]);
        let statement = statement.bind(wanted.incarnation);
        if self.execute("note a lost object", statement).await? > 0 {
            tracing::error!(
                object = wanted.key,
                "an object of the bucket is missing or has other bytes: whoever has them writes \
                 it again under another name"
            );
        }
        Ok(())
    }

    /// The bytes of an object as they lie in the bucket.
    async fn download(&self, store: &Store, wanted: &Wanted) -> Result<File, FleetError> {
        let folder = store.temporary();
        let spool = blocking("write in", folder.clone(), |folder| {
            tempfile::tempfile_in(folder).map_err(DiskError::at("write in", folder))
        });
        let failed = |error| FleetError::from(DiskError::at("write in", &folder)(error));
        let mut spool = BufWriter::with_capacity(1 << 20, tokio::fs::File::from_std(spool.await?));
        // Compressed bytes are not much longer than the others.
        let limit = wanted.size + wanted.size / 8 + (64 << 10);
        let mut body = self.bucket.get(&wanted.key, limit).await?;
        let mut received = 0;
        while let Some(chunk) = body.chunk().await? {
            received += chunk.len() as u64;
            if received > limit {
                return Err(damaged(wanted, "it is longer than it should be"));
            }
            spool.write_all(&chunk).await.map_err(failed)?;
        }
        spool.flush().await.map_err(failed)?;
        Ok(spool.into_inner().into_std().await)
    }
}

/// Writes an object as a file of a revision, and its lines beside it if it has these: those
/// of this revision, within this limit.
fn write(
    incoming: &Incoming,
    wanted: &Wanted,
    spool: &File,
    lines_of: Option<(RevisionId, FileLimit)>,
) -> Result<(), FleetError> {
    let mut content = decoder(wanted, spool)?;
    let written = incoming.write(&wanted.name, &mut content);
    content.finish(wanted, written)?;
    if let Some((revision, limit)) = lines_of {
        let path = incoming.folder.path().join(&wanted.name);
        let lines = File::open(&path).and_then(zstd::Decoder::new);
        let lines = lines.map_err(DiskError::at("read", &path))?;
        // A few bytes may decode to very many: the record tells how many there are.
        let length = incoming.length_of(METAS)?;
        limit.check(revision, METAS, length)?;
        incoming.write(METAS, &mut lines.take(length))?;
    }
    Ok(())
}

/// Decodes an object, and compares what comes out with its digest.
pub(super) struct Decoding<'a> {
    inner: Box<dyn Read + 'a>,
    hasher: Hasher,
    /// Why it cannot be decoded.
    problem: Option<String>,
}

pub(super) fn decoder<'a>(
    wanted: &Wanted,
    mut spool: &'a File,
) -> Result<Decoding<'a>, FleetError> {
    let rewound = io::Seek::rewind(&mut spool);
    rewound.map_err(|error| damaged(wanted, &error.to_string()))?;
    let inner: Box<dyn Read + 'a> = match wanted.coding {
        Coding::Identity => Box::new(spool),
        Coding::Zstd => {
            let decoder = zstd::Decoder::new(spool);
            Box::new(decoder.map_err(|error| damaged(wanted, &error.to_string()))?)
        }
    };
    Ok(Decoding {
        // One byte more than expected shows that it is too long.
        inner: Box::new(inner.take(wanted.size + 1)),
        hasher: Hasher::default(),
        problem: None,
    })
}

impl Decoding<'_> {
    /// Whether what was read has the digest. `copied` tells whether all was read, or the
    /// disk failed before.
    pub(super) fn finish<T>(
        self,
        wanted: &Wanted,
        copied: Result<T, DiskError>,
    ) -> Result<(), FleetError> {
        if let Some(problem) = self.problem {
            return Err(damaged(wanted, &problem));
        }
        copied?;
        if self.hasher.finish() == wanted.digest {
            Ok(())
        } else {
            Err(damaged(wanted, "its bytes do not have its digest"))
        }
    }
}

impl Read for Decoding<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        let read = read.inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                // The decompressor's own words name no cause.
                self.problem = Some("its bytes cannot be read to their end".to_owned());
            }
        })?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// The bytes of a small object: a record or an outline.
pub(super) fn whole(wanted: &Wanted, spool: &File) -> Result<Vec<u8>, FleetError> {
    if wanted.size > MAX_WHOLE {
        return Err(damaged(wanted, "it is larger than 256 MiB"));
    }
    let mut content = decoder(wanted, spool)?;
    let mut bytes = Vec::new();
    let read = content.read_to_end(&mut bytes);
    let read = read.map_err(DiskError::at("read", "an object".as_ref()));
    content.finish(wanted, read)?;
    Ok(bytes)
}

pub(super) fn wanted(row: &sqlx::postgres::PgRow) -> Result<Arc<Wanted>, FleetError> {
    let bytes: &[u8] = row.get("digest");
    let digest: [u8; 32] = bytes.try_into().map_err(|_| FleetError::Row("objects"))?;
    let digest = Digest::from_bytes(digest);
    let incarnation = row.get("incarnation");
    Ok(Arc::new(Wanted {
        name: row.get("name"),
        key: key(&digest, incarnation),
        digest,
        incarnation,
        coding: Coding::parse(row.get("coding")).ok_or(FleetError::Row("objects"))?,
        size: u64::try_from(row.get::<i64, _>("size")).map_err(|_| FleetError::Row("objects"))?,
    }))
}

fn is_file_name(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    name.bytes().all(inside) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn damaged(wanted: &Wanted, problem: &str) -> FleetError {
    FleetError::Damaged {
        key: wanted.key.clone(),
        problem: problem.to_owned(),
    }
}
