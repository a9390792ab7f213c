//! Changes by updates: of all catalogs, of one, or of one package.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use tokio::runtime::Handle;

use crate::answers::changes::{Change, Kind, sentence, summary};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, counted, empty, fold};
use crate::serve::http::pages::request::configured;
use crate::serve::http::pages::text::{date, short};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::history::moment;
use crate::serve::http::queries::problem::{Problem, cut};
use crate::serve::http::queries::recorded::{Reading, Update, Wanted};
use crate::serve::http::queries::request::{QueryRequest, SCANS};

/// How many updates of a catalog are read.
pub(super) const UPDATES: u32 = 30;

/// An update of a catalog.
pub(super) struct Told {
    catalog: String,
    update: Update,
}

impl Told {
    /// The catalog, the time and the changes in a line.
    pub(super) fn line(&self) -> (&str, String, String) {
        let time = humantime::format_rfc3339_seconds(self.update.entry.committed);
        let changes = summary(&self.update.changes);
        (&self.catalog, time.to_string(), changes)
    }
}

/// The last `most` updates of each catalog, or of one, of those that the client may read.
/// The newest comes first.
pub(super) fn read(
    query: &AcrossQuery,
    runtime: Handle,
    catalog: Option<&str>,
    most: u32,
    wanted: Wanted<'_>,
) -> Result<Vec<Told>, Problem> {
    let reading = Reading::begin(runtime);
    let mut told = Vec::new();
    for (name, snapshot) in query.loaded() {
        if catalog.is_some_and(|wanted| wanted != name.as_str()) {
            continue;
        }
        for update in reading.updates(snapshot, most, wanted)? {
            let catalog = name.to_string();
            told.push(Told { catalog, update });
        }
    }
    told.sort_by_key(|told| std::cmp::Reverse(told.update.entry.committed));
    Ok(told)
}

/// The updates as a list.
pub(super) fn list(told: &[Told], nothing: &str) -> Markup {
    html! {
        @if told.is_empty() {
            (empty(html! { p { (nothing) } }))
        } @else {
            ol.updates { @for one in told { li { (update(one)) } } }
        }
    }
}

fn update(told: &Told) -> Markup {
    let (update, entry) = (&told.update, &told.update.entry);
    let catalog = told.catalog.as_str();
    let more = update.total - update.changes.len();
    let mut packages: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &update.changes {
        packages.entry(&change.package).or_default().push(change);
    }
    let content = entry.content.hex();
    let many = packages.len() > 8;
    let changes = html! {
        dl.changed {
            @for (package, changes) in &packages {
                dt {
                    @if package.is_empty() { "(catalog)" }
                    @else { a href=(links::package(catalog, package)) { (package) } }
                }
                dd { ul { @for change in changes { li { (sentence(change)) } } } }
            }
        }
        @if more > 0 { p { "… and " (counted(more, "more change")) } }
    };
    html! {
        p {
            (date(&humantime::format_rfc3339_seconds(entry.committed).to_string())) " "
            a href=(links::catalog(catalog, "/changes")) { (catalog) } " "
            code { (short(&update.content_before.hex())) } " → "
            code { (short(&content)) } " "
            (badge("plain", &counted(update.total, "change")))
        }
        @if many { (fold(html! { (counted(packages.len(), "package")) }, changes)) } @else { (changes) }
    }
}

fn change_kind(text: &str) -> Result<Kind, Problem> {
    let found = Kind::ALL.iter().find(|kind| kind.as_str() == text);
    found.copied().ok_or_else(|| {
        let detail = format!("there is no kind of change {:?}", cut(text));
        Problem::invalid_parameter("kind", detail)
    })
}

pub(super) async fn of_all(request: QueryRequest) -> Response {
    shown(request, false).await
}

pub(super) async fn of_one(request: QueryRequest) -> Response {
    shown(request, true).await
}

async fn shown(request: QueryRequest, one: bool) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let package = query.parameters.get("package");
        let since = query.parameters.get("since");
        let after = since.map(|since| moment("since", since)).transpose()?;
        let kind = query.parameters.get("kind");
        let wanted = Wanted {
            package,
            kind: kind.map(change_kind).transpose()?,
        };
        let catalog = one.then(|| query.path("name"));
        let mut told = read(query, runtime, catalog, UPDATES, wanted)?;
        told.retain(|told| after.is_none_or(|after| told.update.entry.committed >= after));
        let filtered = ["package", "kind", "since"]
            .into_iter()
            .any(|key| query.parameters.get(key).is_some());
        let name = if one {
            Some(configured(query)?.0.name.as_str())
        } else {
            None
        };
        let body = html! {
            h1 { "Changes" @if let Some(name) = name { " of " (name) } }
            @if let Some(name) = name {
                p { a href=(links::catalog(name, "/changes.atom")) { "Atom feed" } }
            }
            form.inline {
                label { "Package " input type="search" name="package" value=(package.unwrap_or_default()) maxlength="200"; }
                label { "Kind "
                    select name="kind" {
                        option value="" { "all" }
                        @for one in Kind::ALL {
                            @let name = one.as_str();
                            option value=(name) selected[kind == Some(name)] { (name) }
                        }
                    }
                }
                label { "Since " input name="since" value=(since.unwrap_or_default()) maxlength="30" placeholder="2026-01-31"; }
                button { "Filter" }
            }
            (list(&told, if filtered {
                "No change among the recorded updates matches this filter."
            } else {
                "No update changed anything since the history began."
            }))
        };
        let page = Page::new(
            name.map_or_else(|| "Changes".to_owned(), |name| format!("Changes of {name}")),
            body,
        );
        Ok(match name {
            Some(name) => page
                .at([
                    ("Catalogs".to_owned(), "/".to_owned()),
                    (name.to_owned(), links::catalog(name, "")),
                    ("Changes".to_owned(), links::catalog(name, "/changes")),
                ])
                .twin(links::catalog(name, "/api/v1/revisions")),
            None => page,
        })
    };
    request::run(request, &SCANS, &["package", "kind", "since"], work).await
}
