//! Builds the graph, package by package.

use crate::document::Blobs;
use crate::graph::group::{Group, groups, located};
use crate::graph::model::Graph;
use crate::graph::names::BundleChannels;
use crate::graph::package;
use crate::graph::report::{About, Report};
use crate::problem::{Code, Problem};
use crate::text::display::more;

/// Builds the graph of a catalog and finds its problems. `files` are
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
        let memberships = BundleChannels::of(blobs, &group);
        report_defects(&group, blobs, &memberships, &mut report);
        if group.name.is_empty() {
            report_nameless(&group, blobs, &mut report);
        } else if group.packages.is_empty() {
            // A document that cannot be read may be its blob.
            if !blobs.incomplete {
                report_unknown(&group, blobs, &memberships, &mut report);
            }
            graph.quarantined.push(group.name.to_owned());
        } else {
            let package = package::check(blobs, &group, &memberships, &mut report);
            match package.filter(|_| !report.failed()) {
                Some(package) => graph.packages.push(package),
                None => graph.quarantined.push(group.name.to_owned()),
            }
        }
        report.end();
    }
    (graph, report.into_problems())
}

/// Reports the defects of single blobs.
fn report_defects(
    group: &Group<'_>,
    blobs: &Blobs,
    memberships: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    for located in located(&blobs.packages, &group.packages) {
        report.defects(About::Package, located, &located.blob.defects);
    }
    for located in located(&blobs.channels, &group.channels) {
        let about = About::Channel(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for located in located(&blobs.bundles, &group.bundles) {
        let about = memberships.about(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for located in located(&blobs.deprecations, &group.deprecations) {
        report.defects(About::Deprecations, located, &located.blob.defects);
    }
}

/// Reports the blobs that name no package, one by one: they have nothing
/// to do with each other.
fn report_nameless(group: &Group<'_>, blobs: &Blobs, report: &mut Report<'_>) {
    for located in located(&blobs.packages, &group.packages) {
        let text = "has no name; give it one";
        report.error(Code::PackageNameMissing, About::Package, located, text);
    }
    let text = "names no package; set its \"package\"";
    for located in located(&blobs.channels, &group.channels) {
        let about = About::Channel(&located.blob.name);
        report.error(Code::PackageUnknown, about, located, text);
    }
    for located in located(&blobs.bundles, &group.bundles) {
        let about = About::Bundle("", &located.blob.name);
        report.error(Code::BundlePackageMissing, about, located, text);
    }
    for located in located(&blobs.deprecations, &group.deprecations) {
        let text = "name no package; set their \"package\"";
        report.error(Code::DeprecationInvalid, About::Deprecations, located, text);
    }
}

/// Reports a package that is only named, once for all its blobs, at the
/// first channel, bundle or deprecation that names it, in this order.
fn report_unknown(
    group: &Group<'_>,
    blobs: &Blobs,
    memberships: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    let count = group.channels.len() + group.bundles.len() + group.deprecations.len();
    let channel = located(&blobs.channels, &group.channels).next();
    let bundle = located(&blobs.bundles, &group.bundles).next();
    let deprecations = located(&blobs.deprecations, &group.deprecations).next();
    let (about, place) = match (channel, bundle, deprecations) {
        (Some(channel), ..) => (About::Channel(&channel.blob.name), report.place(channel)),
        (_, Some(bundle), _) => (memberships.about(&bundle.blob.name), report.place(bundle)),
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
