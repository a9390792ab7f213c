//! Full-text search over packages.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response};

use crate::serve::http::queries::answer::{Answer, Sending};
use crate::serve::http::queries::packages::SUMMARY;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::{Asked, QUICK, Question, blocking};
use crate::store::{MAX_WORDS, Searcher};

/// How long a search may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How often a newer snapshot is taken when one was replaced meanwhile.
const TRIES: usize = 3;

/// The packages that fit words, the best first.
pub(super) async fn list(question: Question) -> Response {
    match search(question).await {
        Ok((asked, sending, found)) => {
            let answer = move |asked: &Asked| {
                let snapshot = &asked.snapshot;
                let page = asked.parameters.page(snapshot)?;
                Answer::list(page, found.len(), snapshot, SUMMARY, |at| {
                    let package = snapshot.packages().get(found[at] as usize);
                    let package = package.ok_or_else(Problem::internal)?;
                    Ok(snapshot.answer(package.summary))
                })
            };
            blocking(&QUICK, asked, sending, answer).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn search(question: Question) -> Result<(Asked, Sending, Vec<u32>), Problem> {
    const KNOWN: &[&str] = &["q", "limit", "continue", "fields"];
    let (catalogs, name) = (question.catalogs.clone(), question.path.clone());
    let (mut asked, sending) = question.ask(KNOWN)?;
    let text = asked.parameters.get("q").unwrap_or_default().to_owned();
    if text.is_empty() {
        return Err(Problem::missing_parameter(
            "q",
            "say in \"q\" what to search for",
        ));
    }
    let words = Searcher::words(&text);
    if words.is_empty() {
        let detail = "q has neither a letter nor a digit; name at least one word".to_owned();
        return Err(Problem::invalid_parameter("q", detail));
    }
    if words.len() > MAX_WORDS {
        let detail =
            format!("q has more than {MAX_WORDS} words; leave out those that matter least");
        return Err(Problem::invalid_parameter("q", detail));
    }
    for _ in 0..TRIES {
        let searching = asked.snapshot.search(&words);
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
            return Ok((asked, sending, found));
        }
        // The revision was replaced after its snapshot was taken.
        let newer = catalogs.get(crate::serve::http::queries::value(&name, "name"));
        if let Some(newer) = newer.and_then(|catalog| catalog.snapshot()) {
            asked.snapshot = newer;
        }
    }
    Err(Problem::internal())
}
