//! The status as a page for the people who run almanac. It has what `/status` has, sources
//! and errors included, and so stands on this port only.

use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use maud::{DOCTYPE, Markup, html};

use crate::serve::admin::status::{CatalogStatus, Status};
use crate::snapshot::{Damaged, Repair, State};

/// The look of all pages.
const STYLE: &str = include_str!("../http/pages/almanac.css");
/// How many refused problems of a catalog are shown.
const SHOWN: usize = 20;
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The page.
pub(super) fn show(status: &Status) -> Response {
    send("text/html; charset=utf-8", render(status).into_string())
}

/// Its style sheet.
pub(super) fn style() -> Response {
    send("text/css; charset=utf-8", STYLE.to_owned())
}

fn send(media_type: &'static str, text: String) -> Response {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    (headers, text).into_response()
}

fn render(status: &Status) -> Markup {
    let configuration = &status.configuration;
    let time = |time| humantime::format_rfc3339_seconds(time).to_string();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Status · almanac" }
                link rel="stylesheet" href="/almanac.css";
            }
            body {
                main {
                    h1 { "almanac " (status.version) }
                    dl.facts {
                        dt { "Configuration" }
                        dd { (configuration.file.as_deref().unwrap_or("none")) ", taken " (time(configuration.taken)) }
                        @if let Some(refused) = configuration.refused {
                            dt { "Refused" }
                            dd { (time(refused)) ": " (configuration.error.as_deref().unwrap_or_default()) }
                        }
                        @if !configuration.needs_restart.is_empty() {
                            dt { "Takes effect after a restart" }
                            dd { (configuration.needs_restart.join(", ")) }
                        }
                        dt { "More" }
                        dd { a href="/status" { "as JSON" } " · " a href="/metrics" { "metrics" } " · " a href="/readyz" { "readiness" } }
                    }
                    @if !status.cluster_problems.is_empty() {
                        h2 { "Cluster" }
                        dl.facts {
                            @for (subject, problem) in &*status.cluster_problems {
                                dt { (subject) } dd { (problem) }
                            }
                        }
                    }
                    h2 { "Catalogs" }
                    div.scroll role="region" aria-label="Catalogs" tabindex="0" {
                        table {
                            thead { tr {
                                @for title in ["Name", "State", "Source", "Last pass", "Next pass", "Failures", "Problems", "Last error"] {
                                    th scope="col" { (title) }
                                }
                            } }
                            tbody { @for catalog in &status.catalogs { (row(catalog)) } }
                        }
                    }
                }
            }
        }
    }
}

fn damaged(found: &str, damaged: &Damaged) -> Markup {
    let repair = match damaged.repair {
        Repair::Rebuilding => "being rebuilt",
        Repair::Reading => "being read again",
        Repair::Done => "repaired",
    };
    html! {
        p { "Damaged files, found " (found) ", " (repair) ":" }
        ul { @for file in &damaged.files { li { (file) } } }
    }
}

fn row(catalog: &CatalogStatus) -> Markup {
    let class = match catalog.state {
        State::Serving if catalog.failures == 0 => "good",
        State::Serving => "warning",
        State::Failing | State::Damaged => "error",
        State::Loading | State::Unavailable => "plain",
    };
    let state = serde_json::to_value(catalog.state).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    html! {
        tr {
            th scope="row" { (catalog.name) }
            td { span.badge.(class) { (state.as_str().unwrap_or_default()) } }
            td {
                (catalog.source) @if let Some(by) = &catalog.served_by { " from " (by) }
                @if let Some(by) = &catalog.admitted_by { ", admitted by " (by) }
            }
            td { (text(&catalog.last_pass)) }
            td { (text(&catalog.next_pass)) }
            td { (catalog.failures) }
            td { (catalog.problems.len()) }
            td {
                (text(&catalog.last_error))
                @if let Some(damage) = &catalog.damage { (damaged(&damage.found, &damage.damaged)) }
                @if !catalog.refused.is_empty() {
                    p { "Refused by the last pass:" }
                    ul { @for problem in catalog.refused.iter().take(SHOWN) { li { (problem.message) } } }
                    @if let Some(more) = catalog.refused.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                        p { "… and " (more) " more" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::serve::admin::status::Configuration;

    #[test]
    fn the_page_tells_problems_of_the_cluster_and_damaged_files() {
        let problem = ("clustercatalogs".to_owned(), "is <forbidden>".to_owned());
        let status = Status {
            version: "1",
            configuration: Configuration::read(None),
            cluster_problems: Arc::new(BTreeMap::from([problem])),
            catalogs: Vec::new(),
        };
        let text = render(&status).into_string();
        let part = "<dt>clustercatalogs</dt><dd>is &lt;forbidden&gt;</dd>";
        assert!(text.contains(part), "{text}");
        let damage = Damaged {
            found: SystemTime::UNIX_EPOCH,
            files: vec!["lines: cut".to_owned()],
            repair: Repair::Reading,
        };
        let text = damaged("today", &damage).into_string();
        for part in ["found today, being read again", "<li>lines: cut</li>"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
