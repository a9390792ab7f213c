//! What updates of the catalog changed in a package.

use axum::response::{IntoResponse as _, Response};
use maud::html;

use crate::serve::http::pages::changes::{self, Told, UPDATES};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{QueryRequest, SCANS};

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    let read = async {
        let request = request::parse(request, &[])?;
        let query = &request.query;
        let told = changes::read(query, Some(query.path("name")), UPDATES).await?;
        Ok::<_, Problem>((request, told))
    };
    let (request, told) = match read.await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let work = move |query: &AcrossQuery| {
        let subject = Subject::of(query)?;
        let name = &subject.record.name;
        let told: Vec<Told<'_>> = told.iter().filter_map(|one| one.of_package(name)).collect();
        let feed = format!("{}.atom", subject.tab("history"));
        let body = html! {
            h2 { "History" }
            p { a href=(feed) { "Atom feed of this package" } }
            (changes::list(&told, "No update since the history of this catalog began changed this package."))
        };
        let twin = links::with(&subject.api("changes"), &[("package", name)]);
        Ok(subject.page("history", &body).twin(twin))
    };
    request::respond(&SCANS, request, Box::new(work)).await
}
