//! The names of a package's bundles and channels.

use std::collections::HashMap;

use crate::document::Blobs;
use crate::graph::bundle_channels::BundleChannels;
use crate::graph::group::Group;
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
    pub(crate) fn of(
        blobs: &'a Blobs,
        group: &Group<'_>,
        places: &BundleChannels<'_>,
        report: &mut Report<'_>,
    ) -> Self {
        let mut names = Self {
            bundles: HashMap::with_capacity(group.bundles.len()),
            channels: HashMap::with_capacity(group.channels.len()),
            complete: !blobs.incomplete,
        };
        for index in &group.channels {
            let located = &blobs.channels[*index];
            let name = located.blob.name.as_str();
            if !name.is_empty() && *names.channels.entry(name).or_insert(*index) != *index {
                let text = "stands more than once; rename one of them or make them one";
                report.error(Code::ChannelDuplicate, About::Channel(name), located, text);
            }
        }
        for index in &group.bundles {
            let located = &blobs.bundles[*index];
            let name = located.blob.name.as_str();
            if !name.is_empty() && *names.bundles.entry(name).or_insert(*index) != *index {
                let text = "stands more than once; keep one of them";
                report.error(Code::BundleDuplicate, places.about(name), located, text);
            }
        }
        names
    }
}
