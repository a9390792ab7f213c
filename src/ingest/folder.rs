//! A catalog folder as a revision that is made once: nothing is followed or
//! published.

use std::path::Path;

use crate::ingest::error::{PassError, Stage};
use crate::ingest::pass::{Followed, blocking, make};
use crate::ingest::{OnInvalid, Source, files, legacy};
use crate::name::CatalogName;
use crate::store::{Revision, Store};
use ::images::Platform;
use ::images::digest::Digest;
use ::images::layers::Limits;
use fbc::problem::Problem;

/// The digest of what a folder (or the one file) holds now: of its files'
/// paths below it and of their contents, wherever it lies and whatever their
/// dates are. A revision has it as the digest of its source.
pub async fn digest_of_folder(path: &Path, limits: &Limits) -> Result<Digest, PassError> {
    let (root, limits) = (path.to_owned(), limits.clone());
    blocking(Stage::Resolve, move || {
        files::digest_of_folder(&root, &limits).map_err(PassError::at(Stage::Resolve))
    })
    .await
}

/// Reads a folder into a revision of the store, which becomes the current one
/// of the catalog `name`. What else the store has of it is removed.
pub async fn store_folder(
    store: &Store,
    name: &CatalogName,
    path: &Path,
    limits: &Limits,
    on_invalid: OnInvalid,
) -> Result<(Revision, Vec<Problem>), PassError> {
    let (root, bounds, temporary) = (path.to_owned(), limits.clone(), store.temporary());
    let (digest, files) = blocking(Stage::Unpack, move || {
        files::of_folder(&root, &bounds, &temporary).map_err(PassError::at(Stage::Unpack))
    })
    .await?;
    let temporary = store.temporary();
    let migrated = legacy::migrated(files, &temporary, limits);
    let files = migrated.await.map_err(PassError::at(Stage::Unpack))?;
    let followed = Followed {
        name: name.clone(),
        source: Source::File(path.to_owned()),
        poll: None,
        platform: Platform::default(),
        on_invalid,
    };
    let made = make(store, &followed, digest, files, &[]).await?;
    store
        .retire(&made.0)
        .await
        .map_err(PassError::at(Stage::Commit))?;
    Ok(made)
}
