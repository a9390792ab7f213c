//! `almanac list`: lists the content of a catalog, as a table or as JSON.

mod table;

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::input::InputArguments;
use crate::cli::{Failure, output};
use crate::config::Environment;
use crate::ingest::Reading;
use fbc::details::Details;
use fbc::document::Blobs;
use fbc::graph::{Channel, Entry, Graph, Package};
use fbc::text::semver::Version;
use fbc::text::suggest;
use table::Table;

/// List the packages, channels or bundles of a catalog
///
/// The list has the packages without errors. The others are named on standard
/// error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The objects to list
    #[arg(value_enum)]
    what: What,

    #[command(flatten)]
    input: InputArguments,

    /// Only objects of this package
    package: Option<String>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Packages with their default channel
    Packages,
    /// Channels with their heads
    Channels,
    /// Bundles, each with its channel
    Bundles,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Columns for humans
    #[default]
    Table,
    /// An array of objects
    Json,
}

const EXAMPLES: &str = "\
Examples:
  almanac list packages quay.io/operatorhubio/catalog:latest
  almanac list channels http://127.0.0.1:8080/catalogs/operatorhubio etcd
  almanac list bundles file:deploy/catalog lantern-operator --output json

Environment:
  ALMANAC_PLATFORM, ALMANAC_INSECURE, ALMANAC_AUTH_FILE, ALMANAC_CA_FILE,
  ALMANAC_LOG and ALMANAC_LOG_FORMAT set the options of the same name.

Exit codes:
  0  listed
  1  unknown package, or the output failed
  2  invalid arguments
  3  the catalog cannot be read or served";

/// One line of a list.
trait Row: Serialize {
    const COLUMNS: &'static [&'static str];

    fn cells(&self) -> Vec<String>;
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageRow<'a> {
    name: &'a str,
    display_name: &'a str,
    default_channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
}

#[derive(Serialize)]
struct ChannelRow<'a> {
    name: &'a str,
    package: &'a str,
    head: &'a str,
    default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleRow<'a> {
    name: &'a str,
    package: &'a str,
    channel: &'a str,
    version: &'a str,
    replaces: &'a str,
    skips: &'a [String],
    skip_range: &'a str,
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let catalog = self.input.load(environment)?;
        let mut details = HashMap::new();
        let wants_details = matches!(self.what, What::Packages | What::Bundles);
        let reading = catalog.read(|number, meta, line| {
            let wanted = self.package.as_ref().is_none_or(|it| *it == meta.package());
            if wants_details && wanted && meta.schema() == "olm.bundle" {
                details.insert(number, Details::of(line));
            }
            Ok(())
        })?;
        let packages = match &self.package {
            None => &reading.graph.packages[..],
            Some(wanted) => std::slice::from_ref(package(&reading.graph, wanted)?),
        };
        output::print(|out| match self.what {
            What::Packages => self
                .output
                .print(&package_rows(packages, &reading, &details), out),
            What::Channels => self.output.print(&channel_rows(packages), out),
            What::Bundles => {
                let rows = bundle_rows(packages, &reading.blobs, &details);
                self.output.print(&rows, out)
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Output {
    fn print<R: Row>(self, rows: &[R], out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table => {
                let mut table = Table::new(R::COLUMNS);
                for row in rows {
                    table.add(&row.cells());
                }
                table.print(out)
            }
            Self::Json => {
                serde_json::to_writer_pretty(&mut *out, rows)?;
                writeln!(out)
            }
        }
    }
}

/// The package of that name, or a failure with the reason why it is missing.
fn package<'a>(graph: &'a Graph, wanted: &str) -> Result<&'a Package, Failure> {
    let found = graph
        .packages
        .binary_search_by(|package| package.name.as_str().cmp(wanted));
    if let Ok(at) = found {
        return Ok(&graph.packages[at]);
    }
    if graph.quarantined.iter().any(|name| name == wanted) {
        return Err(Failure::run(anyhow!(
            "the package {wanted:?} has errors; `almanac check` tells which"
        )));
    }
    let names = graph.packages.iter().map(|package| package.name.as_str());
    let proposal = suggest::proposal_or_all(wanted, names);
    Err(Failure::run(anyhow!(
        "there is no package {wanted:?}{proposal}"
    )))
}

