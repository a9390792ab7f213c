//! Problems of catalogs, and the kinds that their packages provide.

use serde::Serialize;
use utoipa::ToSchema;

use crate::queries::record::records;
use fbc::problem::Problem;

/// A problem of a catalog.
#[derive(Serialize, ToSchema)]
#[schema(as = ProblemOfCatalog)]
pub(crate) struct ProblemRecord<'a> {
    pub(crate) catalog: &'a str,
    /// Whether the last pass refused the content with it; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(extensions(("x-flattened" = json!(true))))]
    pub(crate) refused: bool,
    #[serde(flatten)]
    pub(crate) problem: &'a Problem,
}

/// A kind that packages provide.
#[derive(Serialize, ToSchema)]
#[schema(as = Kind)]
pub(crate) struct KindRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
}

records!(ProblemRecord<'_>, KindRecord<'_>);
