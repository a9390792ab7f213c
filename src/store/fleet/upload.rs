//! Puts the files of a revision and the parts of an image into the bucket.
//!
//! An object has the digest of its decoded bytes as its name, so what an earlier
//! revision has too is there already. Its row comes first: whatever lies in the bucket
//! is known.

use bytes::Bytes;
use sqlx::Row as _;

use crate::store::disk::DiskError;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::file_limit::FileLimit;
use crate::store::fleet::pool::Fleet;
use crate::store::groups::GROUPS;
use crate::store::history::outline_bytes;
use crate::store::record::RECORD;
use crate::store::revision_files::{INDEX, MESSAGES, PIECES, QUERIES};
use crate::store::{Encoding, Image, OutlineName, Revision, RevisionId, Store, StoreError};
use ::images::digest::Digest;

/// The outline of a revision's content, beside its files.
pub(super) const OUTLINE: &str = "outline.zst";
/// Files that are compressed on their way, and others. The lines of the metas travel as
/// `all.zst`.
const COMPRESSED: [&str; 4] = [INDEX, MESSAGES, QUERIES, RECORD];
/// The beginning of the names of all objects.
pub(super) const OBJECTS: &str = "sha256/";
/// The level of zstd on the way.
const LEVEL: i32 = 3;

/// Finds the usable row of an object, or makes one.
const RECORD_OBJECT: &str = "WITH known AS (
    SELECT incarnation, coding, state FROM objects
    WHERE digest = $1 AND state IN ('coming', 'there')
  ), made AS (
    INSERT INTO objects (digest, incarnation, size, coding, state)
    SELECT $1, nextval('incarnations'), $2, $3, 'coming'
    WHERE NOT EXISTS (SELECT 1 FROM known)
    ON CONFLICT DO NOTHING RETURNING incarnation, coding, state
  ) SELECT * FROM known UNION ALL SELECT * FROM made";

/// Objects that are in the bucket, each under a name of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared(pub(super) Vec<Named>);

/// An object and what it is to whoever names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) incarnation: i64,
    /// Whether the database told that it is there, so that nothing was sent.
    pub(super) is_found: bool,
}

/// How the bytes of an object lie in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Zstd,
}

impl Coding {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Identity, Self::Zstd]
            .into_iter()
            .find(|coding| coding.as_str() == text)
    }
}

/// Bytes that are to become an object.
struct Upload {
    name: String,
    bytes: Bytes,
    digest: Digest,
    coding: Coding,
}

impl Fleet {
    /// Puts the files of a revision into the bucket. A new one has a limit.
    ///
    /// # Errors
    /// When one is longer than replicas with this limit take, or cannot be shared.
    pub async fn share_revision(
        &self,
        store: &Store,
        limit: Option<FileLimit>,
        revision: &Revision,
    ) -> Result<Shared, FleetError> {
        let (own, of) = (store.clone(), revision.clone());
        let uploads = tokio::task::spawn_blocking(move || files(&own, &of));
        let uploads = uploads.await.unwrap_or_else(stopped)?;
        if let Some(limit) = limit {
            limit.check_revision(revision)?;
            for upload in &uploads {
                let length = upload.bytes.len() as u64;
                limit.check(revision.id, &upload.name, length)?;
            }
        }
        self.share(uploads).await
    }

    /// Puts the parts of a revision's image into the bucket. A new one has a limit.
    ///
    /// # Errors
    /// When it is larger than replicas with this limit take, or cannot be shared.
    pub async fn share_image(
        &self,
        store: &Store,
        limit: Option<FileLimit>,
        (revision, image): (RevisionId, &Image),
    ) -> Result<Shared, FleetError> {
        if let Some(limit) = limit {
            limit.check_image(revision, image)?;
        }
        let (own, image) = (store.clone(), image.clone());
        let uploads = tokio::task::spawn_blocking(move || parts(&own, &image));
        self.share(uploads.await.unwrap_or_else(stopped)?).await
    }

    /// Puts outlines into the bucket. Those that are not kept are
    /// left out.
    pub async fn share_outlines(
        &self,
        store: &Store,
        names: Vec<OutlineName>,
    ) -> Result<Shared, FleetError> {
        let mut shared = Shared(Vec::with_capacity(names.len()));
        for name in names {
            // One at a time, as there are hundreds.
            let folder = store.folder.clone();
            let read = tokio::task::spawn_blocking(move || {
                let bytes = outline_bytes(&folder, &name)?;
                Some(upload(&name.to_string(), bytes.into(), Coding::Identity))
            });
            let upload = read.await.map_or_else(stopped, Ok)?;
            let one = self.share(upload.into_iter().collect()).await?;
            shared.0.extend(one.0);
        }
        Ok(shared)
    }

    async fn share(&self, uploads: Vec<Upload>) -> Result<Shared, FleetError> {
        let mut shared = Vec::with_capacity(uploads.len());
        for upload in uploads {
            let (incarnation, is_found) = self.put(&upload).await?;
            shared.push(Named {
                incarnation,
                is_found,
                name: upload.name,
                digest: upload.digest,
            });
        }
        Ok(Shared(shared))
    }

