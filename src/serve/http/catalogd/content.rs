//! `all` and `metas`: a whole catalog, or a selection of it.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};

use crate::name::CatalogName;
use crate::serve::access::Reader;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::catalogd::hint;
use crate::serve::http::query::parse_query;
use crate::serve::http::rejection::HttpRejection;
use crate::serve::http::respond::respond;
use crate::snapshot::{Catalogs, Comparing, Query, Selection, Snapshot};
use crate::store::damaged_uses;

/// The route of a whole catalog.
pub(crate) const ALL: &str = "/catalogs/{name}/api/v1/all";
/// The route of a selection of a catalog.
pub(crate) const METAS: &str = "/catalogs/{name}/api/v1/metas";

/// The name in a path, if it is UTF-8.
pub(crate) type Named = Result<Path<String>, PathRejection>;

pub(crate) async fn all(
    State(catalogs): State<Catalogs>,
    name: Named,
    request: Request,
) -> Result<Response, HttpRejection> {
    let Path(name) = name.map_err(|_| HttpRejection::Path)?;
    check_method(request.method())?;
    let reader = reader(&request);
    let selection = find(&catalogs, &reader, &name)?.select(&Query::default());
    Ok(respond_to(selection, request, true).await?.1)
}

pub(crate) async fn metas(
    State(catalogs): State<Catalogs>,
    name: Named,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, HttpRejection> {
    let Path(name) = name.map_err(|_| HttpRejection::Path)?;
    check_method(request.method())?;
    let query = query.as_deref().unwrap_or_default();
    let query = match parse_query(query) {
        Ok(query) => query,
        Err(rejection) => {
            let mut response = rejection.into_response();
            hint::add_key(&mut response, query);
            return Ok(response);
        }
    };
    let reader = reader(&request);
    let selection = find(&catalogs, &reader, &name)?.select(&query);
    let (selection, mut response) = respond_to(selection, request, false).await?;
    hint::add(&mut response, &selection, &query);
    Ok(response)
}

/// The response with a selection, away from the threads that serve as long as many bytes
/// have to be compared with their sums.
async fn respond_to(
    selection: Selection,
    request: Request,
    ranges: bool,
) -> Result<(Selection, Response), HttpRejection> {
    if let Ok(response) = respond(&selection, &request, ranges, Comparing::Few) {
        return Ok((selection, response));
    }
    let responding = tokio::task::spawn_blocking(move || {
        let response = respond(&selection, &request, ranges, Comparing::All);
        response.map(|response| (selection, response))
    });
    if let Ok(Ok(responded)) = responding.await {
        return Ok(responded);
    }
    // A panic has been logged. Nothing else is an error: all may be compared.
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Err(HttpRejection::Text(status, "the catalog could not be read"))
}

/// Sends no answer that may lack bytes, because a stored file was found damaged meanwhile.
pub(crate) async fn undamaged(request: Request, next: Next) -> Response {
    let before = damaged_uses();
    let response = next.run(request).await;
    if damaged_uses() == before {
        return response;
    }
    let text = "a stored file is damaged; try again in a moment";
    HttpRejection::Text(StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

fn check_method(method: &Method) -> Result<(), HttpRejection> {
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(HttpRejection::Method("GET, HEAD")),
    }
}

/// The client of a request.
pub(crate) fn reader(request: &Request) -> Reader {
    // Absent only where no layer restricts anything.
    let reader = request.extensions().get::<Reader>();
    reader.cloned().unwrap_or_default()
}

/// The snapshot of a catalog by its name, if the client may read it.
pub(crate) fn find(
    catalogs: &Catalogs,
    reader: &Reader,
    name: &str,
) -> Result<Arc<Snapshot>, HttpRejection> {
    let name: CatalogName = name.parse().map_err(HttpRejection::Name)?;
    let unknown = |problem| HttpRejection::UnknownCatalog(Box::new(problem));
    let Some(catalog) = reader.catalog(catalogs, name.as_str()) else {
        let problem = Problem::unknown_catalog(name.as_str(), catalogs, reader);
        return Err(if problem.status() == StatusCode::NOT_FOUND {
            unknown(problem)
        } else {
            HttpRejection::NotLoaded(name)
        });
    };
    catalog.snapshot().ok_or(HttpRejection::NotLoaded(name))
}
