//! Puts the files of a revision and the parts of an image into the bucket.
//!
//! An object has the digest of its decoded bytes as its name: what is there already is not sent
//! again, and any replica may write it once more.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use sqlx::Row as _;
use tokio::sync::OwnedRwLockReadGuard;

use crate::fleet::error::FleetError;
use crate::fleet::file_limit::FileLimit;
use crate::fleet::numbers::TrackId;
use crate::fleet::object::{Coding, OUTLINE, Object, key};
use crate::fleet::session::{Session, SessionNumber, statements};
use crate::fleet::shared::Fleet;
use crate::store::{
    DiskError, Encoding, Image, OutlineName, Revision, RevisionId, SHARED_FILES, Store, StoreError,
};
use ::images::digest::Digest;

/// The level of zstd on the way.
const LEVEL: i32 = 3;
/// The pause between two tries to begin an upload while objects are removed.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Bytes that are to become an object.
pub(super) struct Upload {
    pub(super) object: Object,
    pub(super) bytes: Bytes,
}

/// Objects that the bucket is known to have.
pub type Known = BTreeSet<Digest>;

/// Keeps objects from being removed until a publication names them.
pub struct Uploading {
    _of_fleet: SharedLock,
    _of_process: OwnedRwLockReadGuard<()>,
}

/// The lock of uploads in a session.
struct SharedLock {
    session: Session,
    number: SessionNumber,
}

