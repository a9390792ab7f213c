//! Full-text search over packages.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response};

use crate::serve::http::queries::packages::SUMMARY;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, ParsedQuery, QueryRequest, respond};
use crate::serve::http::queries::response::{QueryResponse, ResponseContext};
use crate::store::{MAX_WORDS, Searcher};

/// How long a search may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How often the search is repeated with a newer snapshot.
const TRIES: usize = 3;

/// The packages that match words, best match first.
pub(super) async fn list(request: QueryRequest) -> Response {
    match search(request).await {
        Ok((query, context, found)) => {
            let page = move |query: &ParsedQuery| {
                let snapshot = &query.snapshot;
                let page = query.parameters.page(snapshot)?;
                QueryResponse::list(page, found.len(), snapshot, SUMMARY, |at| {
                    let package = snapshot.packages().get(found[at] as usize);
                    let package = package.ok_or_else(Problem::internal)?;
                    Ok(snapshot.answer(package.summary))
                })
            };
            respond(&LOOKUPS, query, context, page).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn search(
    request: QueryRequest,
) -> Result<(ParsedQuery, ResponseContext, Vec<u32>), Problem> {
    const KNOWN: &[&str] = &["q", "limit", "continue", "fields"];
    let catalogs = request.catalogs.clone();
    let (mut query, context) = request.parse(KNOWN)?;
    let text = query.parameters.get("q").unwrap_or_default().to_owned();
    if text.is_empty() {
        return Err(Problem::missing_parameter(
            "q",
            "name the words to search for in \"q\"",
        ));
    }
    let words = Searcher::words(&text);
    if words.is_empty() {
        let detail = "q has neither a letter nor a digit; name at least one word";
        return Err(Problem::invalid_parameter("q", detail));
    }
    if words.len() > MAX_WORDS {
        let detail =
            format!("q has more than {MAX_WORDS} words; leave out those that matter least");
        return Err(Problem::invalid_parameter("q", detail));
    }
    for _ in 0..TRIES {
        let searching = query.snapshot.search(&words);
        let found = match tokio::time::timeout(LONGEST, searching).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::error!(%error, "a search failed");
                return Err(Problem::internal());
            }
            Err(_) => {
                tracing::error!(longest = ?LONGEST, "a search took too long");
                return Err(Problem::internal());
            }
        };
        if let Some(found) = found {
            return Ok((query, context, found));
        }
        // A new revision replaced the one of this snapshot.
        let newer = catalogs.get(query.path("name"));
        if let Some(newer) = newer.and_then(|catalog| catalog.snapshot()) {
            query.snapshot = newer;
        }
    }
    Err(Problem::internal())
}
