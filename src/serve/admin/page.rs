//! The status as a page for the people who run almanac. It has what `/status` has, sources
//! and errors included, and so stands on this port only.

use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use maud::{DOCTYPE, Markup, html};

use crate::serve::admin::status::{
    CatalogStatus, FleetDocument, Status, UnknownNameDocument, WebhookDocument,
};
use crate::serve::http::date;
use crate::snapshot::{Damaged, PassHour, Repair, State};

/// The look of all pages, and their comfort: the theme, and the ages of dates.
const STYLE: &str = include_str!("../http/pages/almanac.css");
const SCRIPT: &str = include_str!("../http/pages/almanac.js");
/// The signs of a column of passes, from none to most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// How many refused problems of a catalog are shown.
const SHOWN: usize = 20;
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The names of gRPC calls that no catalog answers to.
fn unknown_names(names: &[UnknownNameDocument]) -> Markup {
    html! {
        h2 { "Unknown names" }
        p { "No catalog answers to these names of gRPC calls. While a CatalogSource has such a name, OLM v0 resolves nothing in its namespace." }
        dl.facts {
            @for one in names {
                dt { (one.name) }
                dd { "called by " (one.peer) ", last " (date(&one.last)) }
            }
        }
    }
}

/// The page.
pub(super) fn show(status: &Status) -> Response {
    send("text/html; charset=utf-8", render(status).into_string())
}

/// Its style sheet.
pub(super) fn style() -> Response {
    send("text/css; charset=utf-8", STYLE.to_owned())
}

