//! The blobs that OLM defines, as far as the graph needs them. A mistake within
//! one blob is kept beside it as a [`Defect`]; the graph finds mistakes between
//! blobs.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::problem::{Code, DocumentPosition};
use crate::text::json::typed::fields;

/// The schemas that OLM defines.
pub const OLM_SCHEMAS: [&str; 4] = [
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
];

/// Whether a schema is that of a template, from which opm makes a catalog. Templates are
/// no part of one.
pub fn is_template(schema: &str) -> bool {
    schema.starts_with("olm.template.") || matches!(schema, "olm.semver" | "olm.composite")
}

/// All blobs of a catalog, by kind, in catalog order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Blobs {
    /// `olm.package` blobs.
    pub packages: Vec<Located<PackageBlob>>,
    /// `olm.channel` blobs.
    pub channels: Vec<Located<ChannelBlob>>,
    /// `olm.bundle` blobs.
    pub bundles: Vec<Located<BundleBlob>>,
    /// `olm.deprecations` blobs.
    pub deprecations: Vec<Located<DeprecationsBlob>>,
    /// Lifecycles of packages; a package may be missing.
    pub lifecycles: Vec<Located<LifecycleBlob>>,
    /// Whether a document could not be read. It may have been any blob, so no
    /// blob can be reported as missing.
    pub incomplete: bool,
}

/// A blob and where it came from.
#[derive(Debug, Serialize, Deserialize)]
pub struct Located<T> {
    /// The blob.
    pub blob: T,
    /// Which meta of the catalog it is, from 0.
    pub meta: u32,
    /// The file, by its number in the catalog's order of files.
    pub file: u32,
    /// The document in the file, from 1.
    pub document: u32,
    /// The line on which the document starts, from 1.
    pub line: u32,
}

impl<T> Located<T> {
    /// The place for a problem.
    pub fn position(&self, files: &[String]) -> Option<DocumentPosition> {
        Some(DocumentPosition {
            file: files.get(self.file as usize)?.clone(),
            document: self.document,
            line: self.line,
            column: None,
        })
    }
}

/// Something wrong with one blob alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// Kind of the defect.
    pub code: Code,
    /// The rest of a sentence whose subject is the blob: it starts with a verb.
    pub message: Cow<'static, str>,
}

impl Defect {
    /// A defect with its message.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

/// An `olm.package` blob.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PackageBlob {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its `defaultChannel`; empty when it has none.
    pub default_channel: String,
    /// Malformed fields, a bad icon.
    pub defects: Vec<Defect>,
}

/// An `olm.channel` blob.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ChannelBlob {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its package; empty when it has none.
    pub package: String,
    /// Its entries in the blob's order.
    pub entries: Vec<EntryBlob>,
    /// Malformed fields.
    pub defects: Vec<Defect>,
}

/// An entry of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryBlob {
    /// The name of its bundle.
    pub name: String,
    /// The entry it replaces, or empty.
    pub replaces: String,
    /// The entries it skips.
    pub skips: Vec<String>,
    /// The range of versions it skips, or empty.
    pub skip_range: String,
}

fields!(EntryBlob {
    name = "name",
    replaces = "replaces",
    skips = "skips",
    skip_range = "skipRange",
});

/// An `olm.bundle` blob.
#[derive(Debug, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a blob"
)]
pub struct BundleBlob {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its package; empty when it has none.
    pub package: String,
    /// The text of its version (of the first `olm.package` property).
    pub version: String,
    /// Its release (of the first `olm.package` property), or empty.
    pub release: String,
    /// Whether it has an image.
    pub has_image: bool,
    /// Whether it has objects (`olm.bundle.object`).
    pub has_objects: bool,
    /// Whether it has `olm.csv.metadata`.
    pub has_csv_metadata: bool,
    /// The source of its `ClusterServiceVersion`.
    pub csv: CsvSource,
    /// Whether its `ClusterServiceVersion`, at the head of a channel, crashes
    /// OLM's packageserver.
    pub crashes_packageserver: bool,
    /// Whether OLM v0 never installs it (`olm.deprecated`).
    pub prohibited: bool,
    /// The APIs it provides, from `olm.gvk`.
    pub provides: Arc<[Gvk]>,
    /// Malformed fields, bad properties, bad images, a bad version.
    pub defects: Vec<Defect>,
}

/// The source of a bundle's `ClusterServiceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CsvSource {
    /// The bundle has none.
    #[default]
    None,
    /// Its only `olm.csv.metadata` property.
    Metadata,
    /// One of its objects (`olm.bundle.object`).
    Object,
}

/// A Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Api))]
pub struct Gvk {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

fields!(Gvk { group = "group", version = "version", kind = "kind" });

/// An `olm.deprecations` blob.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DeprecationsBlob {
    /// Its package; empty when it has none.
    pub package: String,
    /// Its deprecations.
    pub entries: Vec<DeprecationBlob>,
    /// Malformed fields.
    pub defects: Vec<Defect>,
}

/// A blob with the support phases of a package.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LifecycleBlob {
    /// Its package.
    pub package: String,
    /// Contradictions of its schema.
    pub defects: Vec<Defect>,
}

/// One deprecation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeprecationBlob {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// The channel or bundle; empty for the package.
    pub name: String,
    /// The message for users.
    pub message: String,
}
