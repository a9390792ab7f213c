//! Packages of several catalogs.

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::rest::records::PackageSummary;
use crate::answers::rest::updates::Edge;
use crate::queries::record::records;

/// A package of a catalog.
#[derive(Serialize, ToSchema)]
pub(crate) struct PackageOfCatalog<'a> {
    /// Its catalog.
    #[schema(extensions(("x-flattened" = json!(true))))]
    pub(crate) catalog: &'a str,
    /// Its record in lists.
    #[serde(flatten)]
    pub(crate) package: PackageSummary<'a>,
}

/// A package of a catalog, in a list of its catalogs.
#[derive(Serialize, ToSchema)]
pub(crate) struct PackageInCatalog<'a> {
    /// Its catalog.
    #[schema(extensions(("x-flattened" = json!(true))))]
    pub(crate) catalog: &'a str,
    /// Its record in lists.
    #[serde(flatten)]
    pub(crate) package: PackageSummary<'a>,
    /// What the catalog has for the installed version; absent unless one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) installed: Option<InstalledIn>,
}

/// What a catalog has for an installed version.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = InstalledInCatalog)]
pub(crate) struct InstalledIn {
    /// Whether one of its entries is the version.
    pub(crate) here: bool,
    /// The highest version that an edge leads to at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<NextVersion>,
}

/// A bundle that follows an installed one.
#[derive(Clone, Serialize, ToSchema)]
pub(crate) struct NextVersion {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    /// How it follows.
    pub(crate) edges: Vec<Edge>,
}

records!(PackageOfCatalog<'_>, PackageInCatalog<'_>);
