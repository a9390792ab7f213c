//! The packages of catalogs side by side, and what changes from one to another.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use tokio::runtime::Handle;

use crate::answers::changes::{changes, counts, in_words, sentence};
use crate::queries::compare::{Comparison, differences};
use crate::queries::records::compare::Head;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::compare::{Side, compared, shows_all};
use crate::serve::http::api::recorded::Reading;
use crate::serve::http::api::request::{QueryRequest, SCANS};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{count, counted, empty, notice, short_name};
use crate::serve::http::pages::{links, request};

/// How many changes of a package a page lists.
const LISTED: usize = 20;
/// How many packages a page lists.
const SHOWN: usize = 500;

/// Changes from one catalog to another, or between two contents of one.
pub(crate) async fn diff(request: QueryRequest) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let reading = Reading::begin(runtime);
        let from = Side::read(query, &reading, "from")?;
        let to = Side::read(query, &reading, "to")?;
        let (before, after) = (from.outline(query)?, to.outline(query)?);
        let (from, to) = (from.text.as_str(), to.text.as_str());
        let found = changes(&before, &after);
        let groups: Vec<_> = found
            .chunk_by(|one, other| one.package == other.package)
            .collect();
        let back = links::with("/compare/diff", &[("from", to), ("to", from)]);
        let body = html! {
            h1 { "From " (from) " to " (to) }
            p.lead { (in_words(&counts(&found))) }
            p { a href=(back) { "The other way round" } }
            @if groups.is_empty() {
                (empty(html! { p { "Both catalogs have the same packages, channels and versions." } }))
            }
            dl.changed {
                @for group in groups.iter().take(SHOWN) {
                    dt { @match group.first().map(|change| change.package.as_str()) {
                        None | Some("") => "(catalog)",
                        Some(package) => a href=(links::across(package)) { (package) },
                    } }
                    dd { ul { @for change in group.iter().take(LISTED) { li { (sentence(change)) } }
                        @if group.len() > LISTED { li { "… and " (group.len() - LISTED) " more" } } } }
                }
            }
            @if groups.len() > SHOWN { p { "The first " (SHOWN) " packages are shown." } }
        };
        let trail = [
            ("Compare catalogs".to_owned(), "/compare".to_owned()),
            (
                format!("{from} to {to}"),
                links::with("/compare/diff", &[("from", from), ("to", to)]),
            ),
        ];
        let twin = links::with("/api/v1/diff", &[("from", from), ("to", to)]);
        Ok(Page::new(format!("From {from} to {to}"), body)
            .at(trail)
            .twin(twin))
    };
    request::run(request, &SCANS, &["from", "to"], work).await
}

/// The packages, a column for each catalog.
fn side_by_side(chosen: &[&str], rows: &BTreeMap<String, Vec<Option<Head>>>) -> Markup {
    html! {
        div.scroll role="region" aria-label="Packages by catalog" tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "Package" }
                    @for name in chosen { th scope="col" { a href=(links::catalog(name, "")) { (name) } } }
                    th scope="col" { "Difference" }
                } }
                tbody {
                    @for (package, row) in rows.iter().take(SHOWN) {
                        tr {
                            th scope="row" { a href=(links::across(package)) { (package) } }
                            @for (name, cell) in chosen.iter().zip(row) {
                                td {
                                    @match cell {
                                        Some(head) => {
                                            a href=(links::package(name, package)) { (short_name(&head.channel)) } " " (head.version)
                                        },
                                        None => "–",
                                    }
                                }
                            }
                            td { (differences(row).join(", ")) }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn matrix(request: QueryRequest) -> Response {
    let request = request.repeating(&["catalog"]);
    request::run(request, &SCANS, &["catalog", "show"], |query| {
        let all = shows_all(&query.parameters)?;
        let Comparison { chosen, rows, total, beyond } = compared(query, all)?;
        let names = || query.catalogs.iter().map(|(catalog, _)| catalog.name.as_str());
        let mut given: Vec<(&str, &str)> = query.parameters.all("catalog").map(|name| ("catalog", name)).collect();
        given.push(("show", if all { "all" } else { "" }));
        let twin = links::with("/api/v1/compare", &given);
        given.push(("format", "csv"));
        let csv = links::with("/api/v1/compare", &given);
        let body = html! {
            h1 { "Compare catalogs" }
            form.fields {
                fieldset {
                    legend { "Catalogs" }
                    @for name in names() {
                        label.box { input type="checkbox" name="catalog" value=(name)
                            checked[chosen.contains(&name)]; " " (name) }
                    }
                }
                label.box { input type="checkbox" name="show" value="all" checked[all]; " also equal packages" }
                button { "Compare" }
            }
            @if chosen.len() < 2 {
                (empty(html! { p { "Choose at least two catalogs with content." } }))
            } @else {
                @if beyond > 0 { (notice("warning", html! {
                    p { "The first " (chosen.len()) " catalogs are compared, without " (counted(beyond, "further one")) "." }
                })) }
                p { "Changes: "
                    @for pair in chosen.windows(2) {
                        a href=(links::with("/compare/diff", &[("from", pair[0]), ("to", pair[1])])) {
                            (pair[0]) " → " (pair[1])
                        } " "
                    }
                }
                p.lead { (count(rows.len() as u64)) " of " (count(total as u64)) " packages" @if !all { " differ" } " · " a href=(csv) { "CSV" } }
                (side_by_side(&chosen, &rows))
                @if rows.len() > SHOWN { p { "The first " (SHOWN) " are shown." } }
            }
        };
        Ok(Page::new("Compare catalogs", body).twin(twin))
    })
    .await
}
