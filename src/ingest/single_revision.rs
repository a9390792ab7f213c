//! A revision of a catalog folder that is made once, and neither followed nor
//! published.

use std::path::Path;

use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::folder::listing::{FolderOptions, FolderRules};
use crate::ingest::followed::OnInvalid;
use crate::ingest::load::Loaded;
use crate::ingest::pass::make_revision::{Input, make_revision};
use crate::ingest::read::{files, sqlite};
use crate::ingest::source::Source;
use crate::ingest::stages::{StageTracker, blocking};
use crate::name::CatalogName;
use crate::store::{Revision, SourceIdentity, Store};
use ::images::digest::Digest;
use ::images::layers::Limits;
use fbc::problem::Problem;

/// The digest of a folder, or of the one file: of the paths of its files below it
/// and of their contents, not of their dates. A revision has it as the digest of
/// its source.
pub async fn digest_of_folder(path: &Path, limits: &Limits) -> Result<Digest, PassError> {
    let (root, rules) = (path.to_owned(), rules(limits));
    blocking(Stage::Resolve, move || {
        files::digest_of_folder(&root, &rules).map_err(PassError::at(Stage::Resolve))
    })
    .await
}

/// Reads a folder into a revision, which becomes the current one of the catalog
/// `name`. Its other revisions stay until the caller removes them, which is after the
/// new one is served.
pub async fn store_folder(
    store: &Store,
    name: &CatalogName,
    path: &Path,
    limits: &Limits,
    on_invalid: OnInvalid,
) -> Result<(Revision, Vec<Problem>), PassError> {
    let (root, rules, temporary) = (path.to_owned(), rules(limits), store.temporary());
    let (digest, files) = blocking(Stage::Unpack, move || {
        sqlite::from_folder(&root, &rules, &temporary).map_err(PassError::at(Stage::Unpack))
    })
    .await?;
    let identity = SourceIdentity {
        source: Source::File(path.to_owned()).to_string(),
        variant: None,
    };
    let stages = StageTracker::at(Stage::Unpack);
    let input = Input {
        digest,
        content: files.into(),
        permit: ReadPermit::alone(),
        blobs: Vec::new(),
        on_invalid,
    };
    make_revision(store, name, identity, &stages, input, None).await
}

/// Makes a revision of a catalog that was loaded, which becomes the current one of
/// the catalog `name`. `source` is its location, as users write it.
pub async fn store_loaded(
    store: &Store,
    name: &CatalogName,
    source: &str,
    loaded: Loaded,
) -> Result<Revision, PassError> {
    let identity = SourceIdentity {
        source: source.to_owned(),
        variant: None,
    };
    let stages = StageTracker::at(Stage::Read);
    let input = Input {
        digest: loaded.digest,
        content: loaded.files.into(),
        permit: ReadPermit::alone(),
        blobs: Vec::new(),
        on_invalid: OnInvalid::Quarantine,
    };
    let (revision, _) = make_revision(store, name, identity, &stages, input, None).await?;
    Ok(revision)
}

/// The author of the container image decides its content, so links may lead
/// anywhere, as with opm.
fn rules(limits: &Limits) -> FolderRules {
    FolderRules::new(&FolderOptions::with_links_anywhere(), limits)
}
