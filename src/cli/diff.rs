//! `almanac diff`: the changes from one catalog to another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;

use crate::answers::changes::{Change, Kind, changes, counts, markdown, summary, text};
use crate::answers::outline::Outline;
use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::input::{Catalog, PairArguments};
use crate::cli::output::Shown;
use crate::cli::{Failure, format, output};
use crate::config::Environment;
use ::images::digest::Digest;
use fbc::text::suggest;

/// Show the changes from one catalog to another
///
/// Packages, channels, heads, bundles, upgrade edges, deprecations and problems are
/// compared, not the order of documents. A bundle that has other content under
/// the same name is reported as replaced.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    catalogs: PairArguments,

    /// Only changes of this package
    #[arg(long, value_name = "PACKAGE", help_heading = NO_HEADING)]
    package: Option<String>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Sentences under the name of their package
    #[default]
    #[value(alias = "table")]
    Text,
    /// An object with counts and all changes
    Json,
    /// The same object as YAML
    Yaml,
    /// One line of JSON per change
    Jsonl,
    /// One changed package per line
    Name,
    /// Headings and lists, for release notes
    Markdown,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac diff quay.io/org/catalog:v4.20 quay.io/org/catalog:v4.21
  almanac diff http://127.0.0.1:8080/catalogs/community ./catalog --package etcd
  almanac diff ./before ./after --output markdown",
    "  0  no changes
  1  changes, or the output failed
  2  invalid arguments
  3  a catalog cannot be read or served"
);

#[derive(Serialize)]
struct Report<'a> {
    counts: &'a BTreeMap<Kind, usize>,
    changes: &'a [Change],
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let [from, to] = self.catalogs.load(environment)?;
        let (from, to) = (outline(&from)?, outline(&to)?);
        if let Some(package) = &self.package {
            let known = [&from, &to];
            if !known.iter().any(|outline| has(outline, package)) {
                let names = known.iter().flat_map(|outline| outline.packages.keys());
                let proposal = suggest::proposal_or_all(package, names.map(String::as_str));
                return Err(Failure::usage(anyhow!(
                    "there is no package {package:?} in either catalog{proposal}"
                )));
            }
        }
        let mut found = changes(&from, &to);
        found.retain(|one| self.package.as_ref().is_none_or(|it| *it == one.package));
        if found.is_empty() {
            output::note("almanac: no changes");
        }
        let counts = counts(&found);
        let report = Report {
            counts: &counts,
            changes: &found,
        };
        output::print(|out| match self.output {
            Output::Text if found.is_empty() => Ok(()),
            Output::Text => {
                write!(out, "{}", text(&found))?;
                writeln!(out, "\n{}", summary(&counts))
            }
            Output::Json => output::json(&report, out),
            Output::Yaml => format::yaml_of(&report, out),
            Output::Jsonl => found
                .iter()
                .try_for_each(|change| format::json_line(change, out)),
            Output::Name => {
                // Problems of the whole catalog belong to no package.
                let packages = found.iter().map(|change| change.package.as_str());
                let packages: BTreeSet<&str> = packages.filter(|name| !name.is_empty()).collect();
                let mut packages = packages.into_iter();
                packages.try_for_each(|package| writeln!(out, "{}", Shown(package)))
            }
            Output::Markdown => write!(out, "{}", markdown(&found)),
        })?;
        let code = u8::from(!found.is_empty());
        Ok(ExitCode::from(code))
    }
}

fn outline(catalog: &Catalog) -> Result<Outline, Failure> {
    let mut digests = HashMap::new();
    let reading = catalog.read(|number, meta, line| {
        if meta.schema() == "olm.bundle" {
            digests.insert(number, Digest::of(line));
        }
        Ok(())
    })?;
    let digest = |meta| digests.get(&meta).copied();
    let (graph, blobs) = (&reading.graph, &reading.blobs);
    Ok(Outline::of(graph, blobs, &reading.problems, digest))
}

fn has(outline: &Outline, package: &str) -> bool {
    outline.packages.contains_key(package) || outline.quarantined.contains(package)
}
