//! The updates that a plan consists of.

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Edge, Installed};
use fbc::text::semver::Version;

/// The longest way.
pub(super) const MAX_STEPS: usize = 1_000;

/// An update, by the numbers of the channel and of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) channel: usize,
    pub(super) entry: usize,
    pub(super) edge: Edge,
}

/// The updates in order, and whether they reach their end.
pub(super) type Found = Option<(Vec<Move>, bool)>;

/// The installed bundle after an update to an entry.
pub(super) fn installed_as<'a>(entry: &'a EntryRecord<'a>) -> Installed<'a> {
    Installed {
        name: &entry.name,
        version: Version::parse(&entry.version).ok(),
    }
}

/// The versions of the entries of a channel.
pub(super) fn versions_of(channel: &ChannelRecord<'_>) -> Vec<Option<Version>> {
    let entries = channel.entries.iter();
    entries
        .map(|one| Version::parse(&one.version).ok())
        .collect()
}
