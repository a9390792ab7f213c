//! Brings what a generation names from the bucket to the disk.

use std::fs::File;
use std::io::{self, Read, Write as _};

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::disk::{DiskError, blocking};
use crate::store::fleet::connect::Fleet;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::generations::Generation;
use crate::store::fleet::leases::format;
use crate::store::fleet::upload::{Coding, OUTLINE, key, stopped};
use crate::store::history;
use crate::store::keep::Incoming;
use crate::store::revision_files::METAS;
use crate::store::{BlobPin, Encoding, Image, Revision, RevisionId, Store, StoreError};
use ::images::digest::{Digest, Hasher};

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
struct Wanted {
    name: String,
    digest: Digest,
    key: String,
    coding: Coding,
    size: u64,
}

impl Fleet {
    /// Brings a generation to the disk. What is there already is not fetched.
    ///
    /// # Errors
    /// When an object is missing or damaged, or the disk has no room.
    pub async fn fetch(
        &self,
        store: &Store,
        catalog: &CatalogName,
        generation: &Generation,
    ) -> Result<Fetched, FleetError> {
        let id = generation.revision;
        let kept = store.kept(catalog, id).await?;
        let same = kept.filter(|kept| kept.content.to_string() == generation.content);
        let revision = if let Some(revision) = same {
            revision
        } else {
            self.fetch_revision(store, catalog, generation).await?;
            let kept = store.kept(catalog, id).await?;
            kept.ok_or(StoreError::KnownDamage(id))?
        };
        let image = match generation.image {
            Some(number) => Some(self.fetch_image(store, number).await?),
            None => None,
        };
        Ok(Fetched { revision, image })
    }

    async fn fetch_revision(
        &self,
        store: &Store,
        catalog: &CatalogName,
        generation: &Generation,
    ) -> Result<(), FleetError> {
        let id = generation.revision;
        let rows = sqlx::query(
            "SELECT f.name, f.digest, f.incarnation, o.coding, o.size
             FROM files f JOIN objects o USING (digest, incarnation)
             WHERE f.revision = $1 AND f.format = $2",
        );
        let rows = rows.bind(id.0).bind(format()).fetch_all(&self.pool).await;
        let rows = rows.map_err(FleetError::sql("list the files of a revision"))?;
        if rows.is_empty() {
            return Err(FleetError::OtherFormat(id.0));
        }
        let mut incoming = store.incoming()?;
        let mut has_lines = false;
        for row in &rows {
            let wanted = wanted(row)?;
            if wanted.name == OUTLINE {
                let bytes = self.small(store, &wanted).await?;
                let content = generation.content.parse::<Digest>();
                let content = content.map_err(|_| damaged(&wanted, "its content has no digest"))?;
                let kept = blocking("write in", store.folder.to_path_buf(), move |data| {
                    history::keep_outline(data, &content, &bytes)
                });
                kept.await?;
                continue;
            }
            if !is_file_name(&wanted.name) {
                return Err(damaged(&wanted, "its name is no name of a file"));
            }
            let is_lines = wanted.name == Encoding::Zstd.file();
            has_lines |= is_lines;
            let spool = self.download(store, &wanted).await?;
            let written = tokio::task::spawn_blocking(move || {
                write(&incoming, &wanted, &spool, is_lines).map(|()| incoming)
            });
            incoming = written.await.unwrap_or_else(stopped)?;
        }
        if !has_lines {
            incoming.write(METAS, &mut io::empty())?;
        }
        match store.adopt(catalog, id, incoming).await {
            // Of a database that lost commits: the number was given twice.
            Err(StoreError::NumberTaken(_)) => {
                store.discard(id).await?;
                Err(FleetError::NotTurned)
            }
            adopted => Ok(adopted?),
        }
    }

