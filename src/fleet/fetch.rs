//! Brings what a generation names from the bucket to the disk, verified.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::fleet::error::{Backend, FleetError};
use crate::fleet::file_limit::{FileLimit, MAX_FILES};
use crate::fleet::generations::Generation;
use crate::fleet::missing::Missing;
use crate::fleet::numbers::GenerationNumber;
use crate::fleet::object::{Coding, OUTLINE, Object, key};
use crate::fleet::session::statements;
use crate::fleet::shared::Fleet;
use crate::fleet::upload::blocking;
use crate::name::CatalogName;
use crate::snapshot::{RemoteError, RemotePart};
use crate::store::{
    BlobPin, DiskError, Encoding, Image, Incoming, METAS, RECORD, Revision, RevisionId, Store,
    StoreError,
};
use ::images::digest::{Digest, Hasher};

/// The most lost objects of a generation that are reported at a time.
const MOST_REPORTED: usize = 100;
/// How long a lookup for a client waits for its turn.
const LOOKUP: Duration = Duration::from_secs(3);
/// The longest record or outline in bytes. Those of the largest known catalog have 3 MB.
const MAX_WHOLE: i64 = 256 << 20;

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

/// Reads objects of a fleet. Those that the bucket has lost are reported.
#[derive(Clone)]
pub struct Reader {
    pub(super) fleet: Fleet,
    pub(super) missing: Missing,
}