impl Fleet {
    /// Keeps objects from being removed from the bucket, in the current session.
    pub async fn begin_upload(&self, number: SessionNumber) -> Result<Uploading, FleetError> {
        let of_process = self.uploads().read_owned().await;
        let session = self.session().clone();
        loop {
            let of = session.clone();
            let locking = statements(move |connection| {
                async move {
                    let query = sqlx::query_scalar("SELECT pg_try_advisory_lock_shared(3, 2)");
                    let locked = query.fetch_one(connection).await;
                    let locked: bool = locked.map_err(FleetError::sql("begin an upload"))?;
                    // Made here: the statement ends also if nobody waits for it any more.
                    Ok(locked.then_some(SharedLock {
                        session: of,
                        number,
                    }))
                }
                .boxed()
            });
            if let Some(of_fleet) = session.run_in(number, locking).await? {
                return Ok(Uploading {
                    _of_fleet: of_fleet,
                    _of_process: of_process,
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The objects of the newest generation of a track, which the bucket has unless a replica
    /// reports one as missing.
    pub async fn known_objects(&self, track: TrackId) -> Result<Known, FleetError> {
        let query = sqlx::query(
            "SELECT o.digest FROM tracks t JOIN objects o ON o.generation = t.newest
             WHERE t.id = $1 AND NOT EXISTS (
               SELECT 1 FROM replicas WHERE o.digest = ANY(missing))",
        );
        let session = self.session();
        let rows = session
            .rows(None, "list objects", query.bind(track.0))
            .await?;
        let digests = rows.iter().filter_map(|row| {
            let bytes: &[u8] = row.get(0);
            Some(Digest::from_bytes(bytes.try_into().ok()?))
        });
        Ok(digests.collect())
    }

    /// Puts the files of a revision into the bucket, but for known ones. A new one has a limit.
    ///
    /// # Errors
    /// When one is longer than replicas with this limit take, or cannot be shared.
    pub async fn upload_revision(
        &self,
        store: &Store,
        limit: FileLimit,
        revision: &Revision,
        known: &Known,
    ) -> Result<Vec<Object>, FleetError> {
        let (own, of) = (store.clone(), revision.clone());
        let uploads = blocking(move || files(&own, &of)).await?;
        limit.check_revision(revision)?;
        for upload in &uploads {
            let length = upload.bytes.len() as u64;
            limit.check(revision.id, &upload.object.name, length)?;
        }
        self.upload(uploads, known).await
    }

    /// Puts the parts of a revision's image into the bucket, but for known ones.
    ///
    /// # Errors
    /// When it is larger than replicas with this limit take, or cannot be shared.
    pub async fn upload_image(
        &self,
        store: &Store,
        limit: FileLimit,
        (revision, image): (RevisionId, &Image),
        known: &Known,
    ) -> Result<Vec<Object>, FleetError> {
        limit.check_image(revision, image)?;
        let (own, image) = (store.clone(), image.clone());
        let uploads = blocking(move || parts(&own, &image)).await?;
        self.upload(uploads, known).await
    }

    /// Puts outlines into the bucket, each with its name. Those that are not kept are left out.
    pub async fn upload_outline(
        &self,
        store: &Store,
        name: OutlineName,
    ) -> Result<Option<Object>, FleetError> {
        let own = store.clone();
        let read = blocking(move || {
            let bytes = own.encoded_outline(&name);
            Ok(bytes.map(|bytes| upload(OUTLINE, bytes.into(), Coding::Identity)))
        });
        let found = read.await?.into_iter().collect();
        Ok(self.upload(found, &Known::new()).await?.pop())
    }

    pub(super) async fn upload(
        &self,
        uploads: Vec<Upload>,
        known: &Known,
    ) -> Result<Vec<Object>, FleetError> {
        let mut objects = Vec::with_capacity(uploads.len());
        for Upload { object, bytes } in uploads {
            let key = key(&object.digest, object.coding);
            if !known.contains(&object.digest) && self.bucket().head(&key).await?.is_none() {
                let coding = object.coding;
                let body = blocking(move || encoded(bytes, coding)).await?;
                // An object that is there is whole: a store keeps nothing of a broken request.
                self.bucket().put(&key, body).await?;
            }
            objects.push(object);
        }
        Ok(objects)
    }

    /// Writes an object again that the bucket has lost, whether it is there or not.
    pub(super) async fn upload_again(&self, upload: Upload) -> Result<(), FleetError> {
        let Upload { object, bytes } = upload;
        let body = blocking(move || encoded(bytes, object.coding)).await?;
        let key = key(&object.digest, object.coding);
        self.bucket().put(&key, body).await?;
        Ok(())
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        let (session, number) = (self.session.clone(), self.number);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let unlock = sqlx::query("SELECT pg_advisory_unlock_shared(3, 2)");
            // A session that has ended holds nothing.
            let _ = session.execute(Some(number), "end an upload", unlock).await;
        });
    }
}

/// The files of a revision.
pub(super) fn files(store: &Store, revision: &Revision) -> Result<Vec<Upload>, FleetError> {
    let mut uploads = Vec::new();
    for (name, is_compressed) in SHARED_FILES {
        uploads.push(file(store, revision.id, name, is_compressed)?);
    }
    for encoding in Encoding::ALL {
        // A catalog without lines has none.
        if revision.files.contains_key(encoding.file()) {
            uploads.push(file(store, revision.id, encoding.file(), false)?);
        }
    }
    // These only speed up the next revision.
    for name in crate::store::OPTIONAL_FILES {
        uploads.extend(file(store, revision.id, name, true));
    }
    if let Some(outline) = store.encoded_outline(&revision.outline()) {
        uploads.push(upload(OUTLINE, outline.into(), Coding::Identity));
    }
    Ok(uploads)
}

/// A file of a revision.
pub(super) fn file(
    store: &Store,
    revision: RevisionId,
    name: &str,
    is_compressed: bool,
) -> Result<Upload, FleetError> {
    let coding = if is_compressed {
        Coding::Zstd
    } else {
        Coding::Identity
    };
    Ok(upload(name, store.map_shared(revision, name)?, coding))
}

/// The parts of an image.
fn parts(store: &Store, image: &Image) -> Result<Vec<Upload>, FleetError> {
    let digests: BTreeSet<Digest> = image.parts().map(|part| part.digest).collect();
    digests.iter().map(|digest| part(store, digest)).collect()
}

/// A part of an image.
pub(super) fn part(store: &Store, digest: &Digest) -> Result<Upload, FleetError> {
    let path = store.contents().folder().to_owned();
    let blob = store.contents().open_blob(digest);
    let blob = blob.map_err(DiskError::at("read in", &path))?;
    let upload = upload(&digest.to_string(), blob.unverified(), Coding::Identity);
    if upload.object.digest == *digest {
        return Ok(upload);
    }
    Err(FleetError::Damaged {
        key: digest.to_string(),
        problem: "its file here has other bytes".into(),
    })
}

pub(super) fn upload(name: &str, bytes: Bytes, coding: Coding) -> Upload {
    Upload {
        object: Object {
            name: name.to_owned(),
            digest: Digest::of(&bytes),
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            coding,
        },
        bytes,
    }
}

fn encoded(bytes: Bytes, coding: Coding) -> Result<Bytes, FleetError> {
    match coding {
        Coding::Identity => Ok(bytes),
        Coding::Zstd => {
            let encoded = zstd::encode_all(&bytes[..], LEVEL);
            let encoded = encoded.map_err(DiskError::at("compress", "an object".as_ref()))?;
            Ok(encoded.into())
        }
    }
}

/// Does work that blocks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FleetError> + Send + 'static,
) -> Result<T, FleetError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let error = DiskError::at("read", "the store".as_ref())(io::Error::other(error));
        Err(StoreError::from(error).into())
    })
}