    async fn fetch_image(&self, store: &Store, number: i64) -> Result<FetchedImage, FleetError> {
        let query = sqlx::query("SELECT revision, document FROM images WHERE id = $1").bind(number);
        let found = query.fetch_optional(&self.pool).await;
        let found = found.map_err(FleetError::sql("look up an image"))?;
        let found = found.ok_or(FleetError::Gone)?;
        let image: Image =
            serde_json::from_str(found.get("document")).map_err(StoreError::encode("an image"))?;
        let rows = sqlx::query(
            "SELECT o.digest, o.incarnation, o.coding, o.size, '' AS name
             FROM image_parts p JOIN objects o USING (digest, incarnation) WHERE p.image = $1",
        );
        let rows = rows.bind(number).fetch_all(&self.pool).await;
        let rows = rows.map_err(FleetError::sql("list the parts of an image"))?;
        let mut pins = Vec::new();
        for part in image.parts() {
            // Pinned first, so that it stays once it is found.
            pins.push(store.contents().pin(part.digest));
            let path = store.contents().folder().to_owned();
            let (contents, digest) = (store.contents().clone(), part.digest);
            let found = blocking("read", path, move |_| Ok(contents.blob(&digest).is_some()));
            if found.await? {
                continue;
            }
            let row = rows
                .iter()
                .find(|row| row.get::<&[u8], _>("digest") == part.digest.as_bytes());
            let wanted = wanted(row.ok_or(FleetError::Gone)?)?;
            let spool = self.download(store, &wanted).await?;
            let own = store.clone();
            let written = tokio::task::spawn_blocking(move || {
                let mut blob = own.contents().new_blob()?;
                let mut content = decoder(&wanted, &spool)?;
                let copied = io::copy(&mut content, &mut blob);
                copied.map_err(|error| damaged(&wanted, &error.to_string()))?;
                content.finish(&wanted)?;
                Ok(blob.finish()?)
            });
            pins.push(written.await.unwrap_or_else(stopped)?);
        }
        Ok(FetchedImage {
            revision: RevisionId(found.get("revision")),
            image,
            pins,
        })
    }

    /// The bytes of an object as they lie in the bucket.
    async fn download(&self, store: &Store, wanted: &Wanted) -> Result<File, FleetError> {
        let folder = store.temporary();
        let spool = tempfile::tempfile_in(&folder);
        let mut spool = spool.map_err(DiskError::at("write in", &folder))?;
        let mut body = self.bucket.get(&wanted.key).await?;
        // Compressed bytes are not much longer than the others.
        let limit = wanted.size + wanted.size / 8 + (64 << 10);
        let mut received = 0;
        while let Some(chunk) = body.chunk().await? {
            received += chunk.len() as u64;
            if received > limit {
                return Err(damaged(wanted, "it is longer than it should be"));
            }
            let folder = folder.clone();
            let written = tokio::task::spawn_blocking(move || {
                let written = spool.write_all(&chunk).map(|()| spool);
                written.map_err(|error| DiskError::at("write in", &folder)(error).into())
            });
            spool = written.await.unwrap_or_else(stopped)?;
        }
        Ok(spool)
    }

    /// A small object as a whole.
    async fn small(&self, store: &Store, wanted: &Wanted) -> Result<Vec<u8>, FleetError> {
        let spool = self.download(store, wanted).await?;
        let mut content = decoder(wanted, &spool)?;
        let mut bytes = Vec::new();
        let read = content.read_to_end(&mut bytes);
        read.map_err(|error| damaged(wanted, &error.to_string()))?;
        content.finish(wanted)?;
        Ok(bytes)
    }
}

/// Writes an object as a file of a revision, and its lines beside it if it has these.
fn write(
    incoming: &Incoming,
    wanted: &Wanted,
    spool: &File,
    is_lines: bool,
) -> Result<(), FleetError> {
    let mut content = decoder(wanted, spool)?;
    incoming.write(&wanted.name, &mut content)?;
    content.finish(wanted)?;
    if is_lines {
        let path = incoming.folder.path().join(&wanted.name);
        let lines = File::open(&path).and_then(zstd::Decoder::new);
        let mut lines = lines.map_err(DiskError::at("read", &path))?;
        incoming.write(METAS, &mut lines)?;
    }
    Ok(())
}

/// Decodes an object, and compares what comes out with its digest.
struct Decoding<'a> {
    inner: Box<dyn Read + 'a>,
    hasher: Hasher,
}

fn decoder<'a>(wanted: &Wanted, mut spool: &'a File) -> Result<Decoding<'a>, FleetError> {
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
    })
}

impl Decoding<'_> {
    fn finish(self, wanted: &Wanted) -> Result<(), FleetError> {
        if self.hasher.finish() == wanted.digest {
            Ok(())
        } else {
            Err(damaged(wanted, "its bytes do not have its digest"))
        }
    }
}

impl Read for Decoding<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

fn wanted(row: &sqlx::postgres::PgRow) -> Result<Wanted, FleetError> {
    let bytes: &[u8] = row.get("digest");
    let digest: [u8; 32] = bytes.try_into().map_err(|_| FleetError::Gone)?;
    let digest = Digest::from_bytes(digest);
    Ok(Wanted {
        name: row.get("name"),
        key: key(&digest, row.get("incarnation")),
        digest,
        coding: Coding::parse(row.get("coding")).ok_or(FleetError::Gone)?,
        size: u64::try_from(row.get::<i64, _>("size")).unwrap_or(0),
    })
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
