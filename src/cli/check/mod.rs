//! `almanac check`: reads a catalog and prints its problems.

mod excerpt;
mod sarif;
mod text;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::input::InputArguments;
use crate::cli::output::Shown;
use crate::cli::{Failure, format, output, progress, terminal};
use crate::config::Environment;
use crate::store::Counts;
use ::images::digest::Digest;
use fbc::problem::{Problem, Severity};

/// The most problems that are printed as text without `--all`.
const MOST: usize = 100;
/// The exit code for errors, and with `--strict` for warnings.
const PROBLEMS: u8 = 1;

/// Read a catalog and print its problems
///
/// Nothing is served or stored. Each problem has a severity, a stable code, and a
/// place: the file, the line and the document. A warning may cause trouble later.
/// For an error, `opm` refuses the catalog, and `serve` leaves out the package.
/// For a fatal problem, `serve` keeps the last revision.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: InputArguments,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,

    /// All problems as text, instead of the first 100, errors before warnings
    #[arg(long, help_heading = NO_HEADING)]
    all: bool,

    /// Also fail for warnings
    #[arg(long, visible_alias = "deny-warnings", help_heading = NO_HEADING)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For humans: each problem with its line, then a summary
    #[default]
    #[value(alias = "table")]
    Text,
    /// One JSON object with source, digest, counts and problems
    Json,
    /// The same object as YAML
    Yaml,
    /// One line of JSON per problem
    Jsonl,
    /// The names of the packages with problems, one per line
    Name,
    /// A SARIF 2.1.0 log, for code scanning
    Sarif,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac check file:deploy/catalog
  almanac check quay.io/operatorhubio/catalog:latest --output json
  almanac check oci:layout:v4.20 --output sarif > catalog.sarif
  almanac check http://127.0.0.1:8080/catalogs/operatorhubio
  some-generator | almanac check -",
    "  0  no problems, or only warnings (without --strict)
  1  errors, or with --strict warnings
  2  invalid arguments
  3  the catalog cannot be read"
);

/// The document of `--output json` and `yaml`.
#[derive(Serialize)]
struct Document<'a> {
    source: String,
    digest: &'a Digest,
    counts: Counts,
    problems: &'a [Problem],
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let catalog = self.input.load(environment)?;
        let waiting = progress::Line::waiting("checking");
        let Ok(reading) = catalog.loaded.read(|_, _, _| Ok::<_, Infallible>(()));
        drop(waiting);
        let document = Document {
            source: catalog.input.to_string(),
            digest: &catalog.loaded.digest,
            counts: reading.counts,
            problems: &reading.problems,
        };
        let most = if self.all { usize::MAX } else { MOST };
        output::print(|out| match self.output {
            Output::Text => text::print(&catalog, &reading, most, terminal::colours_output(), out),
            Output::Json => output::json(&document, out),
            Output::Yaml => format::yaml_of(&document, out),
            Output::Jsonl => {
                let mut problems = reading.problems.iter();
                problems.try_for_each(|problem| format::json_line(problem, out))
            }
            Output::Name => {
                let packages = reading.problems.iter().map(|it| &*it.subject.package);
                let packages: BTreeSet<&str> = packages.filter(|name| !name.is_empty()).collect();
                let mut packages = packages.into_iter();
                packages.try_for_each(|name| writeln!(out, "{}", Shown(name)))
            }
            Output::Sarif => output::json(&sarif::log(&catalog.input, &reading.problems), out),
        })?;
        let least = if self.strict {
            Severity::Warning
        } else {
            Severity::Error
        };
        let fails = |problem: &Problem| problem.severity >= least;
        Ok(if reading.problems.iter().any(fails) {
            ExitCode::from(PROBLEMS)
        } else {
            ExitCode::SUCCESS
        })
    }
}
