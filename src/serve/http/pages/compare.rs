//! The packages of catalogs side by side.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use maud::html;

use crate::answers::changes::{changes, sentence, summary};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{count, empty};
use crate::serve::http::pages::records::PackageRecord;
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{QueryRequest, SCANS};

/// How many catalogs are compared.
const MOST: usize = 6;
/// How many changes of a package a page lists.
const LISTED: usize = 20;
/// How many packages a page lists.
const SHOWN: usize = 500;

/// What changes from one catalog to another.
pub(super) async fn diff(request: QueryRequest) -> Response {
    request::run(request, &SCANS, &["from", "to"], |query| {
        let outline = |parameter: &'static str| {
            let name = query.parameters.get(parameter).ok_or_else(|| {
                Problem::missing_parameter(parameter, "name both catalogs by from and to")
            })?;
            let found = query.loaded().find(|(one, _)| one.as_str() == name);
            let (name, snapshot) = found.ok_or_else(|| {
                let names = query.loaded().map(|(one, _)| one.as_str());
                Problem::unknown("catalog", name, names)
            })?;
            let outline = snapshot.history().outline(&snapshot.revision().content);
            let outline = outline.ok_or_else(|| {
                let detail = format!("the outline of {name} is not kept; it is made with its next update");
                Problem::new(StatusCode::NOT_FOUND, "unknown-revision", detail)
            })?;
            Ok::<_, Problem>((name.as_str(), outline))
        };
        let ((from, before), (to, after)) = (outline("from")?, outline("to")?);
        let found = changes(&before, &after);
        let groups: Vec<_> = found.chunk_by(|one, other| one.package == other.package).collect();
        let back = links::with("/compare/diff", &[("from", to), ("to", from)]);
        let body = html! {
            h1 { "From " (from) " to " (to) }
            p.lead { (summary(&found)) }
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
            (format!("{from} to {to}"), links::with("/compare/diff", &[("from", from), ("to", to)])),
        ];
        Ok(Page::new(format!("From {from} to {to}"), body).at(trail))
    })
    .await
}

pub(super) async fn matrix(request: QueryRequest) -> Response {
    request::run(request, &SCANS, &["catalog", "show"], |query| {
        let wanted: Vec<&str> = query.parameters.all("catalog").collect();
        let names = || query.catalogs.iter().map(|(catalog, _)| catalog.name.as_str());
        for name in &wanted {
            if !names().any(|known| known == *name) {
                return Err(Problem::unknown("catalog", name, names()));
            }
        }
        let all = query.parameters.get("show") == Some("all");
        let chosen = query.loaded().filter(|(name, _)| {
            wanted.is_empty() || wanted.contains(&name.as_str())
        });
        let chosen: Vec<_> = chosen.take(MOST).collect();
        let mut rows: BTreeMap<String, Vec<Option<(String, String)>>> = BTreeMap::new();
        for (at, (_, snapshot)) in chosen.iter().enumerate() {
            for package in snapshot.packages() {
                let record = PackageRecord::summary(snapshot, package)?;
                let row = rows.entry(record.name).or_insert_with(|| vec![None; chosen.len()]);
                row[at] = Some((record.default_channel, record.version));
            }
        }
        let total = rows.len();
        if !all {
            rows.retain(|_, row| row.windows(2).any(|pair| pair[0] != pair[1]));
        }
        let body = html! {
            h1 { "Compare catalogs" }
            form.fields {
                fieldset {
                    legend { "Catalogs" }
                    @for name in names() {
                        label.box { input type="checkbox" name="catalog" value=(name)
                            checked[chosen.iter().any(|(one, _)| one.as_str() == name)]; " " (name) }
                    }
                }
                label.box { input type="checkbox" name="show" value="all" checked[all]; " also what is the same" }
                button { "Compare" }
            }
            @if chosen.len() < 2 {
                (empty(html! { p { "Choose at least two catalogs with content." } }))
            } @else {
                p { "Changes: "
                    @for pair in chosen.windows(2) {
                        a href=(links::with("/compare/diff", &[("from", pair[0].0.as_str()), ("to", pair[1].0.as_str())])) {
                            (pair[0].0) " → " (pair[1].0)
                        } " "
                    }
                }
                p.lead { (count(rows.len() as u64)) " of " (count(total as u64)) " packages" @if !all { " differ" } }
                div.scroll role="region" aria-label="Packages by catalog" tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { "Package" }
                            @for (name, _) in &chosen { th scope="col" { a href=(links::catalog(name.as_str(), "")) { (name) } } }
                        } }
                        tbody {
                            @for (package, row) in rows.iter().take(SHOWN) {
                                tr {
                                    th scope="row" { a href=(links::across(package)) { (package) } }
                                    @for ((name, _), cell) in chosen.iter().zip(row) {
                                        td {
                                            @match cell {
                                                Some((channel, version)) => {
                                                    a href=(links::package(name.as_str(), package)) { (channel) } " " (version)
                                                },
                                                None => "–",
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                @if rows.len() > SHOWN { p { "The first " (SHOWN) " are shown." } }
            }
        };
        Ok(Page::new("Compare catalogs", body))
    })
    .await
}
