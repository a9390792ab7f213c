//! The catalogs of a configuration, from their sources or, in offline mode, from
//! the store.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, anyhow};

use crate::cli::Failure;
use crate::cli::input::notes::{note_all, note_errors};
use crate::config::{CatalogConfig, Config, Environment, Settings};
use crate::ingest::{self, Curation, LoadOptions, Loaded, Source};
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::Store;
use fbc::select::{self, Catalog, Request, Selected};
use fbc::text::suggest;

/// The catalogs of a configuration.
#[derive(Debug)]
pub(crate) struct Configured {
    catalogs: Vec<CatalogConfig>,
    /// The data folder, in offline mode.
    stored: Option<PathBuf>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct ConfiguredCatalog {
    name: CatalogName,
    file: PathBuf,
    all: Rc<Configured>,
}

impl ConfiguredCatalog {
    /// The catalog of that name in a configuration file.
    pub(super) fn open(
        name: CatalogName,
        file: &Path,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let config = Config::load(Settings::default(), Some(file), environment);
        let all = Configured::new(config.map_err(Failure::usage)?);
        if all.find(&name).is_err() {
            let names = all.catalogs.iter().map(|catalog| catalog.name.as_str());
            let proposal = suggest::proposal_or_all(name.as_str(), names);
            return Err(Failure::usage(anyhow!(
                "there is no catalog {:?} in {}{proposal}",
                name.as_str(),
                file.display()
            )));
        }
        Ok(Self {
            name,
            file: file.to_owned(),
            all: Rc::new(all),
        })
    }

    pub(super) fn name(&self) -> &CatalogName {
        &self.name
    }

    /// The configuration file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The source that is read, unless others or the store are.
    pub(super) fn plain_source(&self) -> Option<&Source> {
        let source = &self.all.find(&self.name).ok()?.source;
        let is_plain = self.all.stored.is_none() && !matches!(source, Source::Curated(_));
        is_plain.then_some(source)
    }

    /// Its files.
    pub(super) async fn load(&self, options: &LoadOptions) -> anyhow::Result<Loaded> {
        if self.plain_source().is_some() {
            return load(self.all.find(&self.name)?, options).await;
        }
        let selected = self.all.select(&self.name, options).await?;
        Ok(Loaded::from_selection(&selected, &options.limits)?)
    }
}

impl Configured {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            stored: config.offline.then_some(config.data_dir),
            catalogs: config.catalogs,
        }
    }

    pub(crate) fn catalogs(&self) -> &[CatalogConfig] {
        &self.catalogs
    }

    /// The whole content of a catalog.
    pub(crate) async fn select(
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
                    Loaded::from_selection(&selected, &options.limits)?
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
            return Ok(load(catalog, options).await?.selection_input(name)?);
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

/// The files of a catalog with a source of its own, as `serve` reads it.
async fn load(catalog: &CatalogConfig, options: &LoadOptions) -> anyhow::Result<Loaded> {
    let options = LoadOptions {
        platform: catalog.platform.clone(),
        folder: catalog.folder.clone(),
        ..options.clone()
    };
    Ok(ingest::load(&catalog.source, &options).await?)
}