fn package_rows<'a>(
    packages: &'a [Package],
    reading: &Reading,
    details: &'a HashMap<u32, Details>,
) -> Vec<PackageRow<'a>> {
    let row = |package: &'a Package| {
        let default = package.channels.get(package.default_channel);
        let head = default.and_then(|channel| channel.entries.get(channel.head));
        let head = head.and_then(|head| of_entry(head, &reading.blobs, details));
        PackageRow {
            name: &package.name,
            display_name: head.map_or("", |details| &details.display_name),
            default_channel: default.map_or("", |channel| &channel.name),
            deprecation: package.deprecation.as_deref(),
        }
    };
    packages.iter().map(row).collect()
}

fn channel_rows(packages: &[Package]) -> Vec<ChannelRow<'_>> {
    let rows = packages.iter().flat_map(|package| {
        let channels = package.channels.iter().enumerate();
        channels.map(move |(number, channel)| ChannelRow {
            name: &channel.name,
            package: &package.name,
            head: channel
                .entries
                .get(channel.head)
                .map_or("", |head| &head.name),
            default: number == package.default_channel,
            deprecation: channel.deprecation.as_deref(),
        })
    });
    rows.collect()
}

fn bundle_rows<'a>(
    packages: &'a [Package],
    blobs: &'a Blobs,
    details: &'a HashMap<u32, Details>,
) -> Vec<BundleRow<'a>> {
    let mut rows = Vec::new();
    for package in packages {
        for channel in &package.channels {
            for entry in by_version(channel, blobs) {
                let details = of_entry(entry, blobs, details);
                let bundle = blobs.bundles.get(entry.bundle);
                let deprecation = package.deprecated_bundles.get(&entry.bundle);
                rows.push(BundleRow {
                    name: &entry.name,
                    package: &package.name,
                    channel: &channel.name,
                    version: bundle.map_or("", |bundle| &bundle.blob.version),
                    replaces: &entry.replaces,
                    skips: &entry.skips,
                    skip_range: &entry.skip_range,
                    image: details.map_or("", |details| &details.image),
                    deprecation: deprecation.map(String::as_str),
                });
            }
        }
    }
    rows
}

/// The entries of a channel, the lowest version first.
fn by_version<'a>(channel: &'a Channel, blobs: &Blobs) -> Vec<&'a Entry> {
    let mut entries: Vec<_> = channel
        .entries
        .iter()
        .map(|entry| {
            let bundle = blobs.bundles.get(entry.bundle);
            let version = bundle.and_then(|bundle| Version::parse(&bundle.blob.version).ok());
            (version, entry)
        })
        .collect();
    // Those of one version stay sorted by name.
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn of_entry<'a>(
    entry: &Entry,
    blobs: &Blobs,
    details: &'a HashMap<u32, Details>,
) -> Option<&'a Details> {
    details.get(&blobs.bundles.get(entry.bundle)?.meta)
}

impl Row for PackageRow<'_> {
    const COLUMNS: &'static [&'static str] = &["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"];

    fn cells(&self) -> Vec<String> {
        [self.name, self.display_name, self.default_channel]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Row for ChannelRow<'_> {
    const COLUMNS: &'static [&'static str] = &["PACKAGE", "CHANNEL", "HEAD"];

    fn cells(&self) -> Vec<String> {
        [self.package, self.name, self.head]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Row for BundleRow<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "PACKAGE",
        "CHANNEL",
        "BUNDLE",
        "VERSION",
        "REPLACES",
        "SKIPS",
        "SKIP RANGE",
        "IMAGE",
    ];

    fn cells(&self) -> Vec<String> {
        [
            self.package,
            self.channel,
            self.name,
            self.version,
            self.replaces,
            &self.skips.join(","),
            self.skip_range,
            self.image,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}
