//! A revision of a catalog folder that is made once, and neither followed nor
//! published.

use std::path::Path;

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::make_revision::{Input, make_revision};
use crate::ingest::source::Source;
use crate::ingest::stages::{StageTracker, blocking};
use crate::ingest::{files, sqlite};
use crate::name::CatalogName;
use crate::store::{Revision, Store};
use ::images::Platform;
use ::images::digest::Digest;
use ::images::layers::Limits;
use fbc::problem::Problem;

/// The digest of a folder, or of the one file: of the paths of its files below it
/// and of their contents, not of their dates. A revision has it as the digest of
/// its source.
pub async fn digest_of_folder(path: &Path, limits: &Limits) -> Result<Digest, PassError> {
    let (root, limits) = (path.to_owned(), limits.clone());
    blocking(Stage::Resolve, move || {
        files::digest_of_folder(&root, &limits).map_err(PassError::at(Stage::Resolve))
    })
    .await
}

/// Reads a folder into a revision, which becomes the current one of the catalog
/// `name`. Its other revisions are removed.
pub async fn store_folder(
    store: &Store,
    name: &CatalogName,
    path: &Path,
    limits: &Limits,
    on_invalid: OnInvalid,
) -> Result<(Revision, Vec<Problem>), PassError> {
    let (root, bounds, temporary) = (path.to_owned(), limits.clone(), store.temporary());
    let (digest, files) = blocking(Stage::Unpack, move || {
        sqlite::of_folder(&root, &bounds, &temporary).map_err(PassError::at(Stage::Unpack))
    })
    .await?;
    let followed = Followed {
        name: name.clone(),
        source: Source::File(path.to_owned()),
        poll: None,
        platform: Platform::default(),
        on_invalid,
    };
    let stages = StageTracker::at(Stage::Unpack);
    let input = Input {
        followed: &followed,
        digest,
        files,
        blobs: &[],
    };
    let made = make_revision(store, &stages, &ReadPermit::alone(), input).await?;
    store
        .retire(&made.0)
        .await
        .map_err(PassError::at(Stage::Commit))?;
    Ok(made)
}
