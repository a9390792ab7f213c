//! The problems of a package.

use axum::response::Response;
use maud::html;

use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{empty, problem_counts, problems};
use crate::serve::http::pages::request;

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &[], |query| {
        let subject = Subject::of(query)?;
        let found: Vec<_> = subject.record.problems.iter().map(|one| &**one).collect();
        let body = html! {
            h2 { "Problems" }
            @if found.is_empty() {
                (empty(html! { p { "almanac found nothing wrong with this package." } }))
            } @else {
                p { (problem_counts(found.iter().copied())) }
                (problems(subject.catalog.as_str(), &found))
                @if subject.record.summary.quarantined {
                    p { "An error leaves the package out of the gRPC API. Its documents stay in the HTTP API." }
                } @else {
                    p { "A warning leaves the package as it is: clients get it." }
                }
                p { "Authors see the same with " code { "almanac check" } "." }
            }
        };
        let twin = subject.own_api("?fields=problems");
        Ok(subject.page("problems", &body).twin(twin))
    })
    .await
}
