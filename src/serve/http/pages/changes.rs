//! What updates changed: of all catalogs, of one, or of one package.

use std::collections::BTreeMap;

use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};

use crate::answers::changes::{Change, Kind, sentence, summary};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, counted, empty, fold};
use crate::serve::http::pages::request::configured;
use crate::serve::http::pages::text::{date, short};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::history::moment;
use crate::serve::http::queries::problem::{Problem, cut};
use crate::serve::http::queries::request::{QueryRequest, SCANS};
use crate::store::HistoryEntry;

/// How many updates of a catalog are read.
pub(super) const UPDATES: u32 = 30;
/// How many changes of an update are listed.
const LISTED: usize = 200;

/// An update of a catalog.
pub(super) struct Update {
    catalog: String,
    entry: HistoryEntry,
    /// The content before.
    before: Option<String>,
}

/// An update with the changes that a page tells.
pub(super) struct Told<'a> {
    update: &'a Update,
    changes: Vec<&'a Change>,
    total: usize,
}

impl Update {
    /// The catalog, the time and the changes in a line; `None` without any.
    pub(super) fn line(&self) -> Option<(&str, String, String)> {
        let recorded = self.entry.changes.as_ref().filter(|one| one.total() > 0)?;
        let time = humantime::format_rfc3339_seconds(self.entry.committed).to_string();
        Some((&self.catalog, time, summary(&recorded.first)))
    }

    fn told(&self) -> Option<Told<'_>> {
        let recorded = self.entry.changes.as_ref()?;
        let changes: Vec<&Change> = recorded.first.iter().collect();
        (recorded.total() > 0).then(|| Told {
            update: self,
            changes,
            total: recorded.total(),
        })
    }

    /// Its changes of a package, if it has any among those that are recorded.
    pub(super) fn of_package(&self, package: &str) -> Option<Told<'_>> {
        self.filtered(Some(package), None)
    }

    /// Its changes of a package and of a kind, of those that are given.
    fn filtered(&self, package: Option<&str>, kind: Option<Kind>) -> Option<Told<'_>> {
        let mut told = self.told()?;
        if package.is_some() || kind.is_some() {
            told.changes.retain(|change| {
                package.is_none_or(|package| change.package == package)
                    && kind.is_none_or(|kind| change.kind == kind)
            });
            told.total = told.changes.len();
        }
        (told.total > 0).then_some(told)
    }
}

/// The last updates, the newest first: of one catalog, or of all that the client may
/// read.
pub(super) async fn read(
    query: &AcrossQuery,
    catalog: Option<&str>,
    most: u32,
) -> Result<Vec<Update>, Problem> {
    let mut updates = Vec::new();
    for (name, snapshot) in query.loaded() {
        if catalog.is_some_and(|wanted| wanted != name.as_str()) {
            continue;
        }
        let entries = snapshot.history().latest(name, most + 1).await;
        let entries = entries.map_err(|error| {
            tracing::error!(%error, "the history cannot be read");
            Problem::internal()
        })?;
        let contents: Vec<String> = entries.iter().map(|entry| entry.content.hex()).collect();
        let before = contents.into_iter().skip(1).map(Some).chain([None]);
        for (entry, before) in entries.into_iter().zip(before) {
            updates.push(Update {
                catalog: name.to_string(),
                entry,
                before,
            });
        }
    }
    updates.sort_by_key(|update| std::cmp::Reverse(update.entry.committed));
    Ok(updates)
}

/// The updates as a list.
pub(super) fn list(told: &[Told<'_>], nothing: &str) -> Markup {
    html! {
        @if told.is_empty() {
            (empty(html! { p { (nothing) } }))
        } @else {
            ol.updates { @for one in told { li { (update(one)) } } }
        }
    }
}

fn update(told: &Told<'_>) -> Markup {
    let (update, entry) = (told.update, &told.update.entry);
    let catalog = update.catalog.as_str();
    let mut packages: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in told.changes.iter().take(LISTED) {
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
        @if told.total > LISTED { p { "… and more" } }
    };
    html! {
        p {
            (date(&humantime::format_rfc3339_seconds(entry.committed).to_string())) " "
            a href=(links::catalog(catalog, "/changes")) { (catalog) } " "
            @if let Some(before) = &update.before { code { (short(before)) } " → " }
            code { (short(&content)) } " "
            (badge("plain", &counted(told.total, "change")))
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
    let read = async {
        let request = request::parse(request, &["package", "kind", "since"])?;
        let wanted = request.query.path("name").to_owned();
        let updates = read(&request.query, one.then_some(&wanted), UPDATES).await?;
        Ok::<_, Problem>((request, updates))
    };
    let (request, updates) = match read.await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let work = move |query: &AcrossQuery| {
        let package = query.parameters.get("package");
        let since = query.parameters.get("since");
        let after = since.map(|since| moment("since", since)).transpose()?;
        let kind = query.parameters.get("kind");
        let wanted = kind.map(change_kind).transpose()?;
        let told: Vec<Told<'_>> = updates
            .iter()
            .filter(|update| after.is_none_or(|after| update.entry.committed >= after))
            .filter_map(|update| update.filtered(package, wanted))
            .collect();
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
            (list(&told, "No update changed anything since the history began."))
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
    request::respond(&SCANS, request, Box::new(work)).await
}
