//! Reading a catalog without serving it.

use super::error::{PassError, Stage};
use super::files;
use super::pull::Origin;
use super::read::Base;
use super::{Source, read};
use crate::digest::Digest;
use crate::fbc::problem::Problem;
use crate::oci::{self, Client, Layout, Platform};
use crate::store::{Counts, Store, StoreError};
use crate::unpack::Limits;

/// How to read the catalog.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Which image of a multi-platform one.
    pub platform: Platform,
    /// How to speak to registries.
    pub registries: oci::Settings,
    /// What an image may hold.
    pub limits: Limits,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The digest that the source is at.
    pub digest: Digest,
    /// How much the catalog holds.
    pub counts: Counts,
    /// What is wrong with it, files first, then packages by name.
    pub problems: Vec<Problem>,
}

/// Reads a catalog from its source and says what is wrong with it. What has to
/// be written lies in a temporary folder meanwhile.
///
/// # Errors
/// When it cannot be read at all; what stands in it wrongly is in the report.
pub async fn check(source: &Source, options: &CheckOptions) -> Result<Report, PassError> {
    let folder = tempfile::tempdir().map_err(PassError::at(Stage::Pull))?;
    let (digest, files) = match source {
        Source::File(path) => files::of_folder(path, &options.limits, folder.path())
            .map_err(PassError::at(Stage::Unpack))?,
        Source::Layout {
            folder: layout,
            tag,
        } => {
            let layout = Layout::open(layout).map_err(PassError::at(Stage::Resolve))?;
            image(
                &Origin::Layout(layout),
                tag.as_deref(),
                options,
                folder.path(),
            )
            .await?
        }
        Source::Image(reference) => {
            let client = Client::new(&options.registries).map_err(PassError::at(Stage::Resolve))?;
            let origin = Origin::Registry {
                client: &client,
                reference,
            };
            image(&origin, None, options, folder.path()).await?
        }
    };
    let catalog = read::read(&files, false, |_| Ok::<_, StoreError>(Base::default()))
        .map_err(PassError::at(Stage::Read))?;
    Ok(Report {
        digest,
        counts: catalog.counts,
        problems: catalog.problems,
    })
}

async fn image(
    origin: &Origin<'_>,
    tag: Option<&str>,
    options: &CheckOptions,
    folder: &std::path::Path,
) -> Result<(Digest, files::CatalogFiles), PassError> {
    let store = Store::open(folder)
        .await
        .map_err(PassError::at(Stage::Pull))?;
    let digest = origin.resolve(tag).await?;
    let pulled = origin
        .pull(&store, &digest, &options.platform, &options.limits)
        .await?;
    let label = pulled
        .folder
        .ok_or(files::FilesError::NoLabel)
        .map_err(PassError::at(Stage::Unpack))?;
    let files = files::of_image(&pulled.layers, &label, &options.limits, folder)
        .map_err(PassError::at(Stage::Unpack))?;
    store.close().await;
    Ok((digest, files))
}
