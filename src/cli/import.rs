//! `almanac import`: reads catalogs from an archive.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::json;

use crate::app;
use crate::cli::export::{ServeArguments, failure};
use crate::cli::format::Report;
use crate::cli::input::check_archive;
use crate::cli::{Failure, block_on, output, progress};
use crate::config::Environment;
use crate::ingest::archive::{self, ImportOutcome, Imported};
use crate::ingest::has_origin_of;

/// Import the catalogs of an archive that `almanac export` wrote
///
/// The whole archive is verified first; then all of its catalogs are imported, or
/// none. Each keeps its digests and dates, and its revision number if that is
/// free. almanac must not run on the data folder at the same time. With the
/// configuration of a fleet, its running replicas get the catalogs.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The archive
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Also replace catalogs that are newer here
    #[arg(long)]
    older: bool,

    /// The format of a report on standard output
    /// [default: notes on standard error]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Report>,

    #[command(flatten)]
    serve: ServeArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac import monday.tar
  almanac import --data-dir /var/lib/almanac tuesday.tar
  almanac serve --offline --config almanac.toml

Exit codes:
  0  imported
  1  the catalogs cannot be stored; nothing has changed
  2  invalid arguments or configuration
  3  the archive cannot be read or is refused; nothing has changed";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.serve.terminal.apply(environment);
        if self.file.as_os_str() == "-" {
            return Err(Failure::usage(anyhow!(
                "an archive is read more than once, so it cannot come on standard input: write it \
                 to a file first"
            )));
        }
        check_archive(&self.file)?;
        let written = self.serve.written(environment);
        let settings = written.settings().map_err(Failure::usage)?;
        if settings
            .fleet(environment)
            .map_err(Failure::usage)?
            .is_some()
        {
            let config = written.load().map_err(Failure::usage)?;
            let progress = progress::progress();
            let work = app::import_into_fleet(&config, &self.file, self.older, &progress);
            let work = progress::stop_on_signal(&progress, work);
            let imported = block_on(work)?.map_err(failure)?;
            return self.report(imported);
        }
        let data = settings.data_folder();
        let sources = settings.catalog_sources().map_err(Failure::usage)?;
        let limits = settings.limits.resolve();
        let progress = progress::progress();
        let work = archive::import(&self.file, &data, &limits, self.older, &progress);
        let imported = block_on(progress::stop_on_signal(&progress, work))?.map_err(failure)?;
        for catalog in &imported {
            let source = sources.get(&catalog.catalog);
            if source.is_none() && !sources.is_empty() {
                output::note(&format!(
                    "almanac: the configuration has no catalog {}, so it will not be served",
                    catalog.catalog
                ));
            }
            if let Some(source) = source.filter(|it| !has_origin_of(it, &catalog.identity)) {
                output::note(&format!(
                    "almanac: {} is of {} in the archive and of {source} in the configuration, so \
                     it will not be served: configure the same source on both sides",
                    catalog.catalog, catalog.identity.source
                ));
            }
        }
        self.report(imported)
    }

    fn report(self, imported: Vec<Imported>) -> Result<ExitCode, Failure> {
        let taken = |catalog: &Imported| catalog.outcome == ImportOutcome::Taken;
        if let Some(format) = self.output {
            let catalogs = imported.iter().map(|catalog| {
                json!({
                    "name": catalog.catalog.as_str(),
                    "revision": catalog.revision,
                    "there": catalog.there,
                    "imported": taken(catalog),
                    "gapAfter": catalog.gap,
                })
            });
            let catalogs = catalogs.collect::<Vec<_>>();
            return format.print(&json!({ "file": self.file, "catalogs": catalogs }));
        }
        if !imported.iter().any(taken) {
            output::note(&format!("nothing is new in {}", self.file.display()));
        }
        for catalog in imported {
            let done = if taken(&catalog) {
                "imported"
            } else {
                "already there:"
            };
            let mut line = format!(
                "{done} {} at revision {}",
                catalog.catalog, catalog.revision
            );
            if catalog.there != catalog.revision {
                let _ = write!(line, ", which was {} there", catalog.there);
            }
            output::note(&line);
            if let Some(gap) = catalog.gap {
                output::note(&format!(
                    "the history of {} has a gap: the archive goes on after revision {gap} of the \
                     other side, which is not known here; was an archive in between left out?",
                    catalog.catalog
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
