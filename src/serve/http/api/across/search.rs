//! Full-text search over the packages of all catalogs.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};

use crate::queries::records::packages::PackageOfCatalog;
use crate::serve::http::api::across::{AcrossQuery, of_catalog, respond};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::api::response::ACROSS_NOTES;
use crate::serve::http::api::response::{QueryResponse, ResponseContext};
use crate::serve::http::api::search::{LONGEST, TRIES, failed, nothing, too_long, words};
use crate::store::{Found, Searcher};

/// A found package.
pub(crate) struct Match {
    pub(crate) found: Found,
    /// The number of its catalog in the query.
    pub(crate) catalog: usize,
}

/// `/api/v1/search`.
pub(crate) static SEARCH: Operation = Operation {
    id: "searchAll",
    summary: "Packages of all catalogs by words",
    description: "As over one catalog. Packages of all catalogs that the client may read: the best \
match first, equally good ones by name and catalog.",
    parameters: &[
        Parameter::text("q", "Words.")
            .required()
            .longest(1024)
            .example("message"),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::list::<PackageOfCatalog<'_>>("PackageOfCatalogList", ACROSS_NOTES).undated(),
    ),
};

/// The packages that match words: the best match first, then by name and catalog.
pub(crate) async fn list(request: QueryRequest) -> Response {
    let searched = async {
        let (mut query, context) = request.parse_across((&SEARCH).into())?;
        let found = search(&mut query).await?;
        Ok::<_, Problem>((query, context, found))
    };
    match searched.await {
        Ok((query, context, found)) => page(query, context, found).await,
        Err(problem) => problem.into_response(),
    }
}

/// The packages with the words of `q`.
pub(crate) async fn search(query: &mut AcrossQuery) -> Result<Vec<Match>, Problem> {
    let text = words(&query.parameters)?;
    let searching = search_each(query, &text);
    let found = tokio::time::timeout(LONGEST, searching).await;
    found.map_err(|_| too_long())?
}

/// Searches one catalog after the other: a search takes about a millisecond, and
/// the store has few connections.
async fn search_each(query: &mut AcrossQuery, text: &str) -> Result<Vec<Match>, Problem> {
    let words = Searcher::words(text);
    let (mut matches, mut searched) = (Vec::new(), Vec::new());
    for (catalog, mut snapshot) in std::mem::take(&mut query.catalogs) {
        let mut tries = 0;
        let mut is_readable = true;
        while let Some(current) = &snapshot {
            if let Some(found) = current.search(&words).await.map_err(failed)? {
                let found = found.into_iter();
                matches.extend(found.map(|found| Match {
                    found,
                    catalog: searched.len(),
                }));
                break;
            }
            tries += 1;
            if tries == TRIES {
                return Err(Problem::internal());
            }
            // A new revision replaced the one of this snapshot, perhaps by a
            // reload that took the catalog away from this client.
            let newer = query.reader.catalog(&query.all, catalog.name.as_str());
            is_readable = newer.is_some();
            snapshot = newer.and_then(|catalog| catalog.snapshot());
        }
        if is_readable {
            searched.push((catalog, snapshot));
        }
    }
    query.catalogs = searched;
    Ok(matches)
}

async fn page(query: AcrossQuery, context: ResponseContext, mut matches: Vec<Match>) -> Response {
    let work = move |query: &AcrossQuery| {
        let package = |one: &Match| {
            let (catalog, snapshot) = &query.catalogs[one.catalog];
            let snapshot: &Arc<_> = snapshot.as_ref()?;
            let package = snapshot.packages().get(one.found.package as usize)?;
            Some((&catalog.name, snapshot, package))
        };
        matches.sort_by(|a, b| {
            let key = |one: &Match| (one.found.rank, package(one).map(|(_, _, it)| &it.name));
            key(a).cmp(&key(b)).then(a.catalog.cmp(&b.catalog))
        });
        let page = query.parameters.page(query.content())?;
        let mut response =
            QueryResponse::list::<PackageOfCatalog<'_>>(page, matches.len(), |at| {
                let (catalog, snapshot, package) =
                    package(&matches[at]).ok_or_else(Problem::internal)?;
                Ok(of_catalog(catalog, &snapshot.answer(package.summary)))
            })?;
        let mut notes = query.notes();
        if matches.is_empty() {
            let text = query.parameters.get("q").unwrap_or_default();
            let packages = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
            let nothing = nothing(text, packages.map(|package| &*package.name));
            (notes.hint, notes.suggestions) = (nothing.hint, nothing.suggestions);
        }
        response.note(notes);
        Ok(response)
    };
    respond(&LOOKUPS, query, context, Box::new(work)).await
}
