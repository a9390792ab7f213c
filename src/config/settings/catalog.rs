//! The settings of one catalog, as a flag or as a table of the file.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::config::settings::signing::SignedName;
use crate::config::template::{ImageTemplate, WrittenSource};
use crate::config::value::{Address, Authority, OnInvalidSetting, Poll};
use crate::ingest::{Mirror, SourceError, source_of_path};
use crate::name::{CatalogName, NameError};
use ::images::Platform;

/// A catalog.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct CatalogSettings {
    /// Its name; by default it comes from the source.
    pub name: Option<CatalogName>,
    /// Its source; absent for a curated catalog.
    pub source: WrittenSource,
    /// An image that replaces the source, with parts of the Kubernetes version.
    pub image_template: Option<ImageTemplate>,
    /// The catalogs to select from.
    pub from: Vec<CatalogName>,
    /// An `ImageSetConfiguration` with the selection.
    pub image_set: Option<PathBuf>,
    /// Whether all versions are selected, instead of only the channel heads.
    pub full: bool,
    /// Whether the dependencies of selected bundles are selected too.
    pub dependencies: bool,
    /// The selected packages.
    pub packages: Vec<PackageSettings>,
    /// The time between two checks of the source.
    pub poll: Option<Poll>,
    /// The platform of the image, for a source with several.
    pub platform: Option<Platform>,
    /// The treatment of invalid packages.
    pub on_invalid: Option<OnInvalidSetting>,
    /// Folders that links in a `file:` source may lead to.
    pub link_folders: Vec<PathBuf>,
    /// Whether a `file:` source that keeps changing is read anyway.
    pub read_changing: bool,
    /// The hosts under which clients reach it.
    pub authorities: Vec<Authority>,
    /// Whether it is visible to clients.
    pub available: Option<bool>,
    /// Its own gRPC port.
    pub grpc: Option<Address>,
    /// Files with bearer tokens that grant access over HTTP.
    pub token_files: Vec<PathBuf>,
    /// Whether a client certificate grants access over HTTP.
    pub client_certificate: bool,
    /// The images that clients can pull.
    pub mirror: Mirror,
    /// The name outside of almanac under which its image is signed.
    pub signed_name: Option<SignedName>,
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
