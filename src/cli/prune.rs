//! `almanac prune`: removes stored catalogs that are no longer configured.

use std::borrow::Cow;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use indicatif::BinaryBytes;
use serde::Serialize;

use crate::cli::export::ServeArguments;
use crate::cli::format::{Format, Row};
use crate::cli::{Failure, block_on, output};
use crate::config::Environment;
use crate::name::CatalogName;
use crate::store::{Footprint, Store, StoreError};
use fbc::text::suggest;

/// Remove stored catalogs that are no longer configured
///
/// Without --yes, it lists them and what would become free. With --yes, almanac
/// must not run on the data folder. Other catalogs stay as they are.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A stored catalog to remove; repeatable [default: all that the
    /// configuration lacks]
    #[arg(long, value_name = "NAME")]
    catalog: Vec<CatalogName>,

    /// Remove them, instead of listing them
    #[arg(long)]
    yes: bool,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    #[command(flatten)]
    serve: ServeArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac prune --config deploy/almanac.toml
  almanac prune --config deploy/almanac.toml --yes
  almanac prune --data-dir /var/lib/almanac --catalog old --yes

Exit codes:
  0  listed or removed
  1  the data folder cannot be read or written, or is in use
  2  invalid arguments or configuration";

/// A catalog, and the bytes that it takes.
#[derive(Serialize)]
struct Stored {
    name: String,
    /// Of the files of its revisions, and of blobs that no other catalog needs.
    bytes: u64,
    removed: bool,
}

impl Row for Stored {
    const COLUMNS: &'static [&'static str] = &["NAME", "SIZE", "RESULT"];

    fn cells(&self) -> Vec<Cow<'_, str>> {
        let result = if self.removed {
            "removed"
        } else {
            "would be removed"
        };
        let size = BinaryBytes(self.bytes).to_string();
        vec![self.name.as_str().into(), size.into(), result.into()]
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.as_str().into()
    }
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.serve.terminal.apply(environment);
        let settings = self.serve.settings(environment)?;
        let configured = settings.catalog_names().map_err(Failure::usage)?;
        if configured.is_empty() && self.catalog.is_empty() {
            return Err(Failure::usage(anyhow!(
                "no catalog is configured, so all stored catalogs would be removed: name the \
                 configuration by --config, or the catalogs by --catalog"
            )));
        }
        if let Some(name) = self.catalog.iter().find(|name| configured.contains(name)) {
            return Err(Failure::usage(anyhow!(
                "the catalog {name} is configured; remove it from the configuration first"
            )));
        }
        let folder = settings.data_folder();
        let shown = format!("data folder {}", folder.display());
        let opened = block_on(async {
            if self.yes {
                // Opening for writing would create one.
                if !folder.is_dir() {
                    return Ok(None);
                }
                Store::open(&folder).await.map(Some)
            } else {
                Store::open_beside(&folder).await
            }
        })?;
        let store = match opened {
            Ok(Some(store)) => store,
            Ok(None) => return Err(Failure::run(anyhow!("{shown}: nothing is stored there"))),
            Err(error @ StoreError::Locked { .. }) => return Err(Failure::run(error)),
            Err(error) => return Err(Failure::run(anyhow::Error::new(error).context(shown))),
        };
        let foreign = block_on(is_foreign(&store, &configured))??;
        if foreign && self.catalog.is_empty() {
            let said = format!(
                "no configured catalog is stored in {}; do the configuration and the data folder \
                 belong together?",
                folder.display()
            );
            if self.yes {
                return Err(Failure::usage(anyhow!(
                    "{said} Name the catalogs to remove by --catalog"
                )));
            }
            output::note(&format!("almanac: {said}"));
        }
        let catalogs = block_on(prune(&store, &self.catalog, &configured, self.yes))??;
        if catalogs.is_empty() {
            output::note("almanac: nothing to remove: all stored catalogs are configured");
        }
        let bytes: u64 = catalogs.iter().map(|one| one.bytes).sum();
        let code = self.output.print(&catalogs)?;
        if !catalogs.is_empty() {
            let size = BinaryBytes(bytes);
            output::note(&if self.yes {
                format!("freed: {size}")
            } else {
                format!("would be freed: {size}; --yes removes them")
            });
        }
        Ok(code)
    }
}

/// Whether the store has catalogs, and none that is configured.
async fn is_foreign(store: &Store, configured: &[CatalogName]) -> Result<bool, Failure> {
    let stored = store.catalogs().await.map_err(Failure::run)?;
    Ok(!stored.is_empty() && !stored.iter().any(|name| configured.contains(name)))
}

/// Finds the catalogs, and removes them if that is wanted.
async fn prune(
    store: &Store,
    named: &[CatalogName],
    configured: &[CatalogName],
    remove: bool,
) -> Result<Vec<Stored>, Failure> {
    let stored = store.catalogs().await.map_err(Failure::run)?;
    if let Some(unknown) = named.iter().find(|name| !stored.contains(name)) {
        let known = stored.iter().map(CatalogName::as_str);
        let proposal = suggest::proposal_or_all(unknown.as_str(), known);
        return Err(Failure::usage(anyhow!(
            "there is no stored catalog {unknown}{proposal}"
        )));
    }
    let mut chosen = stored;
    chosen.retain(|name| match named {
        [] => !configured.contains(name),
        named => named.contains(name),
    });
    let footprints = store.footprints(&chosen).await.map_err(Failure::run)?;
    let mut done = Vec::with_capacity(footprints.len());
    for Footprint {
        catalog,
        files,
        blobs,
    } in footprints
    {
        if remove {
            let removed = store.forget(&catalog).await;
            removed
                .with_context(|| format!("the catalog {catalog}"))
                .map_err(Failure::run)?;
        }
        done.push(Stored {
            name: catalog.to_string(),
            bytes: files + blobs,
            removed: remove,
        });
    }
    store.close().await;
    Ok(done)
}
