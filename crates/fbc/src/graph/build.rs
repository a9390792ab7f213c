//! Builds the graph, package by package.

use crate::document::Blobs;
use crate::graph::group::{Group, groups};
use crate::graph::lifecycle::Lifecycles;
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
    let lifecycles = Lifecycles::new(blobs);
    for group in groups(blobs) {
        report.begin(group.name);
        let memberships = BundleChannels::new(&group);
        report_defects(&group, &memberships, &mut report);
        if group.name.is_empty() {
            report_nameless(&group, &mut report);
        } else if group.packages.is_empty() {
            // A document that cannot be read may be its blob.
            if !blobs.incomplete {
                report_unknown(&group, &memberships, &mut report);
            }
            graph.quarantined.push(group.name.to_owned());
        } else {
            let package = package::check(&group, &memberships, &mut report);
            match package.filter(|_| !report.failed()) {
                Some(package) => graph.packages.push(package),
                None => graph.quarantined.push(group.name.to_owned()),
            }
        }
        lifecycles.check(group.name, &mut report);
        report.end();
    }
    (graph, report.into_problems())
}

/// Reports the defects of single blobs.
fn report_defects(group: &Group<'_>, memberships: &BundleChannels<'_>, report: &mut Report<'_>) {
    for located in group.packages() {
        report.defects(About::Package, located, &located.blob.defects);
    }
    for located in group.channels() {
        let about = About::Channel(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for located in group.bundles() {
        let about = memberships.about(&located.blob.name);
        report.defects(about, located, &located.blob.defects);
    }
    for located in group.deprecations() {
        report.defects(About::Deprecations, located, &located.blob.defects);
    }
}

/// Reports the blobs that name no package, one by one: they have nothing
/// to do with each other.
fn report_nameless(group: &Group<'_>, report: &mut Report<'_>) {
    for located in group.packages() {
        let text = "has no name; give it one";
        report.error(Code::PackageNameMissing, About::Package, located, text);
    }
    let text = "names no package; set its \"package\"";
    for located in group.channels() {
        let about = About::Channel(&located.blob.name);
        report.error(Code::PackageUnknown, about, located, text);
    }
    for located in group.bundles() {
        let about = About::Bundle("", &located.blob.name);
        report.error(Code::BundlePackageMissing, about, located, text);
    }
    for located in group.deprecations() {
        let text = "name no package; set their \"package\"";
        report.error(Code::DeprecationInvalid, About::Deprecations, located, text);
    }
}

/// Reports a package that is only named, once for all its blobs, at the
/// first channel, bundle or deprecation that names it, in this order.
fn report_unknown(group: &Group<'_>, memberships: &BundleChannels<'_>, report: &mut Report<'_>) {
    let count = group.channels.len() + group.bundles.len() + group.deprecations.len();
    let (about, position) = if let Some(channel) = group.channels().next() {
        (About::Channel(&channel.blob.name), report.position(channel))
    } else if let Some(bundle) = group.bundles().next() {
        (
            memberships.about(&bundle.blob.name),
            report.position(bundle),
        )
    } else if let Some(deprecations) = group.deprecations().next() {
        (About::Deprecations, report.position(deprecations))
    } else {
        return;
    };
    let (names, their) = match (count, about) {
        (1, About::Deprecations) => ("name".to_owned(), "their"),
        (1, _) => ("names".to_owned(), "its"),
        _ => (format!("and {} name", more(count - 1, "blob")), "their"),
    };
    let text = format!(
        "{names} a package that has no olm.package blob; add the blob or correct {their} \
         \"package\""
    );
    report.error_at(Code::PackageUnknown, about, position, &text);
}
