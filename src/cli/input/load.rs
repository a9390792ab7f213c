//! Loads catalogs from their locations, and selects from them.

use std::io;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::cli::input::location::{Input, STDIN, similar_path};
use crate::cli::input::notes::{note_all, note_errors};
use crate::cli::{Failure, output};
use crate::config::{UnreadDocument, check_as_one, image_set_source, read_image_set};
use crate::error_chain::error_chain;
use crate::fetch;
use crate::ingest::{self, LoadOptions, Loaded, Source, Spool};
use fbc::image_list::ImageList;
use fbc::select::{self, Request, Selected, Selection};

impl Input {
    /// Selects from the catalog. An `ImageSetConfiguration` selects from each of
    /// its catalogs separately, as mirroring tools do.
    pub(crate) async fn select(
        &self,
        options: &Options,
        request: &Request,
    ) -> Result<Vec<Selected>, Failure> {
        let unreadable = |error: anyhow::Error| self.unreadable(error);
        if let Self::Curated(path) = self {
            if request.is_whole() {
                let read = read_set(path, false, &options.load)
                    .await
                    .map_err(unreadable)?;
                return each(read, request.dependencies).map_err(Failure::run);
            }
            if request.dependencies {
                return Err(Failure::usage(anyhow!(
                    "{self} selects packages already, and --dependencies adds what these need; \
                     leave out --package and --heads, or write them into the file"
                )));
            }
        }
        let loaded = self.load(options).await.map_err(unreadable)?;
        let catalog = loaded.selection_input(&self.to_string());
        let catalog = catalog.map_err(|error| unreadable(error.into()))?;
        note_errors(&catalog);
        let selected = select::select(&[catalog], request).map_err(Failure::run)?;
        Ok(vec![selected])
    }

    /// The failure of a catalog that cannot be read, with a similar path if it is not
    /// there.
    pub(super) fn unreadable(&self, error: anyhow::Error) -> Failure {
        let path = match self {
            Self::Source(source) => source.path(),
            Self::Curated(path) => Some(&**path),
            Self::Configured(catalog) => catalog.plain_source().and_then(Source::path),
            Self::Stdin | Self::Server(_) => None,
        };
        let missing = path.filter(|path| !path.exists());
        let proposal = match missing {
            Some(path) => similar_path(path),
            None => self.url_without_scheme().unwrap_or_default(),
        };
        // Most errors begin with the name, and those of a server with its URL.
        let (name, text) = (self.to_string(), error_chain(error.as_ref()));
        let all = format!("{name}/api/v1/all: ");
        let shorter = text
            .replacen(&all, "", 1)
            .replacen(&format!("{name}: "), "", 1);
        let error = if shorter == text {
            error.context(format!("{self} cannot be read"))
        } else {
            anyhow!("{self} cannot be read: {shorter}")
        };
        if proposal.is_empty() {
            return Failure::unreadable(error);
        }
        let text = Failure::unreadable(error).to_string();
        Failure::unreadable(anyhow!("{text}{proposal}"))
    }

    pub(super) async fn load(&self, options: &Options) -> anyhow::Result<Loaded> {
        let limits = &options.load.limits;
        match self {
            Self::Source(source) => Ok(ingest::load(source, &options.load).await?),
            Self::Configured(catalog) => catalog.load(&options.load).await,
            Self::Curated(path) => {
                let selected = selected(path, &options.load).await?;
                Ok(Loaded::from_selection(&selected, limits)?)
            }
            Self::Server(url) => {
                let mut spool = Spool::new(url.all(), limits)?;
                url.fetch(&options.fetch, &mut spool).await?;
                Ok(spool.finish()?)
            }
            Self::Stdin => {
                let mut spool = Spool::new(STDIN, limits)?;
                if io::copy(&mut io::stdin().lock(), &mut spool)? == 0 {
                    return Err(anyhow!("it is empty"));
                }
                Ok(spool.finish()?)
            }
        }
    }
}

/// How to read catalogs.
pub(crate) struct Options {
    /// From registries and from disk.
    pub(crate) load: LoadOptions,
    /// From servers.
    pub(crate) fetch: fetch::Settings,
}

/// The catalogs of an `ImageSetConfiguration`, with the selection from each.
struct ReadSet {
    catalogs: Vec<select::Catalog>,
    selections: Vec<Selection>,
}

/// Reads the catalogs, `as_one` for a single catalog.
async fn read_set(path: &Path, as_one: bool, options: &LoadOptions) -> anyhow::Result<ReadSet> {
    let (mut catalogs, mut selections) = (Vec::new(), Vec::new());
    let set = read_image_set(path)?;
    if as_one {
        check_as_one(path, &set, 0..set.operators.len())?;
    }
    if let Some(unread) = UnreadDocument::new(path, &set) {
        output::note(&format!("almanac: {unread}"));
    }
    let sources = (0..set.operators.len()).map(|number| image_set_source(path, &set, number));
    let sources = sources.collect::<Result<Vec<Source>, _>>()?;
    for (source, operators) in sources.iter().zip(set.operators) {
        let loaded = ingest::load(source, options)
            .await
            .with_context(|| operators.catalog.clone())?;
        let catalog = loaded.selection_input(&operators.catalog)?;
        note_errors(&catalog);
        let mut selection = operators.selection;
        selection.from = vec![catalogs.len()];
        selections.push(selection);
        catalogs.push(catalog);
    }
    Ok(ReadSet {
        catalogs,
        selections,
    })
}

/// The selection from each catalog alone. Dependencies may come from any.
fn each(read: ReadSet, dependencies: bool) -> anyhow::Result<Vec<Selected>> {
    let mut catalogs = read.catalogs;
    let mut each = Vec::with_capacity(catalogs.len());
    for mut selection in read.selections {
        // The catalog precedes the others.
        selection.from = vec![0];
        let request = Request {
            selections: vec![selection],
            dependencies,
            any_default: false,
        };
        let own = catalogs.first().map(|catalog| catalog.name.clone());
        let known = if dependencies { catalogs.len() } else { 1 };
        let known = catalogs.get(..known).unwrap_or_default();
        let selected = select::select(known, &request);
        each.push(selected.with_context(|| own.unwrap_or_default())?);
        catalogs.rotate_left(1);
    }
    Ok(each)
}

/// The selection of an `ImageSetConfiguration` as a single catalog.
async fn selected(path: &Path, options: &LoadOptions) -> anyhow::Result<Selected> {
    let ReadSet {
        catalogs,
        selections,
    } = read_set(path, true, options).await?;
    let request = Request {
        selections,
        ..Request::default()
    };
    let selected = select::select(&catalogs, &request)?;
    note_all(&selected);
    Ok(selected)
}

/// The images of selections. Prints the notes for their authors.
pub(crate) fn image_list(selected: &[Selected]) -> ImageList {
    selected.iter().for_each(note_all);
    let list = ImageList::from_selections(selected);
    for refused in &list.refused {
        output::note(&format!("almanac: left out: {refused}"));
    }
    list
}
