//! `almanac graph`: draws the upgrade graph of a package.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::ValueEnum;

use crate::answers::drawing::matrix::{Matrix, MatrixView};
use crate::answers::drawing::{Subject, mermaid, svg};
use crate::answers::rest::ordered::OrderedPackage;
use crate::answers::rest::plan::Rules;
use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::input::InputArguments;
use crate::cli::{Failure, output};
use crate::config::Environment;
use fbc::problem::Severity;
use fbc::text::display::shown;
use fbc::text::suggest;

/// The most errors that are printed; `almanac check` prints all.
const MAX_ERRORS: usize = 20;

/// Draw the upgrade graph of a package
///
/// Lines join a version and its upgrades: solid where an entry replaces another,
/// dotted where it skips it. Heads, deprecated bundles and names outside of the
/// channel are marked, and with `--rules v0` what OLM v0 never installs. A package
/// with errors is drawn too: additional heads, cycles and unreachable entries are
/// marked, and standard error lists the errors.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: InputArguments,

    /// The package to draw
    #[arg(help_heading = NO_HEADING)]
    package: String,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,

    /// Only this channel
    #[arg(long, value_name = "CHANNEL", help_heading = NO_HEADING)]
    channel: Option<String>,

    /// The rules of this version of OLM
    #[arg(long, value_enum, default_value_t, value_name = "RULES", help_heading = NO_HEADING)]
    rules: OlmRules,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OlmRules {
    /// Marks what OLM v0 never installs
    V0,
    /// Any edge of any channel
    #[default]
    V1,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// A flow chart for Mermaid, as Markdown pages show it
    #[default]
    Mermaid,
    /// An SVG document: a row for each version, a column for each channel
    Svg,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac graph file:deploy/catalog lantern-operator
  almanac graph file:deploy/catalog ferry-operator --output svg > ferry.svg
  almanac graph http://127.0.0.1:8080/catalogs/ours etcd --channel stable",
    "  0  drawn, possibly with errors
  1  unknown package or channel, or the output failed
  2  invalid arguments
  3  the catalog cannot be read or served"
);

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let catalog = self.input.load(environment)?;
        let reading = catalog.read(|_, _, _| Ok(()))?;
        let (blobs, name) = (&reading.blobs, self.package.as_str());
        let packages = (blobs.packages.iter().map(|one| &one.blob.name))
            .chain(blobs.channels.iter().map(|one| &one.blob.package))
            .chain(blobs.bundles.iter().map(|one| &one.blob.package));
        let packages: BTreeSet<&str> = packages.map(String::as_str).collect();
        if name.is_empty() || !packages.contains(name) {
            let names = packages.into_iter().filter(|name| !name.is_empty());
            return Err(Failure::no_package(name, names));
        }
        let package = OrderedPackage::of(blobs, &self.package);
        let package = package.ok_or_else(|| Failure::no_package(name, std::iter::empty()))?;
        let records = package.records(blobs);
        let mut drawn: Vec<_> = records.iter().collect();
        // The default channel comes first.
        drawn.sort_by_key(|channel| !channel.default);
        if let Some(wanted) = &self.channel {
            drawn.retain(|channel| channel.name == *wanted);
            if drawn.is_empty() {
                let names = records.iter().map(|channel| &*channel.name);
                let proposal = suggest::proposal_or_all(wanted, names);
                return Err(Failure::run(anyhow!(
                    "there is no channel {wanted:?} in the package {name:?}{proposal}"
                )));
            }
        }
        let errors = reading.problems.iter().filter(|problem| {
            problem.severity >= Severity::Error && problem.subject.package == shown(name)
        });
        for problem in errors.take(MAX_ERRORS) {
            output::note(&problem.to_string());
        }
        let rules = match self.rules {
            OlmRules::V0 => Rules::V0,
            OlmRules::V1 => Rules::V1,
        };
        let view = MatrixView {
            all: true,
            rules,
            ..MatrixView::default()
        };
        let matrix = Matrix::of(&drawn, view);
        let subject = Subject {
            package: name,
            deprecated: package.deprecation.is_some(),
        };
        let text = match self.output {
            Output::Mermaid => mermaid(subject, &matrix),
            Output::Svg => svg(subject, &matrix),
        };
        output::print(|out| out.write_all(text.as_bytes()))
    }
}
