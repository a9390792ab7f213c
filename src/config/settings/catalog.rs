//! The settings of one catalog, as a flag or as a table of the file.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::config::declaration::{plain_setting, settings, typed};
use crate::config::settings::signing::SignedName;
use crate::config::template::{ImageTemplate, WrittenSource};
use crate::config::value::{Address, Authority, OnInvalidSetting, Poll};
use crate::ingest::{Mirror, SourceError, source_of_path};
use crate::name::{CatalogName, NameError};
use ::images::Platform;

settings! {
    /// A catalog.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct CatalogSettings {
        /// [Source](#sources); required without `image_template`, `from` and `image_set`.
        pub source: WrittenSource, example "file:catalog";
        /// [Template](#image-templates), preferred to `source`.
        pub image_template: Option<ImageTemplate>,
            example "quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}";
        /// Lowercase letters, digits, `-`, `.`.
        pub name: Option<CatalogName>, otherwise "last part of the source", example "catalog";
        /// Poll interval.
        pub poll: Option<Poll>, otherwise "top level", example "10m";
        /// Platform.
        pub platform: Option<Platform>, otherwise "top level", example "linux/amd64";
        /// Treatment of invalid packages.
        pub on_invalid: Option<OnInvalidSetting>, otherwise "top level", example "quarantine";
        /// Folders elsewhere that links of a `file:` source may lead to.
        pub link_folders: Vec<PathBuf>;
        /// `true`: read a `file:` source that changes all the time, possibly mixing two versions.
        pub read_changing: bool;
        /// `false`: followed, not served: 404, `NOT_FOUND`, `NOT_SERVING`.
        pub available: Option<bool> = true;
        /// gRPC hosts of this catalog, without port.
        pub authorities: Vec<Authority>, otherwise "none";
        /// Additional gRPC port for this catalog only.
        pub grpc: Option<Address>, example "0.0.0.0:50052";
        /// Files with bearer tokens for HTTP, one per line; `#` begins a comment. Empty a file to
        /// revoke all.
        pub token_files: Vec<PathBuf>;
        /// Client certificates allow HTTP reads; needs `client_ca` in `[http_tls]`.
        pub client_certificate: bool;
        /// Signed name of the slim image, `HOST/REPOSITORY`.
        pub signed_name: Option<SignedName>, otherwise "`name_prefix` of `[signing]`",
            example "registry.example.com/team/catalog";
        /// [Image to pull](../how-to/disconnected.md#pull-catalogs-as-images): `slim`, or `full`
        /// with every platform and signature.
        pub mirror: Option<Mirror> = Mirror::default();
        /// Sources of a [curated catalog](../how-to/curated-catalogs.md), by precedence.
        pub from: Vec<CatalogName>;
        /// Selection: `name`, `min_version`, `max_version`, `default_channel`, `channels`
        /// (`name`, versions); empty: all.
        pub packages: Vec<PackageSettings>;
        /// `ImageSetConfiguration` (v2) instead of `packages` and `full`.
        pub image_set: Option<PathBuf>, example "imageset-config.yaml";
        /// Curated: all versions instead of channel heads.
        pub full: bool;
        /// Curated: add dependencies.
        pub dependencies: bool;
    }
}

/// The selection from a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table, as in packages = [{ name = \"etcd\" }]"
)]
pub struct PackageSettings {
    /// Its name.
    pub name: String,
    /// Its new default channel; empty to keep its own.
    pub default_channel: String,
    /// The selected channels; empty for all.
    pub channels: Vec<ChannelSettings>,
    /// The lowest version.
    pub min_version: String,
    /// The highest version.
    pub max_version: String,
}

/// The selection from a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table, as in channels = [{ name = \"stable\" }]"
)]
pub struct ChannelSettings {
    /// Its name.
    pub name: String,
    /// The lowest version.
    pub min_version: String,
    /// The highest version.
    pub max_version: String,
}

plain_setting! {
    PackageSettings: { "type": "object" };
}
typed!(CatalogSettings);

/// A text that is not `[NAME=]SOURCE`.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The part before the `=`.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The part after it.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl FromStr for CatalogSettings {
    type Err = CatalogError;

    fn from_str(text: &str) -> Result<Self, CatalogError> {
        // A '=' after a '/' or ':' belongs to a path.
        let named = text
            .split_once('=')
            .filter(|(name, _)| !name.contains(['/', ':']));
        let (name, source) = match named {
            Some((name, source)) => (Some(name.parse()?), source),
            None => (None, text),
        };
        Ok(Self {
            name,
            source: source
                .parse()
                .map_err(|error| source_of_path(source, error))?,
            ..Self::default()
        })
    }
}
