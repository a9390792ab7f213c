//! Catalogs are followed: what the source holds is served, at the price of one
//! question a poll, and what went before is tidied away.

mod content;
mod polls;
mod revisions;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::image_of;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";

/// A catalog as it is served: its blobs, a line each.
fn text(catalog: &Catalog) -> String {
    catalog.text(Format::JsonLines)
}

/// An almanac that serves the package `first` from a registry.
fn serving_first() -> (Upstream, Almanac) {
    let upstream = Upstream::start();
    let image = image_of("first");
    upstream.push(REPOSITORY, "latest", &image);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_at("a", &image.digest());
    (upstream, almanac)
}