impl Reader {
    /// A reader for a command, which reports nothing.
    pub fn new(fleet: &Fleet) -> Self {
        Self {
            fleet: fleet.clone(),
            missing: Missing::default(),
        }
    }

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
        let mut objects = None;
        if !kept.is_some_and(|kept| is_same(&kept)) {
            let listed = self.objects(generation.number).await?;
            let fetched = self.fetch_files(store, limit, (catalog, id), &listed).await;
            if let Err(error) = fetched {
                self.report_others(&error, &listed).await;
                return Err(error);
            }
            objects = Some(listed);
        }
        store.set_modified(id, generation.modified).await?;
        let revision = store.kept(catalog, id).await?;
        let revision = revision.ok_or(StoreError::KnownDamage(id))?;
        let image = match &generation.image {
            Some((of, image)) => {
                limit.check_image(*of, image)?;
                let pins = self
                    .fetch_parts(store, generation.number, image, objects)
                    .await?;
                Some(FetchedImage {
                    revision: *of,
                    image: image.clone(),
                    pins,
                })
            }
            None => None,
        };
        Ok(Fetched { revision, image })
    }

    /// Reports all objects of a generation that the bucket has lost, if it has lost one: where
    /// one is lost, others are.
    async fn report_others(&self, error: &FleetError, objects: &[Arc<Object>]) {
        if !error.is_lost() || !self.fleet.owns_bucket() {
            return;
        }
        let mut reported = 0;
        for object in objects {
            let key = key(&object.digest, object.coding);
            let Ok(found) = self.fleet.bucket().head(&key).await else {
                return;
            };
            if found.is_none() {
                self.missing.set(object.digest, true);
                reported += 1;
            }
            // The others are reported when these are back.
            if reported == MOST_REPORTED {
                return;
            }
        }
    }

    /// The objects of a generation.
    async fn objects(&self, number: GenerationNumber) -> Result<Vec<Arc<Object>>, FleetError> {
        let query = sqlx::query(
            "SELECT name, digest, size, coding FROM objects WHERE generation = $1 LIMIT $2",
        );
        // No generation has more, but a forged one.
        let most = i64::try_from(MAX_FILES + Image::MAX_PARTS).unwrap_or(i64::MAX);
        let query = query.bind(number.0).bind(most);
        let rows = self
            .fleet
            .session()
            .rows(None, "list objects", query)
            .await?;
        rows.iter().map(|row| object(row).map(Arc::new)).collect()
    }

    async fn fetch_files(
        &self,
        store: &Store,
        limit: FileLimit,
        (catalog, id): (&CatalogName, RevisionId),
        objects: &[Arc<Object>],
    ) -> Result<(), FleetError> {
        let is_file = |object: &&Arc<Object>| object.name.parse::<Digest>().is_err();
        let mut files: Vec<_> = objects.iter().filter(is_file).collect();
        if files.is_empty() || files.len() > MAX_FILES {
            return Err(FleetError::Row("objects"));
        }
        // The record first, which has the lengths of the others.
        files.sort_by_key(|file| file.name != RECORD);
        let own = store.clone();
        let incoming = Arc::new(blocking(move || Ok(own.incoming()?)).await?);
        let mut has_lines = false;
        for file in files {
            limit.check(id, &file.name, file.size.unsigned_abs())?;
            if file.name == OUTLINE {
                let bytes = self.whole(store, file).await?;
                let (own, incoming) = (store.clone(), Arc::clone(&incoming));
                blocking(move || Ok(own.keep_incoming_outline(&incoming, &bytes)?)).await?;
                continue;
            }
            if !is_file_name(&file.name) {
                return Err(FleetError::Row("objects"));
            }
            let is_lines = file.name == Encoding::Zstd.file();
            has_lines |= is_lines;
            let incoming = Arc::clone(&incoming);
            let written = self.read(store, file, move |object, spool| {
                write(&incoming, object, spool, is_lines.then_some((id, limit)))
            });
            written.await?;
        }
        // Each reader has ended.
        let incoming = Arc::into_inner(incoming).ok_or(FleetError::Row("objects"))?;
        let incoming = blocking(move || {
            if !has_lines {
                incoming.write(METAS, &mut io::empty())?;
            }
            Ok(incoming)
        });
        Ok(store.adopt(catalog, id, incoming.await?).await?)
    }

    /// Brings the parts of an image to the disk. Objects are listed if a part is missing.
    async fn fetch_parts(
        &self,
        store: &Store,
        number: GenerationNumber,
        image: &Image,
        mut objects: Option<Vec<Arc<Object>>>,
    ) -> Result<Vec<BlobPin>, FleetError> {
        let mut pins = Vec::new();
        for part in image.parts() {
            // Pinned first, so that it stays once it is found.
            pins.push(store.contents().pin(part.digest));
            let (contents, digest, size) = (store.contents().clone(), part.digest, part.size);
            let found = blocking(move || {
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
            let listed = match objects.take() {
                Some(listed) => listed,
                None => self.objects(number).await?,
            };
            let listed = objects.insert(listed);
            let name = part.digest.to_string();
            let mut found = listed.iter();
            let found = found.find(|one| one.name == name && one.digest == part.digest);
            let object = found.filter(|one| one.size.unsigned_abs() == size);
            let object = Arc::clone(object.ok_or(FleetError::Row("objects"))?);
            let own = store.clone();
            let pin = self.read(store, &object, move |object, spool| {
                let mut blob = own.contents().new_blob()?;
                let mut content = decoder(object, spool)?;
                let copied = io::copy(&mut content, &mut blob);
                let copied = copied.map_err(DiskError::at("write in", own.contents().folder()));
                content.finish(object, copied)?;
                Ok(blob.finish()?)
            });
            match pin.await {
                Ok(pin) => pins.push(pin),
                Err(error) => {
                    self.report_others(&error, listed).await;
                    return Err(error);
                }
            }
        }
        Ok(pins)
    }

    /// Downloads an object and reads it by `read`, which blocks. One with other bytes is
    /// asked for twice, as its way may have altered it. A lost one is reported, so that a
    /// replica with its bytes uploads them again.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        store: &Store,
        object: &Arc<Object>,
        read: impl Fn(&Object, &File) -> Result<T, FleetError> + Send + Sync + 'static,
    ) -> Result<T, FleetError> {
        let read = Arc::new(read);
        let mut is_second = false;
        loop {
            let done = match self.download(store, object).await {
                Ok(spool) => {
                    let (object, read) = (Arc::clone(object), Arc::clone(&read));
                    blocking(move || read(&object, &spool)).await
                }
                Err(error) => Err(error),
            };
            match done {
                Err(FleetError::Damaged { .. }) if !is_second => is_second = true,
                done => {
                    let is_lost = done.as_ref().is_err_and(FleetError::is_lost);
                    self.missing
                        .set(object.digest, is_lost && self.fleet.owns_bucket());
                    return done;
                }
            }
        }
    }

    /// Downloads an object that is read as a whole.
    pub(super) async fn whole(
        &self,
        store: &Store,
        object: &Arc<Object>,
    ) -> Result<Vec<u8>, FleetError> {
        // Before it comes: its row may be forged.
        if object.size > MAX_WHOLE {
            return Err(damaged(object, "it is larger than 256 MiB"));
        }
        self.read(store, object, |object, spool| {
            let mut content = decoder(object, spool)?;
            let mut bytes = Vec::new();
            let read = content.read_to_end(&mut bytes);
            content.finish(
                object,
                read.map_err(DiskError::at("read", "an object".as_ref())),
            )?;
            Ok(bytes)
        })
        .await
    }

    /// The bytes of an object as they lie in the bucket.
    async fn download(&self, store: &Store, object: &Object) -> Result<File, FleetError> {
        let folder = store.temporary();
        let failed = |error| FleetError::from(DiskError::at("write in", &folder)(error));
        let spool = {
            let folder = folder.clone();
            blocking(move || {
                let spool = tempfile::tempfile_in(&folder);
                Ok(spool.map_err(DiskError::at("write in", &folder))?)
            })
        };
        let mut spool = BufWriter::with_capacity(1 << 20, tokio::fs::File::from_std(spool.await?));
        // Compressed bytes are not much longer than the others.
        let size = object.size.unsigned_abs();
        let limit = size + size / 8 + (64 << 10);
        let key = key(&object.digest, object.coding);
        let mut body = self.fleet.bucket().get(&key, limit).await?;
        let mut received = 0;
        while let Some(chunk) = body.chunk().await? {
            received += chunk.len() as u64;
            if received > limit {
                return Err(damaged(object, "it is longer than it should be"));
            }
            spool.write_all(&chunk).await.map_err(failed)?;
        }
        spool.flush().await.map_err(failed)?;
        Ok(spool.into_inner().into_std().await)
    }

    /// A part of an image of a catalog that a generation of the last day lists, as the bucket
    /// has it. Its bytes are compared with its digest while they come.
    pub(super) async fn remote_part(
        &self,
        catalog: &CatalogName,
        digest: Digest,
    ) -> Result<Option<RemotePart>, FleetError> {
        let catalog = catalog.to_string();
        let late = || FleetError::NoAnswer {
            of: Backend::Database,
            after: LOOKUP,
        };
        // Whoever pulls may ask for what nobody has. Beats are not to wait for that.
        let turn = self.fleet.lookups().acquire_owned();
        let turn = tokio::time::timeout(LOOKUP, turn).await;
        let turn = turn.map_err(|_| late())?;
        let session = self.fleet.session().number().ok_or_else(late)?;
        let work = statements(move |connection| {
            async move {
                let _turn = turn;
                let query = sqlx::query(
                    "SELECT g.image, o.name, o.digest, o.size, o.coding
                     FROM objects o JOIN generations g ON g.number = o.generation
                     JOIN tracks t ON t.id = g.track
                     WHERE t.catalog = $1 AND o.digest = $2 AND o.name = $3
                     ORDER BY g.number DESC LIMIT 1",
                );
                let query = query.bind(catalog).bind(digest.as_bytes().to_vec());
                let row = query.bind(digest.to_string()).fetch_optional(connection);
                let row = row
                    .await
                    .map_err(FleetError::sql("look up a part of an image"))?;
                let Some(row) = row else { return Ok(None) };
                let image: Option<&str> = row.get("image");
                let image = image.and_then(|text| serde_json::from_str::<Image>(text).ok());
                Ok(image.zip(Some(object(&row)?)))
            }
            .boxed()
        });
        let found = self.fleet.session().run_in(session, work).await?;
        let Some((image, object)) = found else {
            return Ok(None);
        };
        if object.coding != Coding::Identity {
            return Err(FleetError::Row("objects"));
        }
        let manifest = image.manifests.into_iter().find(|one| one.digest == digest);
        let key = key(&digest, object.coding);
        let size = object.size.unsigned_abs();
        let body = match self.fleet.bucket().get(&key, size).await {
            Ok(body) => body,
            Err(error) => {
                let error = FleetError::from(error);
                self.missing
                    .set(digest, error.is_lost() && self.fleet.owns_bucket());
                return Err(error);
            }
        };
        let state = (body, Hasher::default(), size, self.missing.clone());
        let body = stream::try_unfold(
            state,
            move |(mut body, mut hasher, left, missing)| async move {
                let chunk = body
                    .chunk()
                    .await
                    .map_err(|error| RemoteError(error.to_string()))?;
                let Some(chunk) = chunk.filter(|_| left > 0) else {
                    if left == 0 && hasher.clone().finish() == digest {
                        return Ok(None);
                    }
                    missing.set(digest, true);
                    return Err(RemoteError("the bucket has other bytes".into()));
                };
                hasher.update(&chunk);
                let Some(left) = left.checked_sub(chunk.len() as u64) else {
                    missing.set(digest, true);
                    return Err(RemoteError("the bucket has more bytes".into()));
                };
                // The last bytes are held back until all are compared.
                if left == 0 {
                    let is_whole = hasher.clone().finish() == digest;
                    missing.set(digest, !is_whole);
                    if !is_whole {
                        return Err(RemoteError("the bucket has other bytes".into()));
                    }
                }
                Ok(Some((chunk, (body, hasher, left, missing))))
            },
        );
        Ok(Some(RemotePart {
            media_type: manifest.map(|manifest| manifest.media_type),
            size,
            body: body.boxed(),
        }))
    }
}

