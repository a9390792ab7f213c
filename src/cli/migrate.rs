//! `almanac migrate`: prepares the database of a fleet.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::app;
use crate::cli::export::ServeArguments;
use crate::cli::{Failure, block_on, output};
use crate::config::Environment;
use crate::fleet::Migrated;

/// Prepare the database of a fleet, or bring it to this version
///
/// Makes the tables of almanac in the database of the configuration, or adds
/// what this version needs. Replicas of the version before go on meanwhile.
/// Run it once before the replicas of a new version start.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    serve: ServeArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac migrate --config /etc/almanac/almanac.toml

Exit codes:
  0  the database is of this version, or of a newer one that fits
  1  the database cannot be reached or changed
  2  invalid arguments or configuration";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.serve.terminal.apply(environment);
        let settings = self.serve.settings(environment)?;
        let fleet = settings.fleet(environment).map_err(Failure::usage)?;
        let fleet = fleet.ok_or_else(|| Failure::usage(anyhow!(app::NO_FLEET)))?;
        let (database, migrated) = block_on(app::migrate(fleet))?.map_err(Failure::run)?;
        let outcome = match migrated {
            Migrated::Made => "now has the tables of this version",
            Migrated::Changed => "now has this version",
            Migrated::Unchanged => "is ready: nothing was changed",
        };
        output::print(|out| writeln!(out, "{database} {outcome}"))
    }
}
