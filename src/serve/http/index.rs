//! The catalogs that a client may read, with their states and routes.

use axum::response::Response;

use crate::queries::records::catalogs::{CatalogRecord, IndexLinks};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, Content, FIELDS, LIMIT, Operation, QueryAnswer,
};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, json};
use crate::serve::http::api::response::{Notes, QueryResponse};

/// `/`.
pub(crate) static ROOT: Operation = Operation {
    id: "root",
    summary: "The list of catalogs, and a page for browsers",
    description: "The list of catalogs; for clients that accept text/html, a page with it.",
    parameters: &[LIMIT, CONTINUE, FIELDS],
    answer: Answer::Query(
        QueryAnswer::list::<CatalogRecord<'_>>("CatalogList", &["links"])
            .or(&[Content::Text("text/html")])
            .untagged(),
    ),
};

/// `/catalogs`.
pub(crate) static CATALOGS: Operation = Operation {
    id: "catalogs",
    summary: "The catalogs that the client may read",
    description: "The catalogs, by name, with their states and the paths of their routes. Restricted \
catalogs are listed for those who may read them, unavailable ones never. Clients \
that accept text/html get a page.",
    parameters: &[LIMIT, CONTINUE, FIELDS],
    answer: Answer::Query(
        QueryAnswer::list::<CatalogRecord<'_>>("CatalogList", &["links"])
            .or(&[Content::Text("text/html")])
            .undated(),
    ),
};

/// `/api/v1/catalogs`.
pub(crate) static CATALOGS_OF_ALL: Operation = Operation {
    id: "catalogsOfAll",
    summary: "The catalogs that the client may read",
    description: "As `/catalogs`, also for clients that accept text/html.",
    parameters: &[LIMIT, CONTINUE, FIELDS],
    answer: Answer::Query(
        QueryAnswer::list::<CatalogRecord<'_>>("CatalogList", &["links"]).undated(),
    ),
};

/// The index for programs. The links lead to the routes over all catalogs.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request
        .run_across(&LOOKUPS, &CATALOGS, |query| {
            let page = query.parameters.page(query.content())?;
            let catalogs = &query.catalogs;
            let mut response =
                QueryResponse::list::<CatalogRecord<'_>>(page, catalogs.len(), |at| {
                    let (catalog, snapshot) = &catalogs[at];
                    json(&CatalogRecord::new(catalog, snapshot.as_deref()))
                })?;
            response.note(Notes {
                links: Some(IndexLinks::default()),
                ..Notes::default()
            });
            Ok(response)
        })
        .await
}

/// `/catalogs/{catalog}`.
pub(crate) static CATALOG: Operation = Operation {
    id: "catalog",
    summary: "One catalog",
    description: "A catalog with its state and the paths of its routes.",
    parameters: &[FIELDS],
    answer: Answer::Query(QueryAnswer::object::<CatalogRecord<'_>>().undated()),
};

/// One catalog of the index.
pub(crate) async fn one(request: QueryRequest) -> Response {
    let wanted = request.catalog();
    request
        .run_across(&LOOKUPS, &CATALOG, move |query| {
            let name = wanted?;
            let found = query.catalogs.iter().find(|(one, _)| one.name == name);
            let (catalog, snapshot) = found.ok_or_else(|| query.unknown_catalog(name.as_str()))?;
            Ok(QueryResponse::object::<CatalogRecord<'_>>(json(
                &CatalogRecord::new(catalog, snapshot.as_deref()),
            )?))
        })
        .await
}
