//! The upgrade graph of a package as a file: SVG, or text for Mermaid. Without
//! parameters it is whole; with those of the page, it has the same content.

use axum::response::Response;

use crate::answers::drawing;
use crate::answers::drawing::Subject as Drawn;
use crate::answers::drawing::matrix::Matrix;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::package::versions::{PARAMETERS, View, ordered};

pub(crate) async fn svg(request: QueryRequest) -> Response {
    drawn(request, |subject, matrix| QueryResponse::Picture {
        bytes: drawing::svg(subject, matrix).into(),
        media_type: "image/svg+xml".to_owned(),
    })
    .await
}

pub(crate) async fn mermaid(request: QueryRequest) -> Response {
    drawn(request, |subject, matrix| QueryResponse::Text {
        bytes: drawing::mermaid(subject, matrix).into(),
        media_type: "text/plain; charset=utf-8",
    })
    .await
}

async fn drawn(
    request: QueryRequest,
    write: impl FnOnce(Drawn<'_>, &Matrix<'_>) -> QueryResponse + Send + 'static,
) -> Response {
    request
        .repeating(&["channel"])
        .run_across(&LOOKUPS, PARAMETERS, move |query| {
            let subject = Subject::of(query)?;
            let stored = subject.channels();
            let all = read(&stored)?;
            let view = View::of(&query.parameters, &all)?.whole();
            let order = ordered(&all);
            let shown = view.shown(&order);
            let mut of_way = all.clone();
            let way = view.way(&mut of_way);
            let matrix = view.matrix(&shown, way.as_ref());
            let drawn = Drawn {
                package: &subject.record.summary.name,
                deprecated: subject.record.summary.deprecation.is_some(),
            };
            Ok(write(drawn, &matrix))
        })
        .await
}
