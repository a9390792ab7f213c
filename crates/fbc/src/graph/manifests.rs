//! Problems that consoles and packageserver have with a package's manifests. They are
//! warnings: the package can be installed all the same.
//!
//! The OpenShift console shows, of OLM v1's catalogs, what stands in
//! `olm.csv.metadata`. OLM's packageserver asks for the head of each channel
//! and shows its `ClusterServiceVersion`, which is made of that property or is
//! among the bundle's objects.

use crate::document::{BundleBlob, CsvSource, Located, PackageBlob};
use crate::graph::group::Group;
use crate::graph::names::BundleChannels;
use crate::graph::report::{About, Report};
use crate::problem::Code;
use crate::text::display::{list, more, quoted};

/// Checks the manifests of a package's bundles. `heads` are its channels, by
/// name, each with the bundle of its head.
pub(crate) fn check(
    group: &Group<'_>,
    package: &Located<PackageBlob>,
    heads: &[(&str, &Located<BundleBlob>)],
    memberships: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    warn_of_invisible(group, package, heads, report);
    warn_of_crash(group, heads, memberships, report);
}

fn warn_of_invisible(
    group: &Group<'_>,
    package: &Located<PackageBlob>,
    heads: &[(&str, &Located<BundleBlob>)],
    report: &mut Report<'_>,
) {
    let bundles = || group.bundles().map(|located| &located.blob);
    let Some(first) = bundles().map(|blob| blob.name.as_str()).min() else {
        return;
    };
    // A damaged bundle may have lost the property.
    if bundles().any(is_damaged) {
        return;
    }
    let without_csv: Vec<&str> = (heads.iter())
        .filter(|(_, bundle)| bundle.blob.csv == CsvSource::None)
        .map(|(channel, _)| *channel)
        .collect();
    let text = if bundles().any(|blob| blob.has_csv_metadata) {
        if without_csv.is_empty() {
            return;
        }
        format!(
            "has channels that OLM's packageserver leaves out, since their heads have neither one \
             olm.csv.metadata property nor a ClusterServiceVersion among their objects: {}; add \
             the property to these heads",
            list(&without_csv)
        )
    } else {
        let bundles = match group.bundles.len() {
            1 => format!("its bundle {}", quoted(first)),
            count => format!("any of its {count} bundles, such as {}", quoted(first)),
        };
        let channels = match without_csv.as_slice() {
            [] => String::new(),
            _ => format!(
                ", and OLM's packageserver leaves out channels whose heads have no \
                 ClusterServiceVersion either: {}",
                list(&without_csv)
            ),
        };
        format!(
            "has no olm.csv.metadata property in {bundles}, so the OpenShift console does not show \
             it with OLM v1{channels}; add the property, to the newest bundle at least"
        )
    };
    let code = Code::BundleWithoutCsvMetadata;
    report.warning(code, About::Package, package, &text);
}

fn warn_of_crash(
    group: &Group<'_>,
    heads: &[(&str, &Located<BundleBlob>)],
    memberships: &BundleChannels<'_>,
    report: &mut Report<'_>,
) {
    let crashes = |located: &&Located<BundleBlob>| located.blob.crashes_packageserver;
    let Some(first) = group
        .bundles()
        .filter(crashes)
        .min_by_key(|one| &one.blob.name)
    else {
        return;
    };
    let head = heads.iter().find(|(_, head)| crashes(head));
    let (about, located, when) = if let Some((channel, head)) = head {
        (About::Bundle(channel, &head.blob.name), *head, "")
    } else {
        let about = memberships.about(&first.blob.name);
        (about, first, " when it is the head of a channel")
    };
    let others = match group.bundles().filter(crashes).count() - 1 {
        0 => String::new(),
        count => format!(", and in {} of the package", more(count, "bundle")),
    };
    let text = format!(
        "has a ClusterServiceVersion that crashes OLM's packageserver{when}, for it has related \
         images without the install strategy \"deployment\"; set spec.install.strategy{others}"
    );
    report.warning(Code::CsvCrashesPackageserver, about, located, &text);
}

fn is_damaged(blob: &BundleBlob) -> bool {
    blob.defects.iter().any(|defect| {
        matches!(
            defect.code,
            Code::BlobMalformed | Code::PropertyInvalid | Code::BundleObjectInvalid
        )
    })
}
