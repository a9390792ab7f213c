//! Bundles.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::queries::record::records;
use fbc::document::Gvk;
use fbc::presentation::{Permissions, Presentation, RelatedImage};

/// A bundle.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bundle<'a> {
    pub(crate) name: &'a str,
    pub(crate) package: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) release: &'a str,
    /// Its pull spec.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) image: &'a str,
    /// The channels that have it, by name.
    pub(crate) channels: Vec<Membership<'a>>,
    /// The reason of its deprecation; absent if it is not deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deprecation: Option<&'a str>,
    /// Whether the registry API omits its package for its errors.
    pub(crate) quarantined: bool,
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    pub(crate) provided_apis: &'a [Gvk],
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    pub(crate) required_apis: &'a [Gvk],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dependencies: Vec<Dependency<'a>>,
    #[serde(skip_serializing_if = "<[RelatedImage]>::is_empty")]
    pub(crate) related_images: &'a [RelatedImage],
    /// What the operator may do; absent where the catalog has no manifests of the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permissions: Option<Permissions>,
    /// Its presentation.
    pub(crate) metadata: Metadata<'a>,
}

/// The entry of the bundle in a channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BundleChannel)]
pub(crate) struct Membership<'a> {
    pub(crate) name: &'a str,
    pub(crate) head: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) replaces: &'a str,
    #[serde(skip_serializing_if = "<[Cow<'_, str>]>::is_empty")]
    pub(crate) skips: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) skip_range: &'a str,
}

/// A dependency of a bundle.
#[derive(Serialize, ToSchema)]
#[schema(as = BundleDependency)]
pub(crate) struct Dependency<'a> {
    /// `olm.package.required` or `olm.constraint`.
    pub(crate) r#type: &'a str,
    /// The value as it is written in the blob.
    #[schema(value_type = Value)]
    pub(crate) value: &'a RawValue,
}

/// The presentation of a bundle.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BundleMetadata)]
pub(crate) struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) summary: &'a str,
    #[serde(flatten)]
    pub(crate) presentation: &'a Presentation,
}

records!(Bundle<'_>);
