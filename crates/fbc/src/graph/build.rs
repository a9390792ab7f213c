//! Builds the graph, package by package.

use crate::document::Blobs;
use crate::graph::bundle_channels::BundleChannels;
use crate::graph::group::{Group, groups};
use crate::graph::model::Graph;
use crate::graph::package;
use crate::graph::report::{About, Report};
use crate::problem::{Code, Problem};
use crate::text::display::more;

/// Builds the graph of a catalog and says what is wrong with it. `files` are
/// the paths of the catalog's files in their order.
///
/// Problems come package by package, sorted by name, those of blobs without a
/// package first. There are at most [`MAX_PROBLEMS_PER_PACKAGE`](crate::graph::MAX_PROBLEMS_PER_PACKAGE) of a package
/// and [`MAX_PROBLEMS`](crate::graph::MAX_PROBLEMS) in all, and then one that counts the rest.
pub fn build(blobs: &Blobs, files: &[String]) -> (Graph, Vec<Problem>) {
    let mut graph = Graph::default();
    let mut report = Report::new(files);
    for group in groups(blobs) {
        report.begin(group.name);
        let places = BundleChannels::of(blobs, &group);
        report_defects(&group, blobs, &places, &mut report);
        if group.name.is_empty() {
            report_nameless(&group, blobs, &mut report);
        } else if group.packages.is_empty() {
            // A document that cannot be read may be its blob.
            if !blobs.incomplete {
                report_unknown(&group, blobs, &places, &mut report);
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

/// Passes on what the blobs say wrongly by themselves.
fn report_defects(
    group: &Group<'_>,
    blobs: &Blobs,
    places: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    for located in group.packages.iter().map(|index| &blobs.packages[*index]) {
        report.defects(About::Package, located, &located.blob.defects);
    }
    for located in group.channels.iter().map(|index| &blobs.channels[*index]) {
        let about = About::Channel(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for located in group.bundles.iter().map(|index| &blobs.bundles[*index]) {
        let about = places.about(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for index in &group.deprecations {
        let located = &blobs.deprecations[*index];
        report.defects(About::Deprecations, located, &located.blob.defects);
    }
}

/// Reports the blobs that name no package, one by one: they have nothing
/// to do with each other.
fn report_nameless(group: &Group<'_>, blobs: &Blobs, report: &mut Report<'_>) {
    for index in &group.packages {
        let text = "has no name; give it one";
        let located = &blobs.packages[*index];
        report.error(Code::PackageNameMissing, About::Package, located, text);
    }
    let text = "names no package; set its \"package\"";
    for located in group.channels.iter().map(|index| &blobs.channels[*index]) {
        let about = About::Channel(&located.blob.name);
        report.error(Code::PackageUnknown, about, located, text);
    }
    for located in group.bundles.iter().map(|index| &blobs.bundles[*index]) {
        let about = About::Bundle("", &located.blob.name);
        report.error(Code::BundlePackageMissing, about, located, text);
    }
    for index in &group.deprecations {
        let located = &blobs.deprecations[*index];
        let text = "name no package; set their \"package\"";
        report.error(Code::DeprecationInvalid, About::Deprecations, located, text);
    }
}

/// Reports a package that is only named, once for all its blobs, at the
/// first channel, bundle or deprecation that names it, in this order.
fn report_unknown(
    group: &Group<'_>,
    blobs: &Blobs,
    places: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    let count = group.channels.len() + group.bundles.len() + group.deprecations.len();
    let channel = group.channels.first().map(|index| &blobs.channels[*index]);
    let bundle = group.bundles.first().map(|index| &blobs.bundles[*index]);
    let deprecations = group.deprecations.first();
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
