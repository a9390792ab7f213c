//! The part that a channel entry adds to its bundle's message.

use fbc::graph::{Channel, Entry, Package};
use fbc::message::{put_edges, put_membership};

/// Appends what an entry adds to its bundle's message in `ListBundles`.
pub fn put_entry(out: &mut Vec<u8>, package: &Package, channel: &Channel, entry: &Entry) {
    put_entry_membership(out, package, channel, entry);
    put_edges(out, &entry.replaces, &entry.skips);
}

/// Appends what an entry adds to its bundle's message in every answer.
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
