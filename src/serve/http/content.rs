//! `all` and `metas`: a whole catalog, or a selection of it.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::Method;

use crate::name::CatalogName;
use crate::serve::http::query::parse_query;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::http::respond::respond;
use crate::snapshot::{Catalogs, Query, Snapshot};

/// The route of a whole catalog.
pub(super) const ALL: &str = "/catalogs/{name}/api/v1/all";
/// The route of a selection of a catalog.
pub(super) const METAS: &str = "/catalogs/{name}/api/v1/metas";

/// The name in a path, if it is UTF-8.
pub(super) type Named = Result<Path<String>, PathRejection>;

pub(super) async fn all(
    State(catalogs): State<Catalogs>,
    name: Named,
    request: Request,
) -> Result<Response, HttpRejection> {
    let Path(name) = name.map_err(|_| HttpRejection::Path)?;
    check_method(request.method())?;
    let selection = find(&catalogs, &name)?.select(&Query::default());
    Ok(respond(&selection, &request, true))
}

pub(super) async fn metas(
    State(catalogs): State<Catalogs>,
    name: Named,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, HttpRejection> {
    let Path(name) = name.map_err(|_| HttpRejection::Path)?;
    check_method(request.method())?;
    let query = parse_query(query.as_deref().unwrap_or_default())?;
    let selection = find(&catalogs, &name)?.select(&query);
    Ok(respond(&selection, &request, false))
}

fn check_method(method: &Method) -> Result<(), HttpRejection> {
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(HttpRejection::Method("GET, HEAD")),
    }
}

/// The snapshot of a catalog by its name.
pub(super) fn find(catalogs: &Catalogs, name: &str) -> Result<Arc<Snapshot>, HttpRejection> {
    let name: CatalogName = name.parse().map_err(HttpRejection::Name)?;
    let catalog = catalogs
        .get(name.as_str())
        .filter(|catalog| !catalog.routing.withheld)
        .ok_or(HttpRejection::UnknownCatalog)?;
    catalog.snapshot().ok_or(HttpRejection::NotLoaded(name))
}
