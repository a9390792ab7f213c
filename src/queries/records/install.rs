//! Objects that install a package.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::queries::record::records;

/// The objects that install a package.
#[derive(Serialize, ToSchema)]
#[schema(as = Installation)]
pub(crate) struct InstallRecord<'a> {
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    /// The bundle that is installed first.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) bundle: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    /// Whether `version` was given.
    pub(crate) pinned: bool,
    pub(crate) mode: &'a str,
    /// The modes that the version supports.
    pub(crate) modes: &'a [String],
    pub(crate) namespace: &'a str,
    /// Objects for OLM v0.
    #[schema(value_type = Vec<Object>)]
    pub(crate) v0: Vec<Value>,
    /// Objects for OLM v1, with a service account that may install. Releases before the middle
    /// of 2026 need it, and later ones ignore it.
    #[schema(value_type = Vec<Object>)]
    pub(crate) v1: Vec<Value>,
    /// Objects for releases of OLM v1 that need no account.
    #[serde(rename = "v1WithoutAccount")]
    #[schema(value_type = Vec<Object>)]
    pub(crate) v1_without_account: Vec<Value>,
    /// What to know before.
    pub(crate) warnings: &'a [Warning],
}

/// A warning before the installation. `v0LeavesOut`: OLM v0 does not see the package, since
/// errors leave it out of gRPC. `deprecated`: the channel or the version is deprecated.
/// `modeUnsupported`: OLM v0 does not install a version in a mode that it does not support.
/// `v1NeedsAllNamespaces`: OLM v1 needs the mode `AllNamespaces`. `v1RefusesDependencies`: OLM
/// v1 refuses dependencies. `v1AccountIsClusterAdmin`: `v1` binds its account to the role
/// `cluster-admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InstallWarning)]
pub(crate) enum Warning {
    /// OLM v0 does not see the package: it is left out of gRPC for its errors.
    V0LeavesOut,
    /// The channel or the version is deprecated.
    Deprecated,
    /// OLM v0 does not install a version in a mode that it does not support.
    ModeUnsupported,
    /// OLM v1 needs the mode `AllNamespaces`.
    V1NeedsAllNamespaces,
    /// OLM v1 refuses dependencies.
    V1RefusesDependencies,
    /// `v1` binds its account to the role `cluster-admin`.
    V1AccountIsClusterAdmin,
}

records!(InstallRecord<'_>);
