//! The packages of a catalog whose newest version needs a package.

use std::collections::HashSet;

use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::answers::index::PackageAnswers;
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, json};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::Snapshot;
use fbc::document::Gvk;

/// The fields of an item, in their order.
const FIELDS: &[&str] = &["package", "bundle", "version", "range", "apis"];

/// A package that needs another.
#[derive(Serialize)]
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Stored {
    provided_apis: HashSet<Gvk>,
}

/// The packages of a catalog that need a package, by name or by an API that the head of
/// its default channel provides.
pub(crate) fn dependents<'a>(
    snapshot: &'a Snapshot,
    package: &PackageAnswers,
) -> Vec<Dependent<'a>> {
    let stored = snapshot.answer(package.details);
    let stored: Stored = serde_json::from_slice(&stored).unwrap_or_default();
    let provides = |api: &Gvk| stored.provided_apis.contains(api);
    let needs = snapshot.needs().iter();
    let others = needs.filter(|needs| needs.package != package.name);
    let found = others.filter_map(|needs| {
        let mut named = needs.packages.iter();
        let range = named.find(|(name, _)| **name == *package.name);
        let apis: Vec<&Gvk> = needs.apis.iter().filter(|api| provides(api)).collect();
        (range.is_some() || !apis.is_empty()).then_some(Dependent {
            package: &needs.package,
            bundle: &needs.bundle,
            version: &needs.version,
            range: range.map(|(_, range)| range.as_str()),
            apis,
        })
    });
    found.collect()
}

/// The packages that need a package.
pub(super) async fn list(request: QueryRequest) -> Response {
    request
        .run(
            &LOOKUPS,
            &["package", "limit", "continue", "fields"],
            |query| {
                let snapshot = &query.snapshot;
                let page = query.parameters.page(Content::of(snapshot))?;
                let package = query.parameters.get("package").ok_or_else(|| {
                    Problem::missing_parameter("package", "name the package that is needed")
                })?;
                let found = dependents(snapshot, query.package(package)?);
                QueryResponse::list(page, found.len(), FIELDS, |at| json(&found[at]))
            },
        )
        .await
}
