//! The upgrade graph of a package as a file: SVG, or text for Mermaid.

use axum::response::Response;

use crate::answers::drawing::{Drawing, blobs};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::queries::response::QueryResponse;

pub(in crate::serve::http::pages) async fn svg(request: QueryRequest) -> Response {
    drawn(request, |drawing| QueryResponse::Picture {
        bytes: drawing.svg().into(),
        media_type: "image/svg+xml".to_owned(),
    })
    .await
}

pub(in crate::serve::http::pages) async fn mermaid(request: QueryRequest) -> Response {
    drawn(request, |drawing| QueryResponse::Text {
        bytes: drawing.mermaid().into(),
        media_type: "text/plain; charset=utf-8",
    })
    .await
}

async fn drawn(
    request: QueryRequest,
    write: impl FnOnce(&Drawing<'_>) -> QueryResponse + Send + 'static,
) -> Response {
    request
        .run_across(&LOOKUPS, &["channel"], move |query| {
            let subject = Subject::of(query)?;
            let stored = subject.channels();
            let mut channels = read(&stored)?;
            let wanted: Vec<&str> = query.parameters.all("channel").collect();
            let names = || subject.package.channels.iter().map(|(name, _)| &**name);
            for name in &wanted {
                if !names().any(|known| known == *name) {
                    return Err(Problem::unknown("channel", name, names()));
                }
            }
            channels.retain(|one| wanted.is_empty() || wanted.contains(&&*one.name));
            let record = &subject.record;
            let blobs = blobs(&record.name, record.deprecation.as_deref(), &channels);
            let drawing = Drawing::new(&blobs, &record.name, None);
            Ok(write(&drawing.ok_or_else(Problem::internal)?))
        })
        .await
}
