//! Full-text search over packages.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};

use crate::answers::rest::records::PackageSummary;
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::{Content, Parameters};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest, respond_dated};
use crate::serve::http::api::response::HINTS;
use crate::serve::http::api::response::{Notes, QueryResponse, ResponseContext};
use crate::store::{Found, MAX_WORDS, Searcher, StoreError};
use fbc::text::suggest;

/// How long a search may take.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// How often the search is repeated with a newer snapshot.
pub(super) const TRIES: usize = 3;

/// `/catalogs/{catalog}/api/v1/search`.
pub(crate) static SEARCH: Operation = Operation {
    id: "search",
    summary: "Packages by words",
    description: "Packages that have a word beginning with each of the given ones: those with all of \
them in the name first, then those with them in the display name, in keywords, kinds \
or provider, in the description; equally good ones by name.",
    parameters: &[
        Parameter::text("q", "Words.")
            .required()
            .longest(1024)
            .example("message"),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::list::<PackageSummary<'_>>(
        "PackageList",
        HINTS,
    )),
};

/// The packages that match words, best match first.
pub(crate) async fn list(request: QueryRequest) -> Response {
    match search(request).await {
        Ok((query, context, found)) => {
            let page = move |query: &ParsedQuery| {
                let snapshot = &query.snapshot;
                let page = query.parameters.page(Content::of(snapshot))?;
                let mut response =
                    QueryResponse::list::<PackageSummary<'_>>(page, found.len(), |at| {
                        let package = snapshot.packages().get(found[at].package as usize);
                        let package = package.ok_or_else(Problem::internal)?;
                        Ok(snapshot.answer(package.summary))
                    })?;
                if found.is_empty() {
                    let text = query.parameters.get("q").unwrap_or_default();
                    let names = snapshot.packages().iter().map(|package| &*package.name);
                    response.note(nothing(text, names));
                }
                Ok(response)
            };
            let modified = Some(query.snapshot.modified());
            respond_dated(&LOOKUPS, query, context, modified, Box::new(page)).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn search(
    request: QueryRequest,
) -> Result<(ParsedQuery, ResponseContext, Vec<Found>), Problem> {
    let (catalogs, reader) = (request.catalogs.clone(), request.reader.clone());
    let (mut query, context) = request.parse((&SEARCH).into())?;
    let text = words(&query.parameters)?;
    let words = Searcher::words(&text);
    for _ in 0..TRIES {
        let searching = query.snapshot.search(&words);
        let found = tokio::time::timeout(LONGEST, searching).await;
        let found = found.map_err(|_| too_long())?.map_err(failed)?;
        if let Some(found) = found {
            return Ok((query, context, found));
        }
        // A new revision replaced the one of this snapshot, perhaps by a reload
        // that took the catalog away from this client.
        let newer = reader.catalog(&catalogs, query.catalog());
        if let Some(newer) = newer.and_then(|catalog| catalog.snapshot()) {
            query.snapshot = newer;
        }
    }
    Err(Problem::internal())
}

/// The text to search for, if it has words and not too many.
pub(super) fn words(parameters: &Parameters) -> Result<String, Problem> {
    let text = parameters
        .get("q")
        .ok_or_else(|| Problem::missing_parameter("q", "name the words to search for in \"q\""))?;
    let words = Searcher::words(text);
    if words.is_empty() {
        let detail = "q has neither a letter nor a digit; name at least one word";
        return Err(Problem::invalid_parameter("q", detail));
    }
    if words.len() > MAX_WORDS {
        let detail =
            format!("q has more than {MAX_WORDS} words; leave out those that matter least");
        return Err(Problem::invalid_parameter("q", detail));
    }
    Ok(text.to_owned())
}

/// The problem of a search that took longer than [`LONGEST`].
pub(super) fn too_long() -> Problem {
    tracing::error!(longest = ?LONGEST, "a search took too long");
    Problem::internal()
}

/// The problem of a search that failed.
#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
pub(super) fn failed(error: StoreError) -> Problem {
    tracing::error!(%error, "a search failed");
    Problem::internal()
}

/// The hint of a search without results: similar names of packages.
pub(super) fn nothing<'a>(text: &str, packages: impl IntoIterator<Item = &'a str>) -> Notes {
    let packages: BTreeSet<&str> = packages.into_iter().collect();
    let similar = suggest::similar(text, packages);
    let proposal = suggest::proposal(text, similar.iter().copied());
    Notes {
        hint: Some(format!("no package matches these words{proposal}")),
        suggestions: similar.into_iter().map(str::to_owned).collect(),
        ..Notes::default()
    }
}