/// Writes an object as a file of a revision, and its lines beside it if it has these: those
/// of this revision, within this limit.
fn write(
    incoming: &Incoming,
    object: &Object,
    spool: &File,
    lines_of: Option<(RevisionId, FileLimit)>,
) -> Result<(), FleetError> {
    let mut content = decoder(object, spool)?;
    let written = incoming.write(&object.name, &mut content);
    content.finish(object, written)?;
    if let Some((revision, limit)) = lines_of {
        let path = incoming.path().join(&object.name);
        let lines = File::open(&path).and_then(zstd::Decoder::new);
        let lines = lines.map_err(DiskError::at("read", &path))?;
        // A few bytes may decode to very many: the record says how many there are.
        let length = incoming.length_of(METAS)?;
        limit.check(revision, METAS, length)?;
        incoming.write(METAS, &mut lines.take(length))?;
    }
    Ok(())
}

/// Decodes an object, and compares what comes out with its digest.
struct Decoding<'a> {
    inner: Box<dyn Read + 'a>,
    hasher: Hasher,
    /// Why it cannot be decoded.
    problem: Option<String>,
}

fn decoder<'a>(object: &Object, mut spool: &'a File) -> Result<Decoding<'a>, FleetError> {
    let rewound = io::Seek::rewind(&mut spool);
    rewound.map_err(|error| damaged(object, &error.to_string()))?;
    let inner: Box<dyn Read + 'a> = match object.coding {
        Coding::Identity => Box::new(spool),
        Coding::Zstd => {
            let decoder = zstd::Decoder::new(spool);
            Box::new(decoder.map_err(|error| damaged(object, &error.to_string()))?)
        }
    };
    Ok(Decoding {
        // One byte more than expected shows that it is too long.
        inner: Box::new(inner.take(object.size.unsigned_abs() + 1)),
        hasher: Hasher::default(),
        problem: None,
    })
}