    /// Puts an object into the bucket, unless it is there. Returns its incarnation, and whether
    /// it was there.
    async fn put(&self, upload: &Upload) -> Result<(i64, bool), FleetError> {
        let digest = upload.digest.as_bytes().to_vec();
        let size = i64::try_from(upload.bytes.len()).unwrap_or(i64::MAX);
        let mut row = None;
        // Another replica may insert the same row between the two looks of a statement.
        for _ in 0..3 {
            let query = sqlx::query(RECORD_OBJECT)
                .bind(&digest)
                .bind(size)
                .bind(upload.coding.as_str());
            row = self.find("record an object", query).await?;
            if row.is_some() {
                break;
            }
        }
        let row = row.ok_or(FleetError::Gone)?;
        let incarnation: i64 = row.get("incarnation");
        if row.get::<&str, _>("state") == "there" {
            return Ok((incarnation, true));
        }
        let coding = Coding::parse(row.get("coding")).unwrap_or(Coding::Identity);
        let bytes = upload.bytes.clone();
        let body = tokio::task::spawn_blocking(move || encoded(bytes, coding));
        let body = body.await.unwrap_or_else(stopped)?;
        let key = key(&upload.digest, incarnation);
        // An object that is there is whole: a store keeps nothing of a broken request.
        self.bucket.put_if_absent(&key, body).await?;
        let statement = sqlx::query(
            "UPDATE objects SET state = 'there', touched = clock_timestamp()
             WHERE digest = $1 AND incarnation = $2 AND state = 'coming'",
        );
        let statement = statement.bind(&digest).bind(incarnation);
        self.execute("record an object", statement).await?;
        Ok((incarnation, false))
    }
}

/// The name of an object in the bucket.
pub(super) fn key(digest: &Digest, incarnation: i64) -> String {
    let hex = digest.hex();
    let start = hex.get(..2).unwrap_or_default();
    format!("{OBJECTS}{start}/{hex}-{incarnation}")
}

/// The digest and the incarnation of a name that [`key`] makes.
pub(super) fn parse_key(name: &str) -> Option<(Digest, i64)> {
    let (_, file) = name.strip_prefix(OBJECTS)?.split_once('/')?;
    let (hex, incarnation) = file.split_once('-')?;
    let digest = format!("sha256:{hex}").parse().ok()?;
    let incarnation = incarnation.parse().ok()?;
    (key(&digest, incarnation) == name).then_some((digest, incarnation))
}

fn files(store: &Store, revision: &Revision) -> Result<Vec<Upload>, FleetError> {
    let map = |name: &str| {
        let path = store.revision_folder(revision.id).join(name);
        let mapped = store.map(revision.id, name);
        mapped.map_err(|error| FleetError::from(DiskError::at("open", &path)(error)))
    };
    let mut uploads = Vec::new();
    for name in COMPRESSED {
        uploads.push(upload(name, map(name)?, Coding::Zstd));
    }
    for encoding in Encoding::ALL {
        // A catalog without lines has none.
        if revision.files.contains_key(encoding.file()) {
            let name = encoding.file();
            uploads.push(upload(name, map(name)?, Coding::Identity));
        }
    }
    // These only speed up the next revision.
    for name in [GROUPS, PIECES] {
        if let Ok(file) = map(name) {
            uploads.push(upload(name, file, Coding::Zstd));
        }
    }
    if let Some(outline) = outline_bytes(&store.folder, &revision.outline()) {
        uploads.push(upload(OUTLINE, outline.into(), Coding::Identity));
    }
    Ok(uploads)
}

fn parts(store: &Store, image: &Image) -> Result<Vec<Upload>, FleetError> {
    let mut uploads: Vec<Upload> = Vec::new();
    for part in image.parts() {
        if uploads.iter().any(|upload| upload.digest == part.digest) {
            continue;
        }
        let path = store.contents().folder().to_owned();
        let blob = store.contents().open_blob(&part.digest);
        let blob = blob.map_err(DiskError::at("read in", &path))?;
        let upload = upload(
            &part.digest.to_string(),
            blob.unverified(),
            Coding::Identity,
        );
        if upload.digest != part.digest {
            return Err(FleetError::Damaged {
                key: upload.name,
                problem: "its file here has other bytes".into(),
            });
        }
        uploads.push(upload);
    }
    Ok(uploads)
}

fn upload(name: &str, bytes: Bytes, coding: Coding) -> Upload {
    Upload {
        name: name.to_owned(),
        digest: Digest::of(&bytes),
        bytes,
        coding,
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

/// The result of work whose thread panicked.
pub(super) fn stopped<T>(error: tokio::task::JoinError) -> Result<T, FleetError> {
    let error = std::io::Error::other(error);
    Err(StoreError::from(DiskError::at("read", "the store".as_ref())(error)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_are_taken_for_such() {
        let digest = Digest::of(b"a");
        let name = key(&digest, 7);
        assert_eq!(parse_key(&name), Some((digest, 7)));
        let other = name.replace("/ca/", "/cb/");
        for wrong in [
            "fleet",
            "sha256/",
            "sha256/ab",
            &name[..name.len() - 1],
            &other,
        ] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }
}
