//! One package: its name, its default channel, and what its channels, bundles
//! and deprecations make together.

use std::collections::HashMap;

use crate::document::{BundleBlob, EntryBlob, Located};
use crate::graph::group::{Group, is_malformed};
use crate::graph::model::{Channel, Entry, Package};
use crate::graph::names::{BundleChannels, Names};
use crate::graph::report::{About, Report};
use crate::graph::{bundle, channel, deprecation, manifests};
use crate::problem::Code;
use crate::text::display::quoted;

/// The longest DNS label, in bytes.
const MAX_LABEL: usize = 63;

/// Checks the package of a group that has an `olm.package` blob. What it
/// returns is whole only when the report has no error.
pub(crate) fn check(
    group: &Group<'_>,
    memberships: &BundleChannels<'_>,
    report: &mut Report<'_>,
) -> Option<Package> {
    let blobs = group.blobs;
    let mut packages = group.packages();
    let located = packages.next()?;
    for other in packages {
        let text = "has more than one olm.package blob; keep one of them";
        report.error(Code::PackageDuplicate, About::Package, other, text);
    }
    if let Some(rule) = broken_rule(group.name) {
        let text = format!("has no valid name: it {rule}; rename the package");
        report.error(Code::PackageNameInvalid, About::Package, located, &text);
    }
    if group.channels.is_empty() && !blobs.incomplete {
        let text = "has no channel; add one";
        report.error(Code::PackageWithoutChannels, About::Package, located, text);
    }
    let names = Names::new(group, memberships, report);
    let default_channel = located.blob.default_channel.as_str();
    if default_channel.is_empty() {
        // A malformed blob may have lost it.
        if !is_malformed(&located.blob.defects) {
            let text = "has no default channel; set its \"defaultChannel\"";
            report.error(Code::DefaultChannelMissing, About::Package, located, text);
        }
    } else if names.complete && !names.channels.contains_key(default_channel) {
        let text = format!(
            "does not have the channel {} that is its default; add it or name another",
            quoted(default_channel)
        );
        report.error(Code::DefaultChannelUnknown, About::Package, located, &text);
    }
    let mut check = |index: usize| channel::check(&blobs.channels[index], &names, report);
    let heads = group.channels.iter().map(|index| (*index, check(*index)));
    let heads: HashMap<usize, Option<usize>> = heads.collect();
    bundle::check(group, memberships, report);
    let mut tops: Vec<(&str, &Located<BundleBlob>)> = (names.channels.iter())
        .filter_map(|(channel, index)| {
            let head = &blobs.channels[*index].blob.entries[(*heads.get(index)?)?];
            let bundle = names.bundles.get(head.name.as_str())?;
            Some((*channel, &blobs.bundles[*bundle]))
        })
        .collect();
    tops.sort_unstable_by_key(|(channel, _)| *channel);
    manifests::check(group, located, &tops, memberships, report);
    let deprecations = deprecation::check(group, &names, report);
    if report.failed() {
        return None;
    }
    let mut channels = Vec::with_capacity(names.channels.len());
    for (name, index) in &names.channels {
        let blob = &blobs.channels[*index].blob;
        let head = blob.entries.get((*heads.get(index)?)?)?;
        let entries = entries(&blob.entries, &names)?;
        channels.push(Channel {
            name: (*name).to_owned(),
            head: find(&entries, |entry| &entry.name, &head.name)?,
            entries,
            deprecation: deprecations
                .channels
                .get(name)
                .map(|text| String::from(*text)),
        });
    }
    channels.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Some(Package {
        name: group.name.to_owned(),
        meta: located.meta,
        blob: *group.packages.first()?,
        default_channel: find(&channels, |channel| &channel.name, default_channel)?,
        channels,
        deprecation: deprecations.package.map(ToOwned::to_owned),
        deprecated_bundles: deprecations.bundles,
    })
}

/// The entries of a channel, sorted; nothing when a bundle is missing.
fn entries(entries: &[EntryBlob], names: &Names<'_>) -> Option<Vec<Entry>> {
    let entries = entries.iter().map(|entry| {
        Some(Entry {
            name: entry.name.clone(),
            bundle: *names.bundles.get(entry.name.as_str())?,
            replaces: entry.replaces.clone(),
            skips: entry.skips.clone(),
            skip_range: entry.skip_range.clone(),
        })
    });
    let mut entries: Vec<Entry> = entries.collect::<Option<_>>()?;
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Some(entries)
}

fn find<T>(sorted: &[T], name_of: impl Fn(&T) -> &String, name: &str) -> Option<usize> {
    sorted
        .binary_search_by(|item| name_of(item).as_str().cmp(name))
        .ok()
}

/// The rule of DNS labels that a package's name breaks, if it breaks one.
fn broken_rule(name: &str) -> Option<&'static str> {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    if bytes.contains(&b'.') {
        Some("must not contain dots")
    } else if bytes.len() > MAX_LABEL {
        Some("must not be longer than 63 characters")
    } else if !bytes.iter().all(|byte| inner(byte) || *byte == b'-') {
        Some("must consist of lower-case letters, digits and '-'")
    } else if !bytes.first().is_some_and(inner) || !bytes.last().is_some_and(inner) {
        Some("must begin and end with a letter or a digit")
    } else {
        None
    }
}
