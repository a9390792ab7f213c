//! The graph of a catalog: packages, their channels, the entries of those and
//! the bundles behind them, built from blobs and checked with the rules of
//! `opm validate`, but with every finding of every package in one run. A
//! package with an error is left out of the graph and does not touch the
//! others.
//!
//! What a blob says wrongly by itself (a version, an image, a property) was
//! found when it was read and is only passed on here as a problem.

mod bundle;
mod chains;
mod channel;
mod deprecation;
mod manifests;
mod package;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use chains::{Chains, Survey};
pub use report::{MAX_PROBLEMS, MAX_PROBLEMS_PER_PACKAGE};

pub use crate::text::display::{more, quoted, shown};

use crate::document::{Blobs, Defect};
use crate::problem::{Code, Problem};
use bundle::Places;
use report::{About, Report};

/// What can be asked about a catalog: the packages that are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The packages without errors, sorted by name.
    pub packages: Vec<Package>,
    /// The names of the packages left out for their errors, sorted. Some may
    /// only be named by blobs and have no `olm.package`.
    pub quarantined: Vec<String>,
}

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name, a DNS label.
    pub name: String,
    /// Which meta of the catalog its `olm.package` blob is.
    pub meta: u32,
    /// Its `olm.package` blob, as an index in [`Blobs::packages`].
    pub blob: usize,
    /// Its default channel, as an index in `channels`.
    pub default_channel: usize,
    /// Its channels (one at least), sorted by name.
    pub channels: Vec<Channel>,
    /// Why it is deprecated, when it is.
    pub deprecation: Option<String>,
    /// Why bundles of it are deprecated, by their index in
    /// [`Blobs::bundles`].
    pub deprecated_bundles: BTreeMap<usize, String>,
}

/// A channel of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The entry that nothing replaces or skips, as an index in `entries`.
    pub head: usize,
    /// Its entries (one at least), sorted by name.
    pub entries: Vec<Entry>,
    /// Why it is deprecated, when it is.
    pub deprecation: Option<String>,
}

/// An entry of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is its bundle's.
    pub name: String,
    /// Its bundle, as an index in [`Blobs::bundles`].
    pub bundle: usize,
    /// The entry it replaces, which the channel may lack, or empty.
    pub replaces: String,
    /// The entries it skips, in the blob's order. The channel may lack them.
    pub skips: Vec<String>,
    /// The range of versions it skips, or empty.
    pub skip_range: String,
}

/// Builds the graph of a catalog and says what is wrong with it. `files` are
/// the paths of the catalog's files in their order.
///
/// Problems come package by package, sorted by name, those of blobs without a
/// package first. There are at most [`MAX_PROBLEMS_PER_PACKAGE`] of a package
/// and [`MAX_PROBLEMS`] in all, and then one that counts the rest.
pub fn build(blobs: &Blobs, files: &[String]) -> (Graph, Vec<Problem>) {
    let mut graph = Graph::default();
    let mut report = Report::new(files);
    for group in groups(blobs) {
        report.begin(group.name);
        let places = Places::of(blobs, &group);
        group.defects(blobs, &places, &mut report);
        if group.name.is_empty() {
            group.nameless(blobs, &mut report);
        } else if group.packages.is_empty() {
            // A document that cannot be read may be its blob.
            if !blobs.incomplete {
                group.unknown(blobs, &places, &mut report);
            }
            graph.quarantined.push(group.name.to_owned());
        } else {
            let package = package::check(blobs, &group, &places, &mut report);
            match package.filter(|_| !report.failed()) {
                Some(package) => graph.packages.push(package),
                None => graph.quarantined.push(group.name.to_owned()),
            }
        }
        report.end();
    }
    (graph, report.into_problems())
}

/// The blobs that name one package, as indices.
struct Group<'a> {
    name: &'a str,
    packages: Vec<usize>,
    channels: Vec<usize>,
    bundles: Vec<usize>,
    deprecations: Vec<usize>,
}

