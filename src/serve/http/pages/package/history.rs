//! Changes of a package by updates of the catalog.

use axum::response::Response;
use maud::html;
use tokio::runtime::Handle;

use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::changes::{UpdateFilter, updates};
use crate::serve::http::api::recorded::Wanted;
use crate::serve::http::api::request::{QueryRequest, SCANS};
use crate::serve::http::pages::changes;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::{links, request};

pub(crate) async fn show(request: QueryRequest) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let subject = Subject::of(query)?;
        let name = &subject.record.summary.name;
        let filter = UpdateFilter {
            catalog: Some(subject.catalog.as_str()),
            wanted: Wanted {
                package: Some(name),
                ..Wanted::default()
            },
            ..UpdateFilter::default()
        };
        let told = updates(query, runtime, filter)?;
        let feed = format!("{}.atom", subject.tab("history"));
        let body = html! {
            h2 { "History" }
            p { a href=(feed) { "Atom feed of this package" } }
            (changes::list(&told, "No update since the history of this catalog began changed this package."))
        };
        let asked = [("catalog", subject.catalog.as_str()), ("package", name)];
        let twin = links::with("/api/v1/changes", &asked);
        Ok(subject.page("history", &body).twin(twin))
    };
    request::run(request, &SCANS, &[], work).await
}
