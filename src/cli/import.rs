//! `almanac import`: catalogs out of a file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::cli::export::failure;
use crate::cli::{Failure, block_on, output, progress};
use crate::config::{Environment, Settings};
use crate::ingest::archive::{self, ImportOutcome, Imported};

/// Take the catalogs of an archive that `almanac export` wrote
///
/// All of the archive is verified before anything changes, and then all of its
/// catalogs are taken or none. Each is served as it was where it came from:
/// with the same digests, dates and, where it is free, the same number. No
/// almanac may run on the data folder meanwhile.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The archive
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Take the archive also where a catalog is newer here already
    #[arg(long)]
    older: bool,

    /// Where revisions are kept; made when it is missing [default: as `serve`
    /// has it]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The configuration file that `serve` is given, to read the folder from
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  almanac import monday.tar
  almanac import --data-dir /var/lib/almanac tuesday.tar
  almanac serve --offline --config almanac.toml

Environment:
  ALMANAC_DATA_DIR and ALMANAC_CONFIG stand for the options of that name.

Exit codes:
  0  the catalogs are there
  1  they could not be stored; nothing was changed
  2  the arguments or the configuration cannot be used
  3  the archive could not be read or is refused; nothing was changed";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let flags = Settings {
            data_dir: self.data_dir,
            ..Settings::default()
        };
        if self.file.as_os_str() == "-" {
            return Err(Failure::usage(anyhow!(
                "an archive is read more than once, so it cannot come on standard input: write it \
                 to a file first"
            )));
        }
        let settings =
            Settings::gather(flags, self.config.as_deref(), environment).map_err(Failure::usage)?;
        let data = settings.data_folder();
        let limits = settings.limits.unwrap_or_default().resolve();
        let progress = progress::progress();
        let work = archive::import(&self.file, &data, &limits, self.older, &progress);
        let imported = block_on(progress::until_told(&progress, work))?.map_err(failure)?;
        let taken = |catalog: &Imported| catalog.outcome == ImportOutcome::Taken;
        if !imported.iter().any(taken) {
            output::note(&format!("nothing is new in {}", self.file.display()));
        }
        for catalog in imported {
            let done = match catalog.outcome {
                ImportOutcome::Taken => "imported",
                ImportOutcome::Unchanged => "already there:",
            };
            let mut line = format!(
                "{done} {} at revision {}",
                catalog.catalog, catalog.revision
            );
            if catalog.there != catalog.revision {
                let _ = write!(line, ", which was {} there", catalog.there);
            }
            output::note(&line);
        }
        Ok(ExitCode::SUCCESS)
    }
}
