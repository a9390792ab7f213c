//! The catalogs that a client may read, with their states and routes.

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use serde::Serialize;
use serde_json::json;

use crate::name::CatalogName;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, json as to_json};
use crate::serve::http::api::response::{Notes, QueryResponse};
use crate::snapshot::{Catalog, Catalogs, Snapshot, Stale, State as CatalogState};
use crate::store::Counts;

/// The fields of a catalog, in their order.
const FIELDS: &[&str] = &["name", "state", "stale", "revision", "counts", "links"];

/// The routes.
pub(super) fn routes() -> Router<Catalogs> {
    Router::new()
        .route("/", any(list))
        .route("/catalogs", any(list))
        // Browsers get a page from the two before.
        .route("/api/v1/catalogs", any(list))
        .route("/catalogs/{name}", any(one))
}

/// A catalog in the index.
#[derive(Serialize)]
struct CatalogRecord<'a> {
    name: &'a str,
    state: CatalogState,
    /// Why the last pass brought no content; absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<Stale>,
    /// The served revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<RevisionRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
    links: Links,
}

#[derive(Serialize)]
struct RevisionRecord {
    /// The digest of the source.
    digest: String,
    /// The digest of the content.
    content: String,
    /// When the content first appeared, in RFC 3339.
    modified: String,
}

/// The paths of the routes of a catalog.
#[derive(Serialize)]
struct Links {
    #[serde(rename = "self")]
    own: String,
    all: String,
    metas: String,
    graphql: String,
    packages: String,
    bundles: String,
    providers: String,
    updates: String,
    search: String,
    images: String,
    tags: String,
}

impl Links {
    fn of(name: &CatalogName) -> Self {
        let own = format!("/catalogs/{name}");
        let route = |route: &str| format!("{own}/api/v1/{route}");
        Self {
            all: route("all"),
            metas: route("metas"),
            graphql: route("graphql"),
            packages: route("packages"),
            // There is no list of all bundles.
            bundles: route("bundles/{bundle}"),
            providers: route("providers"),
            updates: route("updates"),
            search: route("search"),
            images: route("images"),
            tags: format!("/v2/{name}/tags/list"),
            own,
        }
    }
}

impl<'a> CatalogRecord<'a> {
    fn of(catalog: &'a Catalog, snapshot: Option<&Snapshot>) -> Self {
        let revision = snapshot.map(Snapshot::revision);
        Self {
            name: catalog.name.as_str(),
            // The snapshot may be a moment older than the state.
            state: snapshot.map_or_else(|| catalog.state(), |_| CatalogState::Serving),
            stale: catalog.stale(),
            revision: revision.map(|revision| RevisionRecord {
                digest: revision.digest.to_string(),
                content: revision.content.to_string(),
                modified: humantime::format_rfc3339_seconds(revision.modified).to_string(),
            }),
            counts: revision.map(|revision| revision.counts),
            links: Links::of(&catalog.name),
        }
    }
}

/// The index for programs. The links lead to the routes over all catalogs.
async fn list(request: QueryRequest) -> Response {
    request
        .run_across(&LOOKUPS, &["limit", "continue", "fields"], |query| {
            let page = query.parameters.page(query.content())?;
            let catalogs = &query.catalogs;
            let mut response = QueryResponse::list(page, catalogs.len(), FIELDS, |at| {
                let (catalog, snapshot) = &catalogs[at];
                to_json(&CatalogRecord::of(catalog, snapshot.as_deref()))
            })?;
            response.note(Notes {
                links: Some(json!({
                    "openapi": "/openapi.json",
                    "packages": "/api/v1/packages/{package}",
                    "providers": "/api/v1/providers",
                    "search": "/api/v1/search",
                })),
                ..Notes::default()
            });
            Ok(response)
        })
        .await
}

/// One catalog of the index.
async fn one(request: QueryRequest) -> Response {
    let wanted = request.catalog();
    request
        .run_across(&LOOKUPS, &["fields"], move |query| {
            let name = wanted?;
            let found = query.catalogs.iter().find(|(one, _)| one.name == name);
            let (catalog, snapshot) = found.ok_or_else(|| query.unknown_catalog(name.as_str()))?;
            Ok(QueryResponse::Object {
                json: to_json(&CatalogRecord::of(catalog, snapshot.as_deref()))?,
                fields: FIELDS,
            })
        })
        .await
}
