//! Providers of an API.

use std::collections::BTreeSet;

use serde::Serialize;
use utoipa::ToSchema;

use crate::queries::record::records;
use fbc::document::Gvk;

/// An entry of a channel that provides an API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provider<'a> {
    /// The catalog; present over several catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) catalog: Option<&'a str>,
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) bundle: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    /// Whether the bundle is the channel's head.
    pub(crate) head: bool,
    /// Whether the channel is its package's default.
    pub(crate) default_channel: bool,
    /// The reason of the bundle's deprecation; absent if it is not deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deprecation: Option<&'a str>,
    /// Whether the registry API omits the package for its errors.
    pub(crate) quarantined: bool,
    pub(crate) api: &'a Gvk,
}

/// A package with entries that provide an API.
#[derive(Serialize, ToSchema)]
pub(crate) struct PackageProvider<'a> {
    /// The catalog; present over several catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) catalog: Option<&'a str>,
    pub(crate) package: &'a str,
    /// The channels with providers, by name.
    pub(crate) channels: Vec<ChannelProvider<'a>>,
    /// How many entries provide it, in all channels.
    #[schema(minimum = 1)]
    pub(crate) entries: usize,
    /// Whether the registry API omits the package for its errors.
    pub(crate) quarantined: bool,
    /// The APIs among the requested ones.
    pub(crate) apis: BTreeSet<&'a Gvk>,
}

/// A channel with entries that provide an API.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChannelProvider<'a> {
    pub(crate) name: &'a str,
    /// Whether it is the package's default channel.
    pub(crate) default: bool,
    /// The first of them, which is nearest to the head.
    pub(crate) bundle: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    /// Whether that is the head.
    pub(crate) head: bool,
    /// How many entries provide the API.
    #[schema(minimum = 1)]
    pub(crate) entries: usize,
}

records!(Provider<'_>, PackageProvider<'_>);
