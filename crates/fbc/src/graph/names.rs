//! The names of a package's bundles and channels, and the channels of each bundle.

use std::collections::HashMap;

use crate::document::Located;
use crate::graph::group::{Group, is_malformed};
use crate::graph::report::{About, Report};
use crate::problem::Code;

/// The bundles and channels of a package, by name.
pub(crate) struct Names<'a> {
    /// The bundles by name: their index in the catalog's.
    pub(crate) bundles: HashMap<&'a str, usize>,
    /// The channels by name: their index in the catalog's.
    pub(crate) channels: HashMap<&'a str, usize>,
    /// Whether these are all: every document of the catalog could be read.
    pub(crate) complete: bool,
}

impl<'a> Names<'a> {
    /// Gathers the names of a package's bundles and channels, and reports those
    /// that stand twice.
    pub(crate) fn new(
        group: &Group<'a>,
        memberships: &BundleChannels<'_>,
        report: &mut Report<'_>,
    ) -> Self {
        let mut names = Self {
            bundles: HashMap::with_capacity(group.bundles.len()),
            channels: HashMap::with_capacity(group.channels.len()),
            complete: !group.blobs.incomplete,
        };
        for (index, located) in group.channels.iter().zip(group.channels()) {
            let name = located.blob.name.as_str();
            if !name.is_empty() && *names.channels.entry(name).or_insert(*index) != *index {
                let text = "stands more than once; rename one of them or make them one";
                report.error(Code::ChannelDuplicate, About::Channel(name), located, text);
            }
        }
        for (index, located) in group.bundles.iter().zip(group.bundles()) {
            let name = located.blob.name.as_str();
            if !name.is_empty() && *names.bundles.entry(name).or_insert(*index) != *index {
                let text = "stands more than once; keep one of them";
                let about = memberships.about(name);
                report.error(Code::BundleDuplicate, about, located, text);
            }
        }
        names
    }
}

/// The channels that the bundles of a package are in.
pub(crate) struct BundleChannels<'a> {
    /// For each bundle the first channel, by name, that has an entry for it.
    channels: HashMap<&'a str, &'a str>,
    /// Whether these are all: no entry and no document was lost.
    complete: bool,
}

impl<'a> BundleChannels<'a> {
    pub(crate) fn new(group: &Group<'a>) -> Self {
        let mut channels = HashMap::new();
        let mut complete = !group.blobs.incomplete;
        for Located { blob, .. } in group.channels() {
            complete &= !is_malformed(&blob.defects);
            for entry in &blob.entries {
                let first = channels.entry(entry.name.as_str()).or_insert(&*blob.name);
                *first = (*first).min(&blob.name);
                complete &= !entry.name.is_empty();
            }
        }
        Self { channels, complete }
    }

    /// The subject of a sentence about a bundle: a channel and its name. A defect of
    /// a bundle is reported once, not for each of its channels.
    pub(crate) fn about<'b>(&self, bundle: &'b str) -> About<'b>
    where
        'a: 'b,
    {
        let channel = self.channels.get(bundle).copied();
        About::Bundle(channel.unwrap_or(""), bundle)
    }

    /// Whether it is certain that no channel has the bundle.
    pub(crate) fn lack(&self, bundle: &str) -> bool {
        self.complete && !self.channels.contains_key(bundle)
    }
}
