//! The packages of a catalog whose newest version needs a package.

use axum::response::Response;

use crate::queries::dependents::dependents;
use crate::queries::records::dependencies::Dependent;
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, json};
use crate::serve::http::api::response::{HINTS, QueryResponse};

/// `/catalogs/{catalog}/api/v1/dependents`.
pub(crate) static DEPENDENTS: Operation = Operation {
    id: "dependents",
    summary: "Who needs a package",
    description: "The packages whose newest version (the head of the default channel) needs a package: \
by its name, or by an API that its own newest version provides.",
    parameters: &[
        Parameter::text("package", "The needed package.")
            .required()
            .example("ferry-operator"),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::list::<Dependent<'_>>("DependentList", HINTS)),
};

/// The packages that need a package.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request
        .run(&LOOKUPS, &DEPENDENTS, |query| {
            let snapshot = &query.snapshot;
            let page = query.parameters.page(Content::of(snapshot))?;
            let package = query.parameters.get("package").ok_or_else(|| {
                Problem::missing_parameter("package", "name the package that is needed")
            })?;
            let found = dependents(snapshot, query.package(package)?)?;
            QueryResponse::list::<Dependent<'_>>(page, found.len(), |at| json(&found[at]))
        })
        .await
}
