//! Mirror plans and lists of images.

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::images::ImageRecord;
use crate::queries::record::records;

/// The images of a basket of packages.
#[derive(Serialize, ToSchema)]
#[schema(as = MirrorPlan)]
pub(crate) struct MirrorRecord<'a> {
    /// The packages with the selected bundles.
    pub(crate) packages: Vec<MirroredPackage<'a>>,
    /// The images, sorted by name.
    pub(crate) images: Vec<ImageRecord<'a>>,
    /// The number of images that are named by a digest.
    pub(crate) digests: usize,
    /// The number of images that are named by a tag, which may move.
    pub(crate) tags: usize,
    /// Bundles between the ends of ranges, which updates go through.
    pub(crate) kept: Vec<Kept<'a>>,
    /// Remarks on the selection.
    pub(crate) notes: Vec<&'a str>,
    /// Texts that are not images, with the reasons.
    pub(crate) refused: &'a [String],
}

/// A package with the selected bundles.
#[derive(Serialize, ToSchema)]
pub(crate) struct MirroredPackage<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) name: &'a str,
    pub(crate) bundles: Vec<MirroredBundle<'a>>,
}

/// A selected bundle.
#[derive(Serialize, ToSchema)]
pub(crate) struct MirroredBundle<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
}

/// A bundle between the ends of a range, which an update goes through.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = KeptBundle)]
pub(crate) struct Kept<'a> {
    pub(crate) package: &'a str,
    pub(crate) bundle: &'a str,
    pub(crate) version: &'a str,
}

records!(MirrorRecord<'_>);
