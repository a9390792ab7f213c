//! `almanac check`: reads a catalog and prints what is wrong with it.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;

use super::{Failure, block_on, telemetry};
use crate::config::{Environment, LogSettings, RegistrySettings, Settings};
use crate::digest::Digest;
use crate::fbc::problem::Problem;
use crate::ingest::{self, CheckOptions, Report, Source};
use crate::oci::Platform;
use crate::store::Counts;
use crate::unpack::Limits;

/// What is logged beside the problems.
const LOG_FILTER: &str = "warn";
/// The exit code when there are problems.
const PROBLEMS: u8 = 1;

/// Read a catalog and print what is wrong with it
///
/// Nothing is served or kept. Each problem is one line with the file, the line
/// and the document it is in, what it means (a warning, an error for which the
/// package is left out, a fatal one for which the catalog cannot be served) and
/// a code that does not change.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// An image reference, `oci:FOLDER[:TAG]` or `file:PATH`
    source: Source,

    /// How problems are printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,

    /// Which image of a list is taken [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,

    #[command(flatten)]
    registries: RegistrySettings,

    #[command(flatten)]
    log: LogSettings,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// A line each, then a summary
    #[default]
    Text,
    /// One JSON object with source, digest, counts and problems
    Json,
}

const EXAMPLES: &str = "\
Examples:
  almanac check file:deploy/catalog
  almanac check quay.io/operatorhubio/catalog:latest --output json
  almanac check oci:layout:v4.20

Environment:
  ALMANAC_PLATFORM, ALMANAC_INSECURE, ALMANAC_AUTH_FILE, ALMANAC_CA_FILE,
  ALMANAC_LOG and ALMANAC_LOG_FORMAT stand for the options of that name.

Exit codes:
  0  no problems
  1  there are problems, be they only warnings
  2  the arguments cannot be used
  3  the catalog could not be read at all";

/// What `--output json` prints.
#[derive(Serialize)]
struct Document<'a> {
    source: String,
    digest: &'a Digest,
    counts: Counts,
    problems: &'a [Problem],
}

/// The last line of `--output text`.
struct Summary<'a>(&'a Report);

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let flags = Settings {
            platform: self.platform,
            registries: self.registries,
            log: self.log,
            ..Settings::default()
        };
        let settings = flags.over(environment.settings().map_err(Failure::usage)?);
        let log = settings.log.resolve(LOG_FILTER).map_err(Failure::usage)?;
        telemetry::start(&log, environment)?;
        let options = CheckOptions {
            platform: settings.platform.unwrap_or_default(),
            registries: settings.registries.resolve(environment),
            limits: Limits::default(),
        };
        let report = block_on(ingest::check(&self.source, &options))?
            .with_context(|| format!("{} cannot be read", self.source))
            .map_err(Failure::unreadable)?;
        let printed = match self.output {
            Output::Text => print_text(&report, io::stdout().lock()),
            Output::Json => print_json(&self.source, &report, io::stdout().lock()),
        };
        match printed {
            // Whoever reads has seen enough, as `head` has.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            printed => printed.context("cannot print").map_err(Failure::run)?,
        }
        Ok(match report.problems.as_slice() {
            [] => ExitCode::SUCCESS,
            _ => ExitCode::from(PROBLEMS),
        })
    }
}

fn print_text(report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(out, "{}", Summary(report))?;
    out.flush()
}

fn print_json(source: &Source, report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let document = Document {
        source: source.to_string(),
        digest: &report.digest,
        counts: report.counts,
        problems: &report.problems,
    };
    serde_json::to_writer_pretty(&mut out, &document)?;
    writeln!(out)?;
    out.flush()
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            counts, problems, ..
        } = self.0;
        if problems.is_empty() {
            let packages = count(counts.packages, "package");
            let channels = count(counts.channels, "channel");
            let bundles = count(counts.bundles, "bundle");
            let (entries, s) = (
                counts.entries,
                if counts.entries == 1 { "y" } else { "ies" },
            );
            return write!(
                f,
                "no problems: {packages}, {channels}, {entries} entr{s}, {bundles}"
            );
        }
        f.write_str(&count(problems.len() as u64, "problem"))?;
        let packages = problems
            .iter()
            .map(|problem| problem.subject.package.as_str());
        let packages: BTreeSet<_> = packages.filter(|package| !package.is_empty()).collect();
        if packages.is_empty() {
            return Ok(());
        }
        write!(f, " in {}", count(packages.len() as u64, "package"))
    }
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::problem::{Code, Place, Severity, Subject};

    fn problem(package: &str) -> Problem {
        Problem {
            code: Code::ChannelNoHead,
            severity: Severity::Error,
            subject: Subject {
                package: package.into(),
                ..Subject::default()
            },
            place: Some(Place {
                file: "a/catalog.yaml".into(),
                document: 2,
                line: 7,
            }),
            message: "has no head".into(),
        }
    }

    fn report(problems: Vec<Problem>) -> Report {
        Report {
            digest: Digest::of(b""),
            counts: Counts {
                packages: 2,
                channels: 1,
                entries: 4,
                bundles: 3,
                ..Counts::default()
            },
            problems,
        }
    }

    fn text(problems: Vec<Problem>) -> String {
        let mut out = Vec::new();
        print_text(&report(problems), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_problem_is_a_line_and_the_last_line_counts_them() {
        assert_eq!(
            text(Vec::new()),
            "no problems: 2 packages, 1 channel, 4 entries, 3 bundles\n"
        );
        let line = "a/catalog.yaml:7 (document 2): error[channel-no-head]: has no head\n";
        assert_eq!(
            text(vec![problem("a"), problem("a"), problem("b")]),
            format!("{line}{line}{line}3 problems in 2 packages\n")
        );
        assert_eq!(text(vec![problem("")]), format!("{line}1 problem\n"));
    }

    #[test]
    fn the_document_has_it_all() {
        let mut out = Vec::new();
        let source = "file:a".parse().unwrap();
        print_json(&source, &report(vec![problem("a")]), &mut out).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["source"], "file:a");
        assert_eq!(document["digest"], Digest::of(b"").to_string());
        assert_eq!(document["counts"]["entries"], 4);
        assert_eq!(document["problems"][0]["code"], "channel-no-head");
        assert_eq!(document["problems"][0]["line"], 7);
    }
}
