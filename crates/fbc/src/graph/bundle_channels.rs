//! The channels of a package, by bundle.

use std::collections::HashMap;

use crate::document::Blobs;
use crate::graph::group::{Group, is_malformed};
use crate::graph::report::About;

/// The channels that the bundles of a package are in.
pub(crate) struct BundleChannels<'a> {
    /// For each bundle the first channel, by name, that has an entry for it.
    channels: HashMap<&'a str, &'a str>,
    /// Whether these are all: no entry and no document was lost.
    complete: bool,
}

impl<'a> BundleChannels<'a> {
    pub(crate) fn of(blobs: &'a Blobs, group: &Group<'_>) -> Self {
        let mut channels = HashMap::new();
        let mut complete = !blobs.incomplete;
        for index in &group.channels {
            let blob = &blobs.channels[*index].blob;
            complete &= !is_malformed(&blob.defects);
            for entry in &blob.entries {
                let place = channels.entry(entry.name.as_str()).or_insert(&*blob.name);
                *place = (*place).min(&blob.name);
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
