//! `almanac list`: lists the content of a catalog.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::format::{Format, Row};
use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::output::{Lines, Look};
use crate::cli::query::{QueryArguments, across};
use crate::cli::{Failure, output};
use crate::config::Environment;
use crate::ingest::Reading;
use fbc::document::{Blobs, CsvSource};
use fbc::graph::{Channel, Entry, Graph, Package};
use fbc::presentation::{Presentation, image};
use fbc::text::semver::Version;

/// List the packages, channels or bundles of a catalog, or the catalogs of a server
///
/// The list has the packages without errors. The others are named on standard
/// error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(
    override_usage = "almanac list [OPTIONS] <WHAT> <SOURCE> [PACKAGE]\n       \
    almanac list [OPTIONS] <WHAT> --server <URL> [PACKAGE]\n       \
    almanac list [OPTIONS] catalogs [--server <URL> | --config <FILE>]"
)]
pub(super) struct Arguments {
    /// The objects to list
    #[arg(value_enum)]
    what: What,

    /// The source: an image reference, `oci:FOLDER`, `oci-archive:FILE`,
    /// `docker-archive:FILE`, `file:PATH` (or a path that starts with `/` or `.`),
    /// the URL of a catalog, `-`, or `curated:FILE`. Then a package, for its
    /// objects only. With --server only a package
    #[arg(value_name = "SOURCE|PACKAGE", num_args = 0..=2)]
    words: Vec<String>,

    #[command(flatten)]
    pub(super) query: QueryArguments,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Format,

    /// Whether tables have the rows, columns and blanks of opm.
    #[arg(skip)]
    pub(super) as_opm: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Packages with their default channel
    Packages,
    /// Channels with their heads
    Channels,
    /// Bundles, each with its channel
    Bundles,
    /// The catalogs of a running almanac: that of --server, or else the one on this
    /// machine, at the HTTP address in --config
    Catalogs,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac list packages quay.io/operatorhubio/catalog:latest
  almanac list channels http://127.0.0.1:8080/catalogs/operatorhubio etcd
  almanac list bundles file:deploy/catalog lantern-operator --output wide
  almanac list catalogs --server http://127.0.0.1:8080
  almanac list catalogs --config deploy/almanac.toml
  almanac list channels --server http://127.0.0.1:8080 etcd",
    "  0  listed
  1  unknown package, or the output failed
  2  invalid arguments
  3  the catalog cannot be read or served"
);

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
        if let What::Catalogs = self.what {
            return self.catalogs(environment);
        }
        let (source, mut words) = self.query.divide(self.words);
        if words.len() > 1 {
            return Err(Failure::usage(anyhow!(
                "name one package: with --server there is no SOURCE"
            )));
        }
        let package = words.pop();
        if self.query.is_across()? {
            let package = package.ok_or_else(|| {
                Failure::usage(anyhow!(
                    "name a package to list it from all catalogs, or choose a catalog by --catalog"
                ))
            })?;
            let respondent = self.query.open(None, environment)?;
            return match self.what {
                What::Channels => across::channels(&respondent, &package, self.output),
                What::Packages => across::packages(&respondent, &package, self.output),
                What::Bundles | What::Catalogs => Err(Failure::usage(anyhow!(
                    "bundles can be listed from one catalog only: choose it by --catalog"
                ))),
            };
        }
        let catalog = self.query.input(source)?.load(environment)?;
        let mut texts = HashMap::new();
        let reading = catalog.read(|number, meta, line| {
            let wanted = package.as_ref().is_none_or(|it| *it == meta.package());
            if wanted && meta.schema() == "olm.bundle" {
                let text = match self.what {
                    What::Packages => Presentation::from_bundle(line, None).display_name,
                    What::Channels | What::Catalogs => return Ok(()),
                    What::Bundles => image(line),
                };
                texts.insert(number, text);
            }
            Ok(())
        })?;
        let packages = match &package {
            None => &reading.graph.packages[..],
            Some(wanted) => std::slice::from_ref(find_package(&reading.graph, wanted)?),
        };
        let (format, as_opm) = (self.output, self.as_opm);
        match self.what {
            What::Packages => {
                let mut rows: Vec<_> = package_rows(packages, &reading, &texts).collect();
                for (row, package) in rows.iter_mut().zip(packages) {
                    // opm takes display names from objects only.
                    if as_opm && !has_object(package, &reading.blobs) {
                        row.display_name = "";
                    }
                }
                print(format, &rows, as_opm)
            }
            What::Channels => print(format, &channel_rows(packages).collect::<Vec<_>>(), as_opm),
            // Listed above.
            What::Catalogs => Ok(ExitCode::SUCCESS),
            What::Bundles => {
                let mut rows: Vec<_> = bundle_rows(packages, &reading.blobs, &texts).collect();
                if as_opm {
                    rows.sort_by_key(|row| (row.package, row.channel, row.name));
                }
                print(format, &rows, as_opm)
            }
        }
    }
}

impl Arguments {
    /// Lists the catalogs of a server, which may be named without its flag.
    fn catalogs(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let query = match &self.words[..] {
            [] if self.query.asks_server() => self.query,
            [] => self.query.with_configured_server(environment)?,
            [url] if url.starts_with("http") && !self.query.asks_server() => {
                self.query.with_server(url.clone())
            }
            [word, ..] => {
                return Err(Failure::usage(anyhow!(
                    "{word:?} is not the URL of a running almanac; write \
                     `almanac list catalogs --server http://HOST:PORT`"
                )));
            }
        };
        let respondent = query.open(None, environment)?;
        across::catalogs(&respondent, self.output)
    }
}

