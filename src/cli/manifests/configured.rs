//! The catalogs of a configuration, from their sources or, in offline mode, from
//! the store.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};

use crate::cli::input::{note_all, note_errors};
use crate::config::{CatalogConfig, Config};
use crate::ingest::{self, Curation, LoadOptions, Loaded, Source};
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::Store;
use fbc::select::{self, Catalog, Request, Selected};

/// The catalogs of a configuration.
pub(super) struct Configured {
    /// The ports of the gRPC and HTTP APIs.
    pub(super) ports: (u16, u16),
    catalogs: Vec<CatalogConfig>,
    /// The data folder, in offline mode.
    stored: Option<PathBuf>,
}

impl Configured {
    pub(super) fn new(config: Config) -> Self {
        Self {
            ports: (config.grpc.port(), config.http.port()),
            stored: config.offline.then_some(config.data_dir),
            catalogs: config.catalogs,
        }
    }

    pub(super) fn catalogs(&self) -> &[CatalogConfig] {
        &self.catalogs
    }

    /// The whole content of a catalog.
    pub(super) async fn select(
        &self,
        name: &CatalogName,
        options: &LoadOptions,
    ) -> anyhow::Result<Selected> {
        let catalog = self.find(name)?;
        if let Source::Curated(curation) = &catalog.source {
            return self.curate(curation, options).await;
        }
        let material = self.material(catalog, options).await?;
        note_errors(&material);
        Ok(select::select(&[material], &Request::whole())?)
    }

    fn find(&self, name: &CatalogName) -> anyhow::Result<&CatalogConfig> {
        let found = self.catalogs.iter().find(|catalog| catalog.name == *name);
        found.ok_or_else(|| anyhow!("there is no catalog {name}"))
    }

    /// The selection of a curated catalog. Its origins may be curated too; the
    /// configuration has no circles.
    async fn curate(&self, curation: &Curation, options: &LoadOptions) -> anyhow::Result<Selected> {
        let mut materials = Vec::new();
        for name in &curation.from {
            let origin = self.find(name)?;
            materials.push(match &origin.source {
                Source::Curated(curation) => {
                    let selected = Box::pin(self.curate(curation, options)).await?;
                    note_all(&selected);
                    Loaded::of_selected(&selected, &options.limits)?
                        .selection_input(name.as_str())?
                }
                _ => self.material(origin, options).await?,
            });
        }
        Ok(select::select(&materials, &curation.request)?)
    }

    /// The content of a catalog that is not curated.
    async fn material(
        &self,
        catalog: &CatalogConfig,
        options: &LoadOptions,
    ) -> anyhow::Result<Catalog> {
        let name = catalog.name.as_str();
        let Some(folder) = &self.stored else {
            let options = LoadOptions {
                platform: catalog.platform.clone(),
                folder: catalog.folder.clone(),
                ..options.clone()
            };
            let loaded = ingest::load(&catalog.source, &options).await?;
            return Ok(loaded.selection_input(name)?);
        };
        let nothing = || {
            anyhow!(
                "offline is set, and nothing is stored of {name} in {}: import it, or name the \
                 catalogs by the URLs of a running almanac, as in \
                 {name}=http://HOST:PORT/catalogs/{name}",
                folder.display()
            )
        };
        let store = Store::open_beside(folder).await?.ok_or_else(nothing)?;
        let current = store.current(&catalog.name).await;
        let snapshot = current
            .and_then(|revision| {
                let open = |revision| Snapshot::open(&store, revision);
                revision.map(open).transpose()
            })
            .context("the store cannot be read");
        store.close().await;
        Ok(snapshot?.ok_or_else(nothing)?.selection_input(name, &[]))
    }
}