impl Decoding<'_> {
    /// Whether what was read has the digest. `copied` is an error when the disk failed before
    /// all was read.
    fn finish<T>(self, object: &Object, copied: Result<T, DiskError>) -> Result<(), FleetError> {
        if let Some(problem) = self.problem {
            return Err(damaged(object, &problem));
        }
        copied?;
        if self.hasher.finish() == object.digest {
            Ok(())
        } else {
            Err(damaged(object, "its bytes do not have its digest"))
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

/// The object of a row, which may be forged.
pub(super) fn object(row: &PgRow) -> Result<Object, FleetError> {
    let bytes: &[u8] = row.get("digest");
    let digest: [u8; 32] = bytes.try_into().map_err(|_| FleetError::Row("objects"))?;
    let size: i64 = row.get("size");
    Ok(Object {
        name: row.get("name"),
        digest: Digest::from_bytes(digest),
        size: if size < 0 {
            return Err(FleetError::Row("objects"));
        } else {
            size
        },
        coding: Coding::parse(row.get("coding")).ok_or(FleetError::Row("objects"))?,
    })
}

fn is_file_name(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    name.bytes().all(inside) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn damaged(object: &Object, problem: &str) -> FleetError {
    FleetError::Damaged {
        key: key(&object.digest, object.coding),
        problem: problem.to_owned(),
    }
}
