//! The sizes of messages about bundles.

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds, Manifests};
use crate::answers::grpc::message::{field_length, put_entry, put_membership};
use fbc::graph::{Channel, Entry, Package};

/// The message size in bytes that stock gRPC clients refuse.
pub(super) const MAX_MESSAGE: u64 = 4 << 20;
/// Below this, the size of a message is not computed exactly.
const FAR_FROM_LIMIT: u64 = MAX_MESSAGE / 2;

/// How `ListBundles` shows the bundle of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listing {
    /// Completely.
    Whole,
    /// Without its manifests, since clients would refuse the message with them.
    WithoutManifests,
    /// Not at all, since clients would refuse even that message.
    Not,
}

impl Listing {
    /// The listing, and the size of the whole message in bytes, or a little less when
    /// it is far from the limit.
    pub(crate) fn measured(
        has_image: bool,
        message: &BundleMessage,
        package: &Package,
        channel: &Channel,
        entry: &Entry,
    ) -> (Self, u64) {
        let common = u64::from(message.common.length);
        let manifests = match &message.manifests {
            Manifests::Objects { .. } if !has_image => {
                manifests(&message.manifests, CsvEnds::default())
            }
            _ => 0,
        };
        let names: usize = entry.skips.iter().map(|skip| skip.len() + 6).sum();
        let names = (names + entry.replaces.len() + entry.skip_range.len()) as u64;
        let about = common + manifests + names;
        if about < FAR_FROM_LIMIT {
            return (Self::Whole, about);
        }
        let mut entry_part = Vec::new();
        put_entry(&mut entry_part, package, channel, entry);
        let rest = common + entry_part.len() as u64;
        let whole = rest + manifests;
        if whole < MAX_MESSAGE {
            (Self::Whole, whole)
        } else if rest < MAX_MESSAGE {
            (Self::WithoutManifests, whole)
        } else {
            (Self::Not, whole)
        }
    }
}

/// The size in bytes of the answer to `GetBundleForChannel`, or a little less
/// when it is far from the limit.
pub(super) fn answered(
    message: &BundleMessage,
    ends: CsvEnds,
    package: &Package,
    channel: &Channel,
    entry: &Entry,
) -> u64 {
    let about = u64::from(message.common.length) + manifests(&message.manifests, ends);
    if about + (entry.skip_range.len() as u64) < FAR_FROM_LIMIT {
        return about;
    }
    let mut membership = Vec::new();
    put_membership(&mut membership, package, channel, entry);
    about + membership.len() as u64
}

/// The size of `csvJson` and `object` as fields of a message, in bytes.
fn manifests(manifests: &Manifests, ends: CsvEnds) -> u64 {
    match manifests {
        Manifests::None => 0,
        Manifests::Made { parts, described } => {
            let end = ends.of(*described);
            let text = parts.length + u64::from(end.length);
            // It is `csvJson` and the only `object`.
            2 * field_length(text)
        }
        Manifests::Objects { objects, csv } => {
            u64::from(objects.length) + csv.map_or(0, |csv| field_length(u64::from(csv.length)))
        }
    }
}
