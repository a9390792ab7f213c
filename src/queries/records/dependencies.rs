//! Needs of packages, and the packages that need them.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::queries::record::records;
use fbc::document::Gvk;
use fbc::presentation::Permissions;

/// The dependencies of a version.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Dependencies)]
pub(crate) struct DependenciesRecord<'a> {
    pub(crate) package: &'a str,
    /// The bundle of the version; absent without a newest one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) bundle: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    pub(crate) needs: Vec<Need<'a>>,
    /// The number of needs beyond the first 500; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_needs: Option<usize>,
    /// By catalog, the packages whose newest version needs this package.
    pub(crate) needed_by: Vec<NeededBy<'a>>,
    /// The permissions of the operator; absent where the catalog has no manifests of the
    /// bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permissions: Option<Permissions>,
}

/// A need of a version.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum Need<'a> {
    /// Another package.
    Package {
        /// The needed package.
        package: String,
        /// The range of its versions, as it is written.
        range: String,
        /// Whether the range can be read. Nothing fits one that cannot.
        readable: bool,
        /// The catalogs that have the package.
        catalogs: Vec<Fitting<'a>>,
    },
    /// A kind.
    Api {
        /// The needed API.
        api: &'a Gvk,
        /// The catalogs with packages that provide it.
        catalogs: Vec<Providing<'a>>,
    },
    /// A constraint, as it is written.
    Constraint {
        /// The constraint.
        #[schema(value_type = Value)]
        value: &'a RawValue,
    },
}

/// What a catalog has of a needed package.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fitting<'a> {
    pub(crate) catalog: &'a str,
    /// The highest version that fits; absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Why no version fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

/// The packages of a catalog that provide a needed kind.
#[derive(Serialize, ToSchema)]
pub(crate) struct Providing<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) packages: Vec<&'a str>,
}

/// The packages of a catalog that need a package.
#[derive(Serialize, ToSchema)]
pub(crate) struct NeededBy<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) packages: Vec<Dependent<'a>>,
}

/// A package that needs another.
#[derive(Serialize, ToSchema)]
pub(crate) struct Dependent<'a> {
    /// The package.
    pub(crate) package: &'a str,
    /// The head of its default channel.
    pub(crate) bundle: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    /// The range of versions of the needed package, if it names the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<&'a str>,
    /// The needed APIs that the package provides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) apis: Vec<&'a Gvk>,
}

records!(DependenciesRecord<'_>, Dependent<'_>);
