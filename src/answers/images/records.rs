//! The record of a list of images.

use serde::Serialize;
use utoipa::ToSchema;

use fbc::image_list::{Image, ImageList, ImageVersion, Use};
use fbc::select::Reason;

/// The images of a selection, each once.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ImageList)]
pub struct ImageListRecord<'a> {
    /// The images, sorted by name.
    pub images: Vec<ImageRecord<'a>>,
    /// The number of images that are named by a digest.
    pub digests: usize,
    /// The number of images that are named by a tag, which may move.
    pub tags: usize,
    /// Texts that are not images, with the reasons.
    pub refused: &'a [String],
}

/// An image.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Image)]
pub struct ImageRecord<'a> {
    /// Its pull spec.
    pub image: String,
    /// What names it.
    pub kind: VersionKind,
    /// Its registry.
    pub registry: &'a str,
    /// Its repository in the registry.
    pub repository: &'a str,
    /// Its digest; absent for an image that a tag names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<&'a str>,
    /// Its tag; absent for an image that a digest names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<&'a str>,
    /// The bundles that need it.
    pub reasons: Vec<ImageReason<'a>>,
}

/// What names an image.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ImageKind)]
pub enum VersionKind {
    /// A digest.
    Digest,
    /// A tag.
    Tag,
}

/// A bundle that needs an image.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImageReason<'a> {
    /// The bundle's package.
    pub package: &'a str,
    /// The bundle.
    pub bundle: &'a str,
    /// Its version; empty if it has none.
    pub version: &'a str,
    /// The role of the image.
    pub role: ImageRole,
    /// The name that the bundle has for a related image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The channels that the bundle was selected for.
    pub channels: Vec<SelectedChannel<'a>>,
}

/// The role of an image for a bundle.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageRole {
    /// The image of the bundle itself.
    Bundle,
    /// A related image.
    RelatedImage,
}

/// A channel that a bundle was selected for.
#[derive(Debug, Serialize, ToSchema)]
pub struct SelectedChannel<'a> {
    /// The channel.
    pub channel: &'a str,
    /// Why the bundle was selected.
    pub reason: SelectionReason,
    /// The bundle that depends on this one; only for a dependency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<&'a str>,
    /// The dependency as it is written; only for a dependency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<&'a str>,
}

/// Why a bundle was selected.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SelectionReason {
    /// It is the head of the channel.
    Head,
    /// Its version is in the range.
    InRange,
    /// Updates go through it.
    OnTheWay,
    /// All versions are selected.
    Full,
    /// Another bundle depends on it.
    Dependency,
}

impl<'a> ImageListRecord<'a> {
    /// The record of a list.
    pub fn new(list: &'a ImageList) -> Self {
        let images: Vec<_> = list.images.iter().map(ImageRecord::new).collect();
        let digests = images.iter().filter(|image| image.digest.is_some()).count();
        Self {
            digests,
            tags: images.len() - digests,
            images,
            refused: &list.refused,
        }
    }
}

impl<'a> ImageRecord<'a> {
    /// The record of an image.
    pub fn new(image: &'a Image) -> Self {
        let (kind, digest, tag) = match &image.version {
            ImageVersion::Digest(digest) => (VersionKind::Digest, Some(digest.as_str()), None),
            ImageVersion::Tag(tag) => (VersionKind::Tag, None, Some(tag.as_str())),
        };
        Self {
            image: image.pull_spec(),
            kind,
            registry: &image.registry,
            repository: &image.repository,
            digest,
            tag,
            reasons: image.uses.iter().map(ImageReason::new).collect(),
        }
    }
}

impl<'a> ImageReason<'a> {
    fn new(one: &'a Use) -> Self {
        let channels = one.channels.iter();
        Self {
            package: &one.package,
            bundle: &one.bundle,
            version: &one.version,
            role: match one.related {
                Some(_) => ImageRole::RelatedImage,
                None => ImageRole::Bundle,
            },
            name: one.related.as_deref(),
            channels: channels
                .map(|(channel, reason)| SelectedChannel::new(channel, reason))
                .collect(),
        }
    }
}

impl<'a> SelectedChannel<'a> {
    fn new(channel: &'a str, reason: &'a Reason) -> Self {
        let (reason, dependency) = match reason {
            Reason::Head => (SelectionReason::Head, None),
            Reason::InRange => (SelectionReason::InRange, None),
            Reason::OnTheWay => (SelectionReason::OnTheWay, None),
            Reason::Full => (SelectionReason::Full, None),
            Reason::Dependency { of, requirement } => {
                (SelectionReason::Dependency, Some((of, requirement)))
            }
        };
        Self {
            channel,
            reason,
            of: dependency.map(|(of, _)| of.as_str()),
            requirement: dependency.map(|(_, requirement)| requirement.as_str()),
        }
    }
}
