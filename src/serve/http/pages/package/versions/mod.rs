//! The versions of a package in its channels, with the upgrade graph between them.
//!
//! `view` reads the address, `table` has labels, dots and lines, `controls` the form
//! above it.

mod controls;
mod table;
mod view;

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::plan::Plan;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::pages::package::steps::steps;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{count, counted, empty, fold, notice};
use crate::serve::http::pages::{links, request};

pub(super) use view::{PARAMETERS, View, ordered};

pub(crate) async fn show(request: QueryRequest) -> Response {
    let request = request.repeating(&["channel"]);
    request::run(request, &LOOKUPS, PARAMETERS, |query| {
        let subject = Subject::of(query)?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let view = View::of(&query.parameters, &all)?;
        let order = ordered(&all);
        let shown = view.shown(&order);
        let mut of_way = all.clone();
        let way = view.way(&mut of_way);
        let matrix = view.matrix(&shown, way.as_ref());
        let shown = &shown[..matrix.columns.len()];
        let body = html! {
            h2 { "Versions" }
            @if all.is_empty() {
                (empty(html! { p { "This package has no channel, so nobody can install it." } }))
            } @else {
                (controls::form(&subject, &view, &order, shown))
                (selection(&subject, &view, way.as_ref()))
                (controls::tools(&subject, &view, shown))
                @if matrix.beyond > 0 {
                    p { "The first " (shown.len()) " of these channels are shown, without " (counted(matrix.beyond, "further one")) "." }
                }
                (table::table(&subject, &view, &matrix))
                @if matrix.hidden > 0 {
                    p { a href=(view.with_all(&subject, true, false)) {
                        "Show all rows (" (count(matrix.hidden as u64)) " more)"
                    } }
                }
                @if !view.words { (table::key()) }
            }
        };
        let chosen = shown.iter().filter(|_| shown.len() < all.len());
        let chosen: Vec<_> = chosen.map(|one| ("channel", &*one.name)).collect();
        let twin = links::with(&subject.own_api("/channels"), &chosen);
        Ok(subject.page("versions", &body).twin(twin))
    })
    .await
}

/// The selection in words, and the steps of the path.
fn selection(subject: &Subject<'_>, view: &View<'_>, way: Option<&Plan<'_>>) -> Markup {
    let clear = view.selecting(subject, None, None);
    let clear = html! { a #clear href=(clear) { "Clear" } };
    let first = way.and_then(|way| way.steps.first());
    let planner = links::with(
        &subject.tab("updates"),
        &[
            ("from", view.from.unwrap_or_default()),
            ("to", view.to.unwrap_or_default()),
            ("channel", first.map_or("", |step| step.channel)),
            ("rules", view.rules.as_str()),
        ],
    );
    let twin = links::with(
        &subject.api("plan"),
        &[
            ("package", &*subject.record.summary.name),
            ("from", view.from.unwrap_or_default()),
            ("to", view.to.unwrap_or_default()),
            ("channel", first.map_or("", |step| step.channel)),
            ("rules", view.rules.as_str()),
        ],
    );
    html! {
        @match (view.from, view.to, way) {
            (None, ..) => {},
            (Some(from), None, _) => (notice("plain", html! {
                p { "From " code { (from) } ". Select the version to reach, or "
                    a href=(planner) { "plan the update" } ". " (clear) }
            })),
            (Some(from), Some(to), Some(way)) if way.reached => {
                (notice("good", html! {
                    p { "From " code { (from) } " to " code { (to) } ": " (counted(way.steps.len(), "step"))
                        " under OLM " (view.rules.as_str()) ". "
                        a href=(planner) { "Plan with reasons" } " · " a href=(twin) { "Way as JSON" } " · " (clear) }
                }))
                @if !way.steps.is_empty() {
                    (fold(html! { "Steps" }, html! { ol.steps { (steps(subject, &way.steps)) } }))
                }
            },
            (Some(from), Some(to), _) => (notice("warning", html! {
                p { "No way leads from " code { (from) } " to " code { (to) } " under OLM " (view.rules.as_str())
                    ". " a href=(planner) { "Plan the update" } " · " (clear) }
            })),
        }
    }
}
