//! What updates of the catalog changed in a package.

use axum::response::{IntoResponse as _, Response};
use maud::html;

use crate::serve::http::pages::changes::{self, Told};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::request;
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::request::{QueryRequest, SCANS};

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    let read = async {
        let (query, context) = request.parse_across(&[])?;
        let told = changes::read(&query, Some(query.path("name"))).await?;
        Ok::<_, crate::serve::http::queries::problem::Problem>((query, context, told))
    };
    let (query, context, told) = match read.await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let work = move |query: &AcrossQuery| {
        let subject = Subject::of(query)?;
        let name = &subject.record.name;
        let told: Vec<Told<'_>> = told.iter().filter_map(|one| one.of_package(name)).collect();
        let feed = subject.api(&format!("changes.atom?package={name}"));
        let body = html! {
            h2 { "History" }
            p { a href=(feed) { "Atom feed of this package" } }
            (changes::list(&told, "No update since the history of this catalog began changed this package."))
        };
        let twin = subject.api(&format!("changes?package={name}"));
        Ok(subject.page("history", &body).twin(twin))
    };
    request::respond(&SCANS, query, context, Box::new(work)).await
}