/// The groups of a catalog, sorted by name; first the one of the blobs that
/// name no package. Each is made when it is its turn: there may be as many
/// packages as blobs.
fn groups(blobs: &Blobs) -> impl Iterator<Item = Group<'_>> {
    let packages = blobs.packages.iter().map(|one| &one.blob.name);
    let channels = blobs.channels.iter().map(|one| &one.blob.package);
    let bundles = blobs.bundles.iter().map(|one| &one.blob.package);
    let deprecations = blobs.deprecations.iter().map(|one| &one.blob.package);
    let named = |kind: Kind| move |(index, name): (u32, _)| (name, kind, index);
    let packages = (0..).zip(packages).map(named(Kind::Package));
    let channels = (0..).zip(channels).map(named(Kind::Channel));
    let bundles = (0..).zip(bundles).map(named(Kind::Bundle));
    let deprecations = (0..).zip(deprecations).map(named(Kind::Deprecations));
    let all = packages.chain(channels).chain(bundles).chain(deprecations);
    let mut rest: Vec<(&String, Kind, u32)> = all.collect();
    rest.sort_unstable();
    let mut rest = rest.into_iter().peekable();
    std::iter::from_fn(move || {
        let (name, ..) = rest.peek()?;
        let mut group = Group {
            name,
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
        };
        while let Some((_, kind, index)) = rest.next_if(|(name, ..)| *name == group.name) {
            let indices = match kind {
                Kind::Package => &mut group.packages,
                Kind::Channel => &mut group.channels,
                Kind::Bundle => &mut group.bundles,
                Kind::Deprecations => &mut group.deprecations,
            };
            indices.push(index as usize);
        }
        Some(group)
    })
}

/// Whether a blob has a malformed field, and so has lost what stood there.
/// What is missing in it, or because of it, may be just that and is not told.
fn is_malformed(defects: &[Defect]) -> bool {
    defects
        .iter()
        .any(|defect| defect.code == Code::BlobMalformed)
}

/// The kinds of blobs that make up a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Package,
    Channel,
    Bundle,
    Deprecations,
}

impl Group<'_> {
    /// Passes on what the blobs say wrongly by themselves.
    fn defects(&self, blobs: &Blobs, places: &Places<'_>, report: &mut Report<'_>) {
        for located in self.packages.iter().map(|index| &blobs.packages[*index]) {
            report.defects(About::Package, located, &located.blob.defects);
        }
        for located in self.channels.iter().map(|index| &blobs.channels[*index]) {
            let about = About::Channel(&located.blob.name);
            report.defects(about, located, &located.blob.defects);
        }
        for located in self.bundles.iter().map(|index| &blobs.bundles[*index]) {
            let about = places.about(&located.blob.name);
            report.defects(about, located, &located.blob.defects);
        }
        for index in &self.deprecations {
            let located = &blobs.deprecations[*index];
            report.defects(About::Deprecations, located, &located.blob.defects);
        }
    }

    /// Reports the blobs that name no package, one by one: they have nothing
    /// to do with each other.
    fn nameless(&self, blobs: &Blobs, report: &mut Report<'_>) {
        for index in &self.packages {
            let text = "has no name; give it one";
            let located = &blobs.packages[*index];
            report.error(Code::PackageNameMissing, About::Package, located, text);
        }
        let text = "names no package; set its \"package\"";
        for located in self.channels.iter().map(|index| &blobs.channels[*index]) {
            let about = About::Channel(&located.blob.name);
            report.error(Code::PackageUnknown, about, located, text);
        }
        for located in self.bundles.iter().map(|index| &blobs.bundles[*index]) {
            let about = About::Bundle("", &located.blob.name);
            report.error(Code::BundlePackageMissing, about, located, text);
        }
        for index in &self.deprecations {
            let located = &blobs.deprecations[*index];
            let text = "name no package; set their \"package\"";
            report.error(Code::DeprecationInvalid, About::Deprecations, located, text);
        }
    }

    /// Reports a package that is only named, once for all its blobs, at the
    /// first channel, bundle or deprecation that names it, in this order.
    fn unknown(&self, blobs: &Blobs, places: &Places<'_>, report: &mut Report<'_>) {
        let count = self.channels.len() + self.bundles.len() + self.deprecations.len();
        let channel = self.channels.first().map(|index| &blobs.channels[*index]);
        let bundle = self.bundles.first().map(|index| &blobs.bundles[*index]);
        let deprecations = self.deprecations.first();
        let deprecations = deprecations.map(|index| &blobs.deprecations[*index]);
        let (about, place) = match (channel, bundle, deprecations) {
            (Some(channel), ..) => {
                let about = About::Channel(&channel.blob.name);
                (about, report.place(channel))
            }
            (_, Some(bundle), _) => (places.about(&bundle.blob.name), report.place(bundle)),
            (.., Some(deprecations)) => (About::Deprecations, report.place(deprecations)),
            (None, None, None) => return,
        };
        let text = match (count, about) {
            (1, About::Deprecations) => String::from(
                "name a package that has no olm.package blob; add the blob or correct their \
                 \"package\"",
            ),
            (1, _) => String::from(
                "names a package that has no olm.package blob; add the blob or correct its \
                 \"package\"",
            ),
            _ => format!(
                "and {} name a package that has no olm.package blob; add the blob or correct \
                 their \"package\"",
                more(count - 1, "blob")
            ),
        };
        report.error_at(Code::PackageUnknown, about, place, &text);
    }
}
