//! A package in every catalog that has it.

use axum::response::Response;

use crate::serve::http::queries::across::of_catalog;
use crate::serve::http::queries::packages::SUMMARY_OF_CATALOG;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::serve::http::queries::response::QueryResponse;

/// The package with its channels and heads, by catalog.
pub(in crate::serve::http::queries) async fn named(request: QueryRequest) -> Response {
    request
        .run_across(&LOOKUPS, &["limit", "continue", "fields"], |query| {
            let name = query.path("package");
            let page = query.parameters.page(query.content())?;
            let with = query.loaded().filter_map(|(catalog, snapshot)| {
                Some((catalog, snapshot, snapshot.package_answers(name)?))
            });
            let with: Vec<_> = with.collect();
            if with.is_empty() {
                let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
                return Err(Problem::unknown(
                    "package",
                    name,
                    names.map(|package| &*package.name),
                ));
            }
            let mut response = QueryResponse::list(page, with.len(), SUMMARY_OF_CATALOG, |at| {
                let (catalog, snapshot, package) = with[at];
                Ok(of_catalog(catalog, &snapshot.answer(package.summary)))
            })?;
            response.note(query.notes());
            Ok(response)
        })
        .await
}
