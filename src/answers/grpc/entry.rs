//! The part that a channel entry adds to its bundle's message.

use crate::answers::grpc::message::{put_edges, put_membership};
use fbc::graph::{Channel, Entry, Package};

/// Appends the part of an entry for `ListBundles`.
pub fn put_entry(out: &mut Vec<u8>, package: &Package, channel: &Channel, entry: &Entry) {
    put_entry_membership(out, package, channel, entry);
    put_edges(out, &entry.replaces, &entry.skips);
}

/// Appends the part of an entry for every other answer.
pub fn put_entry_membership(
    out: &mut Vec<u8>,
    package: &Package,
    channel: &Channel,
    entry: &Entry,
) {
    let deprecation = package.deprecated_bundles.get(&entry.bundle);
    put_membership(
        out,
        &channel.name,
        &entry.skip_range,
        deprecation.map(String::as_str),
    );
}