/// The script of the pages.
pub(super) fn script() -> Response {
    send("text/javascript; charset=utf-8", SCRIPT.to_owned())
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
    let time = |time| date(&humantime::format_rfc3339_seconds(time).to_string());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Status · almanac" }
                link rel="stylesheet" href="/almanac.css";
                script src="/almanac.js" {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header.top {
                    span.brand { "almanac" }
                    nav aria-label="Site" {
                        ul {
                            li { a href="/status" { "as JSON" } }
                            li { a href="/metrics" { "Metrics" } }
                            li { a href="/readyz" { "Readiness" } }
                            li { button #theme type="button" hidden { "Theme" } }
                        }
                    }
                }
                main #content tabindex="-1" {
                    h1 { "Status" }
                    dl.facts {
                        dt { "Version" } dd { (status.version) }
                        @if let Some(started) = &status.started { dt { "Started" } dd { (date(started)) } }
                        @if let Some(memory) = status.memory { dt { "Memory" } dd { (memory >> 20) " MiB" } }
                        dt { "Connections" }
                        dd {
                            @if status.connections.is_empty() { "none" }
                            @for (at, (service, open)) in status.connections.iter().enumerate() {
                                @if at > 0 { " · " }
                                (service) " " (open)
                            }
                        }
                        @for (service, until) in &status.certificates {
                            dt { "Certificate of " (service) }
                            dd { "until " (date(until)) }
                        }
                        dt { "Configuration" }
                        dd { (configuration.file.as_deref().unwrap_or("no file")) ", taken " (time(configuration.taken)) }
                        @if let Some(refused) = configuration.refused {
                            dt { "Refused" }
                            dd { (time(refused)) ": " (configuration.error.as_deref().unwrap_or_default()) }
                        }
                        @if let Some(error) = &status.data_folder_error {
                            dt { "Data folder" }
                            dd { "cannot be written: " (error) }
                        }
                        @if !configuration.needs_restart.is_empty() {
                            dt { "Takes effect after a restart" }
                            dd { (configuration.needs_restart.join(", ")) }
                        }
                    }
                    @if !status.cluster_problems.is_empty() {
                        h2 { "Cluster" }
                        dl.facts {
                            @for (subject, problem) in &*status.cluster_problems {
                                dt { (subject) } dd { (problem) }
                            }
                        }
                    }
                    @if !status.unknown_names.is_empty() { (unknown_names(&status.unknown_names)) }
                    @if let Some(fleet) = &status.fleet { (replica(fleet)) }
                    @if !status.webhooks.is_empty() { (webhooks(&status.webhooks)) }
                    h2 { "Catalogs" }
                    div.scroll role="region" aria-label="Catalogs" tabindex="0" {
                        table {
                            thead { tr {
                                @for title in ["Name", "State", "Source", "Last pass", "Next pass", "Passes of the last day", "Failures", "Problems", "Last error"] {
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

/// The place of this replica in its fleet.
fn replica(fleet: &FleetDocument) -> Markup {
    let names = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    html! {
        h2 { "Fleet" }
        dl.facts {
            dt { "Name" } dd { (fleet.name) }
            dt { "Live replicas" } dd { (fleet.replicas) }
            dt { "Database" }
            dd {
                (fleet.database)
                @if let Some(answered) = fleet.answered {
                    ", answered " (date(&humantime::format_rfc3339_seconds(answered).to_string()))
                }
                @if let Some(error) = &fleet.error { ": " (error) }
            }
            dt { "Objects" } dd {
                (fleet.objects)
                @if let Some(error) = &fleet.bucket_error { ": " (error) }
                @if fleet.lost_objects > 0 { "; lost objects: " (fleet.lost_objects) }
            }
            dt { "Follows" } dd { (names(&fleet.follows)) }
            dt { "Behind with" } dd { (names(&fleet.behind)) }
            @for (catalog, reason) in &fleet.waits { dt { (catalog) " waits" } dd { (reason) } }
            @for (task, times) in &fleet.panics {
                dt { "Panicked and started again" } dd { (task) ", " (times) " times" }
            }
        }
    }
}

/// The deliveries of each webhook.
fn webhooks(webhooks: &[WebhookDocument]) -> Markup {
    html! {
        h2 { "Webhooks" }
        div.scroll role="region" aria-label="Webhooks" tabindex="0" {
            table {
                thead { tr {
                    @for title in ["Name", "Receiver", "Pending events", "Last delivery", "Failures", "Last error"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody {
                    @for webhook in webhooks {
                        tr {
                            th scope="row" { (webhook.name) }
                            td { (webhook.receiver) }
                            td { (webhook.pending) }
                            td.time {
                                @if let Some(time) = &webhook.delivered { (date(time)) } @else { "–" }
                            }
                            td { (webhook.failures) }
                            td.reason { (webhook.last_error.as_deref().unwrap_or("–")) }
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

/// The passes as numbers, and as a column for each hour.
fn passes(hours: &[PassHour]) -> Markup {
    let all: u32 = hours.iter().map(|hour| hour.passes).sum();
    let failed: u32 = hours.iter().map(|hour| hour.failed).sum();
    let most = hours
        .iter()
        .map(|hour| hour.passes)
        .max()
        .unwrap_or(0)
        .max(1) as usize;
    let bar = |hour: &PassHour| BARS[(hour.passes as usize * (BARS.len() - 1)).div_ceil(most)];
    let class = |hour: &PassHour| match hour {
        PassHour { passes: 0, .. } => "none",
        PassHour { failed: 0, .. } => "good",
        PassHour { .. } => "bad",
    };
    html! {
        (all) @if failed > 0 { ", " (failed) " failed" }
        @if all > 0 {
            " "
            span.hours aria-hidden="true" {
                @for hour in hours {
                    span class=(class(hour)) { (bar(hour)) }
                }
            }
        }
    }
}

fn row(catalog: &CatalogStatus) -> Markup {
    let class = match catalog.state {
        State::Serving if catalog.failures == 0 && catalog.image_error.is_none() => "good",
        State::Serving => "warning",
        State::Failing | State::Damaged => "error",
        State::Loading | State::Unavailable => "plain",
    };
    let state = serde_json::to_value(catalog.state).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    let when = |time: &Option<String>| {
        html! { @if let Some(time) = time { (date(time)) } @else { "–" } }
    };
    html! {
        tr {
            th scope="row" { (catalog.name) }
            td { span.badge.(class) { (state.as_str().unwrap_or_default()) } }
            td {
                (catalog.source) @if let Some(by) = &catalog.served_by { " from " (by) }
                @if let Some(by) = &catalog.admitted_by { ", admitted by " (by) }
            }
            td.time { (when(&catalog.last_pass)) }
            td.time { (when(&catalog.next_pass)) }
            td { (passes(&catalog.passes)) }
            td { (catalog.failures) }
            td {
                (catalog.problems.len())
                @if !catalog.refused.is_empty() { ", refused: " (catalog.refused.len()) }
            }
            td.reason {
                // It would repeat the first of the refused ones.
                @if catalog.refused.is_empty() { (text(&catalog.last_error)) }
                @if let Some(error) = &catalog.image_error { p { "No image yet: " (error) } }
                @if !catalog.image_left_out.is_empty() {
                    p { "Absent parts of the image, left out: " (catalog.image_left_out.len()) }
                }
                @if let Some(damage) = &catalog.damage { (damaged(&damage.found, &damage.damaged)) }
                @if !catalog.refused.is_empty() {
                    p { "Refused by the last pass:" }
                    ul { @for problem in catalog.refused.iter().take(SHOWN) { li {
                        @if let Some(position) = &problem.position { code { (position) } " " }
                        (problem.message)
                    } } }
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
    use crate::serve::admin::configuration::Configuration;

    #[test]
    fn the_page_tells_problems_of_the_cluster_and_damaged_files() {
        let problem = ("clustercatalogs".to_owned(), "is <forbidden>".to_owned());
        let status = Status {
            version: "1",
            started: None,
            memory: Some(3 << 20),
            connections: BTreeMap::from([("http".to_owned(), 2)]),
            certificates: BTreeMap::from([("grpc".to_owned(), "2027-01-02T03:04:05Z".to_owned())]),
            configuration: Configuration::read(None),
            data_folder_error: Some("the <disk> is full".into()),
            cluster_problems: Arc::new(BTreeMap::from([problem])),
            fleet: None,
            webhooks: vec![WebhookDocument {
                name: "chat".to_owned(),
                receiver: "https://hooks.example.com".to_owned(),
                pending: 3,
                delivered: None,
                failures: 2,
                last_error: Some("<gone>".to_owned()),
            }],
            unknown_names: Vec::new(),
            catalogs: Vec::new(),
        };
        let text = render(&status).into_string();
        for part in [
            "<h2>Webhooks</h2>",
            "<td>3</td><td class=\"time\">–</td><td>2</td><td class=\"reason\">&lt;gone&gt;</td>",
            "<dt>clustercatalogs</dt><dd>is &lt;forbidden&gt;</dd>",
            "<dt>Memory</dt><dd>3 MiB</dd>",
            "<dt>Data folder</dt><dd>cannot be written: the &lt;disk&gt; is full</dd>",
            "<dt>Connections</dt><dd>http 2</dd>",
            "<dt>Certificate of grpc</dt><dd>until <time",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
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

    #[test]
    fn the_page_tells_why_a_replica_waits() {
        let fleet = FleetDocument {
            name: "almanac-0".to_owned(),
            database: "db.example/almanac".to_owned(),
            objects: "s3://catalogs/almanac".to_owned(),
            replicas: 3,
            follows: vec!["b".to_owned(), "c".to_owned()],
            behind: vec!["a".to_owned()],
            waits: BTreeMap::from([("a".to_owned(), "no space <left>".to_owned())]),
            panics: BTreeMap::from([("receive of a".to_owned(), 2)]),
            answered: Some(SystemTime::UNIX_EPOCH),
            error: Some("refused".to_owned()),
            lost_objects: 2,
            bucket_error: Some("no right".to_owned()),
        };
        let text = replica(&fleet).into_string();
        for part in [
            "<dt>Live replicas</dt><dd>3</dd>",
            "<dt>Follows</dt><dd>b, c</dd>",
            "<dt>Behind with</dt><dd>a</dd>",
            "<dt>a waits</dt><dd>no space &lt;left&gt;</dd>",
            "<dd>receive of a, 2 times</dd>",
            "</time>: refused</dd>",
            "<dd>s3://catalogs/almanac: no right; lost objects: 2</dd>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn passes_are_told_in_numbers_and_drawn_by_the_hour() {
        let hour = |passes, failed| PassHour { passes, failed };
        let text = passes(&[hour(0, 0), hour(1, 0), hour(7, 2)]).into_string();
        assert!(text.starts_with("8, 2 failed "), "{text}");
        for part in [
            "<span class=\"none\">▁</span>",
            "<span class=\"good\">▂</span>",
            "<span class=\"bad\">█</span>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(passes(&[hour(0, 0)]).into_string(), "0");
    }
}
