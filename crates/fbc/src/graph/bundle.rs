//! The bundles of a package: whether each is named, pullable and in a channel,
//! and whether their versions tell them apart. What their properties say was
//! checked when they were read.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{BundleBlob, Located};
use crate::graph::group::{Group, is_malformed};
use crate::graph::names::BundleChannels;
use crate::graph::report::{About, Report};
use crate::problem::Code;
use crate::text::display::{list, quoted};
use crate::text::semver::check_release;

/// Checks the bundles of a package.
pub(crate) fn check(group: &Group<'_>, memberships: &BundleChannels<'_>, report: &mut Report<'_>) {
    // In the order of the text, so that the report does not hang on chance.
    let mut versions: BTreeMap<_, Vec<&Located<BundleBlob>>> = BTreeMap::new();
    for located in group.bundles() {
        let blob = &located.blob;
        let about = memberships.about(&blob.name);
        if blob.name.is_empty() {
            let text = "has no name; give it one";
            report.error(Code::BundleNameMissing, about, located, text);
        } else if memberships.lack(&blob.name) {
            let text = "is in no channel; add an entry for it or remove it";
            report.error(Code::BundleNotInChannel, about, located, text);
        }
        // A malformed blob has lost fields that it may have had.
        if is_malformed(&blob.defects) {
            continue;
        }
        if !blob.has_image && !blob.has_objects {
            let text = "has neither an image nor objects; set its \"image\"";
            report.error(Code::BundleImageMissing, about, located, text);
        }
        if blob.version.is_empty() || has_bad_version(blob) {
            continue;
        }
        if check_version(located, group.name, about, report) {
            let key = (blob.version.as_str(), blob.release.as_str());
            versions.entry(key).or_default().push(located);
        }
    }
    for ((version, release), bundles) in versions {
        check_distinct(version, release, &bundles, report);
    }
}

/// Whether the version was found to be bad when the bundle was read.
fn has_bad_version(blob: &BundleBlob) -> bool {
    (blob.defects.iter()).any(|defect| defect.code == Code::VersionInvalid)
}

/// Checks a version with its release; `false` when it has no use.
fn check_version(
    located: &Located<BundleBlob>,
    package: &str,
    about: About<'_>,
    report: &mut Report<'_>,
) -> bool {
    let blob = &located.blob;
    if blob.release.is_empty() {
        return true;
    }
    if let Err(error) = check_release(&blob.release) {
        let text = format!(
            "has a release {} that cannot be read: {error}; write it like \"1\" or \"2.beta\"",
            quoted(&blob.release)
        );
        report.error(Code::VersionInvalid, about, located, &text);
        return false;
    }
    if blob.version.contains('+') {
        let text = format!(
            "has a release, {}, and a build in its version {}; keep one of the two",
            quoted(&blob.release),
            quoted(&blob.version)
        );
        report.error(Code::VersionInvalid, about, located, &text);
    }
    let wanted = format!("{package}-v{}-{}", blob.version, blob.release);
    if !blob.name.is_empty() && blob.name != wanted {
        let text = format!(
            "does not have the name that its version and release ask for; name it {}",
            quoted(&wanted)
        );
        report.error(Code::ReleaseNameMismatch, about, located, &text);
    }
    true
}

/// Reports bundles of different names that have one version.
fn check_distinct(
    version: &str,
    release: &str,
    bundles: &[&Located<BundleBlob>],
    report: &mut Report<'_>,
) {
    let names: BTreeSet<&str> = bundles.iter().map(|one| one.blob.name.as_str()).collect();
    let [_, second, ..] = bundles else { return };
    if names.len() < 2 {
        return;
    }
    let release = match release {
        "" => String::new(),
        release => format!(" and release {}", quoted(release)),
    };
    let names: Vec<&str> = names.into_iter().collect();
    let text = format!(
        "has version {}{release} more than once, in the bundles {}; give each its own",
        quoted(version),
        list(&names)
    );
    report.error(Code::VersionDuplicate, About::Package, second, &text);
}
