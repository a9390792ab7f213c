//! The parts of packages and bundles, handed out while a document is read.
//!
//! A [`Visitor`] sees the checked parts of each package and bundle while they
//! still borrow from the text. Whoever turns a catalog into another format
//! implements it; `()` ignores everything.

use std::borrow::Cow;

use crate::csv::{CsvField, CsvMetadata};
use crate::document::Gvk;

/// Receives the parts of packages and bundles, in the order of the documents.
/// Ignores the parts whose method it does not define.
pub trait Visitor {
    /// Called once for each `olm.package` document that becomes a blob.
    fn package(&mut self, _: &PackageParts<'_>) {}

    /// Called once for each `olm.bundle` document that becomes a blob.
    fn bundle(&mut self, _: &BundleParts<'_>) {}
}

/// Ignores all parts.
impl Visitor for () {}

/// The parts of a package. Malformed fields are empty.
#[derive(Debug, Default)]
pub struct PackageParts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// Its icon.
    pub icon: Option<IconParts<'a>>,
}

/// The icon of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IconParts<'a> {
    /// The picture in base64, as the document has it.
    pub data: &'a str,
    /// Its media type.
    pub media_type: &'a str,
}

/// The parts of a bundle. Malformed fields are empty, and properties with
/// invalid values contribute nothing but their entry in `properties`.
#[derive(Debug, Default)]
pub struct BundleParts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its package.
    pub package: &'a str,
    /// Its image.
    pub image: &'a str,
    /// The text of its version (of the first `olm.package` property).
    pub version: &'a str,
    /// The APIs it provides, from `olm.gvk`.
    pub provides: &'a [Gvk],
    /// The APIs it requires, from `olm.gvk.required`.
    pub requires: &'a [Gvk],
    /// Its dependencies, in the order of its properties.
    pub dependencies: &'a [Dependency<'a>],
    /// All its properties.
    pub properties: &'a [Property<'a>],
    /// The source of its `ClusterServiceVersion`.
    pub manifests: ManifestParts<'a>,
}

/// A dependency of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// An API: the canonical value of an `olm.gvk.required` property.
    Api(&'a [u8]),
    /// A package, from `olm.package.required`.
    Package {
        /// The package.
        name: Cow<'a, str>,
        /// The range of versions.
        range: Cow<'a, str>,
    },
}

/// A property of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property<'a> {
    /// Its type.
    pub kind: Cow<'a, str>,
    /// Its value: canonical JSON.
    pub value: &'a [u8],
}

/// The property type that carries a manifest of the bundle.
pub const OBJECT_TYPE: &str = "olm.bundle.object";
/// The property type that carries the essence of a `ClusterServiceVersion`.
pub const CSV_METADATA_TYPE: &str = "olm.csv.metadata";
/// The property type of bundles that OLM v0 never installs. The tools of OLM v0 write
/// it; it is unrelated to `olm.deprecations`.
pub const DEPRECATED_TYPE: &str = "olm.deprecated";

/// The manifests of a bundle.
#[derive(Debug, Default)]
pub enum ManifestParts<'a> {
    /// There are none, or several `olm.csv.metadata` properties contradict
    /// each other.
    #[default]
    None,
    /// One `olm.csv.metadata` property, and no objects.
    Metadata {
        /// The property's value.
        metadata: &'a CsvMetadata<'a>,
        /// The bundle's related images, unless they are malformed.
        related_images: Option<CsvField<'a>>,
    },
    /// The manifests of `olm.bundle.object` properties.
    Objects {
        /// Their canonical JSON.
        objects: &'a [Vec<u8>],
        /// The index of the `ClusterServiceVersion` among them.
        csv: Option<usize>,
    },
}
