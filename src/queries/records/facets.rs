//! Packages by facets.

use serde::Serialize;
use utoipa::ToSchema;

use crate::queries::record::records;

/// Packages by facets.
#[derive(Serialize, ToSchema)]
#[schema(as = Facets)]
pub(crate) struct FacetsRecord<'a> {
    pub(crate) total: usize,
    /// The names of the packages, each once, sorted.
    pub(crate) packages: Vec<&'a str>,
    pub(crate) facets: Vec<FacetRecord<'a>>,
}

/// A facet.
#[derive(Serialize, ToSchema)]
#[schema(as = Facet)]
pub(crate) struct FacetRecord<'a> {
    /// The name of the parameter.
    pub(crate) name: &'a str,
    pub(crate) values: Vec<ValueRecord<'a>>,
}

/// A value of a facet, and the number of packages that have it.
#[derive(Serialize, ToSchema)]
#[schema(as = FacetValue)]
pub(crate) struct ValueRecord<'a> {
    pub(crate) value: &'a str,
    #[schema(minimum = 1)]
    pub(crate) packages: usize,
}

records!(FacetsRecord<'_>);
