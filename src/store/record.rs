//! Records: what the rows of a revision say, as files beside those of the revision.
//! A lost or damaged database is rebuilt from them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::answers::index::SearchRow;
use crate::name::CatalogName;
use crate::store::StoreError;
use crate::store::file_io::{DiskError, protect, reread, sync_folder};
use crate::store::revision::{Counts, FileSum, Published, SourceIdentity};
use ::images::digest::Digest;
use fbc::problem::Problem;

/// The record of a revision, in its folder.
pub const RECORD: &str = "record.json";
/// The record of its image, once it has one.
pub(crate) const IMAGE_RECORD: &str = "image-record.json";
/// The length of the first line, which has the CRC-32 of the others.
const SUM: usize = 9;

/// The record of a revision.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record<'a> {
    /// The format of the revision's files.
    pub(crate) format: u32,
    pub(crate) catalog: Cow<'a, CatalogName>,
    pub(crate) identity: SourceIdentity,
    pub(crate) digest: Digest,
    pub(crate) content: Digest,
    /// In seconds since 1970, as the next.
    pub(crate) modified: i64,
    pub(crate) committed: i64,
    pub(crate) counts: Counts,
    pub(crate) blobs: Cow<'a, [Digest]>,
    pub(crate) problems: Cow<'a, [Problem]>,
    pub(crate) search: Cow<'a, [SearchRow]>,
    /// Of the files of the revision, by their names.
    #[serde(default)]
    pub(crate) sums: Cow<'a, BTreeMap<String, FileSum>>,
}

impl Record<'_> {
    /// The same for the history.
    pub(crate) fn published(&self) -> Published {
        Published {
            source: self.identity.source.clone(),
            digest: self.digest,
            content: self.content,
            committed: self.committed,
            counts: self.counts,
        }
    }
}

/// The content of the file for a record.
pub(crate) fn encode(record: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(record).map_err(StoreError::encode("a record"))?;
    let sum = format!("{:08x}\n", crc32fast::hash(&json));
    Ok([sum.as_bytes(), &json].concat())
}

/// Writes an encoded record, in place of an earlier one.
pub(crate) fn write(folder: &Path, name: &str, content: &[u8]) -> Result<(), DiskError> {
    let (path, new) = (folder.join(name), folder.join(format!("new-{name}")));
    File::create(&new)
        .and_then(|mut file| {
            file.write_all(content)?;
            protect(&file)?;
            file.sync_data()
        })
        .map_err(DiskError::at("write", &new))?;
    fs::rename(&new, &path).map_err(DiskError::at("create", &path))?;
    sync_folder(folder)
}

/// Reads a record. A missing or damaged one gives nothing.
///
/// # Errors
/// When it exists and cannot be read: its revision must not be taken for one
/// without a record.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DiskError> {
    let Some(json) = read_json(path)? else {
        return Ok(None);
    };
    let record = serde_json::from_slice(&json);
    if let Err(error) = &record {
        tracing::warn!(path = %path.display(), %error, "the record is damaged and is not used");
    }
    Ok(record.ok())
}

/// Whether a record exists and is not damaged.
pub(crate) fn is_whole(path: &Path) -> Result<bool, DiskError> {
    Ok(read_json(path)?.is_some())
}

fn read_json(path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let content = match reread(|| fs::read(path)) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        content => content.map_err(DiskError::at("read", path))?,
    };
    let json = checked(content);
    if json.is_none() {
        tracing::warn!(path = %path.display(), "the record is damaged and is not used");
    }
    Ok(json)
}

/// The content without its first line, if that is its sum.
fn checked(mut content: Vec<u8>) -> Option<Vec<u8>> {
    let (sum, json) = content.split_at_checked(SUM)?;
    if format!("{:08x}\n", crc32fast::hash(json)).as_bytes() != sum {
        return None;
    }
    content.drain(..SUM);
    Some(content)
}