/// Prints rows, for opm with its own columns and blanks.
fn print<R: Row>(format: Format, rows: &[R], as_opm: bool) -> Result<ExitCode, Failure> {
    if !as_opm || format != Format::Table {
        if rows.is_empty() {
            output::note("almanac: the catalog has no packages without errors");
        }
        return format.print(rows);
    }
    // opm has no such column.
    let versions = R::COLUMNS.iter().position(|title| *title == "VERSION");
    let titles: Vec<Cow<'_, str>> = R::COLUMNS.iter().copied().map(Cow::from).collect();
    let cells = iter::once(titles).chain(rows.iter().map(R::cells));
    let cells = cells.map(|mut cells| {
        if let Some(versions) = versions {
            cells.remove(versions);
        }
        cells
    });
    output::print(|out| output::table(cells, Lines::Filled, Look::default(), out))
}

/// The package of that name, or a failure with the reason why it is missing.
fn find_package<'a>(graph: &'a Graph, wanted: &str) -> Result<&'a Package, Failure> {
    let mut packages = graph.packages.iter();
    if let Some(package) = packages.find(|package| package.name == wanted) {
        return Ok(package);
    }
    if graph.quarantined.iter().any(|name| name == wanted) {
        return Err(Failure::run(anyhow!(
            "the package {wanted:?} has errors; `almanac check` lists them"
        )));
    }
    let names = graph.packages.iter().map(|package| package.name.as_str());
    Err(Failure::no_package(wanted, names))
}

fn package_rows<'a>(
    packages: &'a [Package],
    reading: &'a Reading,
    names: &'a HashMap<u32, String>,
) -> impl Iterator<Item = PackageRow<'a>> {
    packages.iter().map(|package| {
        let default = package.channels.get(package.default_channel);
        let head = default.and_then(|channel| channel.entries.get(channel.head));
        PackageRow {
            name: &package.name,
            display_name: head.map_or("", |head| of_entry(head, &reading.blobs, names)),
            default_channel: default.map_or("", |channel| &channel.name),
            deprecation: package.deprecation.as_deref(),
        }
    })
}

/// Whether the head of the default channel has its `ClusterServiceVersion` as an object.
fn has_object(package: &Package, blobs: &Blobs) -> bool {
    let default = package.channels.get(package.default_channel);
    let head = default.and_then(|channel| channel.entries.get(channel.head));
    let bundle = head.and_then(|head| blobs.bundles.get(head.bundle));
    bundle.is_some_and(|bundle| bundle.blob.csv == CsvSource::Object)
}

fn channel_rows(packages: &[Package]) -> impl Iterator<Item = ChannelRow<'_>> {
    packages.iter().flat_map(|package| {
        let channels = package.channels.iter().enumerate();
        channels.map(move |(number, channel)| {
            let head = channel.entries.get(channel.head);
            ChannelRow {
                name: &channel.name,
                package: &package.name,
                head: head.map_or("", |head| &head.name),
                default: number == package.default_channel,
                deprecation: channel.deprecation.as_deref(),
            }
        })
    })
}

fn bundle_rows<'a>(
    packages: &'a [Package],
    blobs: &'a Blobs,
    images: &'a HashMap<u32, String>,
) -> impl Iterator<Item = BundleRow<'a>> {
    let channels = packages.iter();
    let channels = channels.flat_map(|package| {
        package
            .channels
            .iter()
            .map(move |channel| (package, channel))
    });
    channels.flat_map(move |(package, channel)| {
        by_version(channel, blobs).into_iter().map(move |entry| {
            let bundle = blobs.bundles.get(entry.bundle);
            let deprecation = package.deprecated_bundles.get(&entry.bundle);
            BundleRow {
                name: &entry.name,
                package: &package.name,
                channel: &channel.name,
                version: bundle.map_or("", |bundle| &bundle.blob.version),
                replaces: &entry.replaces,
                skips: &entry.skips,
                skip_range: &entry.skip_range,
                image: of_entry(entry, blobs, images),
                deprecation: deprecation.map(String::as_str),
            }
        })
    })
}

/// The entries of a channel, the lowest version first.
fn by_version<'a>(channel: &'a Channel, blobs: &Blobs) -> Vec<&'a Entry> {
    let mut entries: Vec<&Entry> = channel.entries.iter().collect();
    // Those of one version stay sorted by name.
    entries.sort_by_cached_key(|entry| {
        let bundle = blobs.bundles.get(entry.bundle);
        bundle.and_then(|bundle| Version::parse(&bundle.blob.version).ok())
    });
    entries
}

/// The text of the bundle of an entry, by the number of its meta; empty without one.
fn of_entry<'a>(entry: &Entry, blobs: &Blobs, texts: &'a HashMap<u32, String>) -> &'a str {
    let bundle = blobs.bundles.get(entry.bundle);
    let text = bundle.and_then(|bundle| texts.get(&bundle.meta));
    text.map_or("", String::as_str)
}

impl Row for PackageRow<'_> {
    const COLUMNS: &'static [&'static str] = &["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"];

    fn cells(&self) -> Vec<Cow<'_, str>> {
        [self.name, self.display_name, self.default_channel]
            .map(Cow::from)
            .to_vec()
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }
}

impl Row for ChannelRow<'_> {
    const COLUMNS: &'static [&'static str] = &["PACKAGE", "CHANNEL", "HEAD"];

    fn cells(&self) -> Vec<Cow<'_, str>> {
        [self.package, self.name, self.head].map(Cow::from).to_vec()
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
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
    const WIDE: &'static [&'static str] = &["SKIPS", "SKIP RANGE", "IMAGE"];

    fn cells(&self) -> Vec<Cow<'_, str>> {
        vec![
            self.package.into(),
            self.channel.into(),
            self.name.into(),
            self.version.into(),
            self.replaces.into(),
            self.skips.join(",").into(),
            self.skip_range.into(),
            self.image.into(),
        ]
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }
}
