//! Search: one row for each package, with facets whose values are links.

use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde_json::json;

use crate::answers::rest::facets::{FACETS, FacetFilter, parameters};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::facets::{self, Faceted, FoundPackage, REPEATED};
use crate::serve::http::api::across::search::Match;
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::pager::Part;
use crate::serve::http::pages::parts::{
    OLD_DEFAULT, add_to_plan, badge, counted, empty, has_old_default, icon,
};
use crate::serve::http::pages::{links, request};
use fbc::document::Gvk;
use fbc::text::display::clip;
use fbc::text::suggest;

/// The parameters.
static KNOWN: [&str; 12] = parameters(&["q", "catalog", "sort", "page"]);
/// How many packages a page lists.
const ROWS: usize = 30;
/// How many values of a facet are shown before a fold, and at most.
const VALUES: usize = 8;
const MOST_VALUES: usize = 60;
/// The longest value of a facet that is a link, in bytes.
const LONGEST: usize = 200;
/// How many matched kinds of a package are named.
const KINDS: usize = 5;
/// How many suggestions are answered.
const SUGGESTED: usize = 10;

pub(crate) async fn show(request: QueryRequest) -> Response {
    let read = async {
        let mut request = request::parse(request.repeating(&REPEATED), &KNOWN)?;
        let found = facets::found(&mut request.query).await?;
        Ok::<_, Problem>((request, found))
    };
    match read.await {
        Ok((request, found)) => {
            let work = move |query: &AcrossQuery| page(query, found.as_deref());
            request::respond(&LOOKUPS, request, Box::new(work)).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn page(query: &AcrossQuery, found: Option<&[Match]>) -> Result<Page, Problem> {
    let parameters = &query.parameters;
    let words = parameters.get("q").unwrap_or_default();
    let faceted = Faceted::of(query, found)?;
    let mut shown = faceted.shown();
    match parameters.get("sort") {
        None | Some("relevance") => shown.sort_by_key(|row| (row.rank, row.name)),
        Some("name") => shown.sort_by_key(|row| row.name),
        Some(other) => {
            let detail = format!("sort is relevance or name, and not {:?}", cut(other));
            return Err(Problem::invalid_parameter("sort", detail));
        }
    }
    let part = Part::of(parameters.get("page"), shown.len(), ROWS)?;
    let mut items = Vec::new();
    for row in &shown[part.items.clone()] {
        items.push(item(query, &faceted, row)?);
    }
    let title = match words {
        "" => "All packages".to_owned(),
        words => format!("“{words}”"),
    };
    let body = html! {
        h1 { (title) " " small { (counted(shown.len(), "package")) } }
        div.search {
            aside #filters aria-label="Filters" {
                (facet(parameters, "catalog", &faceted.catalog_counts(), |name| faceted.catalogs.contains(&name)))
                @for name in FACETS {
                    (facet(parameters, name, &faceted.counts(name), |value| faceted.filter.wants(name, value)))
                }
            }
            section aria-label="Packages" {
                @if items.is_empty() {
                    (nothing(query, words, &faceted))
                } @else {
                    p.soft {
                        (part.items.start + 1) "–" (part.items.end) " of " (shown.len()) " · sort: "
                        (order(parameters))
                        " " a.to-filters href="#filters" { "Filters" }
                    }
                    ul.packages { @for item in &items { li { (item) } } }
                    (part.links(|number| {
                        let mut all = others(parameters, |key, _| key == "page");
                        all.push(("page", number));
                        links::with("/search", &all)
                    }))
                }
            }
        }
    };
    let twin = links::with(
        "/api/v1/facets",
        &others(parameters, |key, _| ["page", "sort"].contains(&key)),
    );
    let mut page = Page::new(title, body);
    words.clone_into(&mut page.words);
    page.twin = Some(twin);
    Ok(page)
}

fn item(
    query: &AcrossQuery,
    faceted: &Faceted<'_>,
    row: &FoundPackage<'_>,
) -> Result<Markup, Problem> {
    let mut records = Vec::new();
    let mut described = None;
    // Other catalogs may have the package without what is wanted.
    let places = || row.places.iter().filter(|place| faceted.accepts(place));
    for (catalog, package) in places() {
        let (catalog, snapshot) = &query.catalogs[*catalog];
        let found = snapshot
            .as_ref()
            .and_then(|snapshot| Some((snapshot, snapshot.packages().get(*package)?)));
        if let Some((snapshot, package)) = found {
            let catalog = catalog.name.as_str();
            // The first one is described.
            let record = if described.is_none() {
                let details = snapshot.details(package)?;
                let record = details.summary.clone();
                described = Some((catalog, snapshot, details));
                record
            } else {
                snapshot.summary(package)?
            };
            records.push((catalog, record));
        }
    }
    let Some((catalog, snapshot, details)) = &described else {
        return Ok(html! {});
    };
    let first = &details.summary;
    let words = query.parameters.get("q").unwrap_or_default();
    let kinds = matched_kinds(words, &details.provided_apis);
    let facets = places().next().and_then(|place| faceted.facets(place));
    let provider = facets.and_then(|facets| facets.values("provider").first());
    let left_out = records.iter().any(|(_, record)| record.quarantined);
    let deprecated = records
        .iter()
        .any(|(_, record)| record.deprecation.is_some());
    let old_channel = records.iter().any(|(_, record)| has_old_default(record));
    let link = match &records[..] {
        [(catalog, _)] => links::package(catalog, row.name),
        _ => links::across(row.name),
    };
    Ok(html! {
        (icon(catalog, snapshot, first))
        div {
            p.name {
                a href=(link) { (first.title()) } " " code { (row.name) } " "
                @if left_out { (badge("error", "left out")) " " }
                @if deprecated { (badge("deprecated", "deprecated")) " " }
                @else if old_channel { (badge("deprecated", OLD_DEFAULT)) " " }
                (add_to_plan(catalog, first))
            }
            p.soft {
                @if let Some(provider) = provider { "by " bdi { (provider) } }
                @if !details.presentation.capabilities.is_empty() { " · " (details.presentation.capabilities) }
            }
            p { bdi { (first.summary) } }
            p.soft {
                @for (at, (catalog, record)) in records.iter().enumerate() {
                    @if at > 0 { " · " }
                    a href=(links::package(catalog, row.name)) { (catalog) } " " (record.version)
                }
            }
            @if !kinds.is_empty() {
                p.soft { "kind " @for (at, api) in kinds.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(links::kind(&api.group, &api.kind)) { (api.kind) }
                } }
            }
        }
    })
}

/// The kinds of a package whose names have one of the words.
fn matched_kinds<'a>(words: &str, provided: &'a [Gvk]) -> Vec<&'a Gvk> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let mut kinds: Vec<&Gvk> = provided.iter().collect();
    kinds.retain(|api| {
        let kind = api.kind.to_lowercase();
        words.iter().any(|word| kind.contains(word))
    });
    kinds.dedup_by(|one, other| one.group == other.group && one.kind == other.kind);
    kinds.truncate(KINDS);
    kinds
}

/// The values of a facet as links that add or remove a parameter.
fn facet(
    parameters: &Parameters,
    name: &'static str,
    values: &[(&str, usize)],
    chosen: impl Fn(&str) -> bool,
) -> Markup {
    let line = |value: &str, count: usize| {
        let is_chosen = chosen(value);
        html! {
            li {
                @if value.len() <= LONGEST {
                    a href=(toggled(parameters, name, value, is_chosen)) aria-current=[is_chosen.then_some("true")] {
                        @if is_chosen { "✓ " } (value)
                    }
                } @else {
                    span { (clip(value, LONGEST)) }
                }
                span.count { (count) }
            }
        }
    };
    // A chosen value is always shown.
    let (first, rest): (Vec<_>, Vec<_>) = values
        .iter()
        .take(MOST_VALUES)
        .enumerate()
        .partition(|(at, (value, _))| *at < VALUES || chosen(value));
    html! {
        @if !values.is_empty() {
            section.facet {
                h2 { (title(name)) }
                ul { @for (_, (value, count)) in first { (line(value, *count)) } }
                @if !rest.is_empty() {
                    details { summary { (rest.len()) " more" } ul { @for (_, (value, count)) in rest { (line(value, *count)) } } }
                }
            }
        }
    }
}

fn title(facet: &str) -> &'static str {
    match facet {
        "catalog" => "Catalog",
        "category" => "Category",
        "provider" => "Provider",
        "level" => "Capability level",
        "mode" => "Install mode",
        "architecture" => "Architecture",
        "feature" => "Infrastructure",
        "subscription" => "Subscription",
        _ => "State",
    }
}

/// The address with a value of a facet added or removed, on the first page.
fn toggled(parameters: &Parameters, name: &'static str, value: &str, remove: bool) -> String {
    let mut all = others(parameters, |key, given| {
        key == "page" || (remove && key == name && same(name, given, value))
    });
    if !remove {
        all.push((name, value));
    }
    links::with("/search", &all)
}

/// Whether two spellings are one value of a facet.
fn same(facet: &'static str, one: &str, other: &str) -> bool {
    let mut filter = FacetFilter::default();
    filter.add(facet, one);
    filter.wants(facet, other)
}

/// The parameters without some.
fn others(parameters: &Parameters, without: impl Fn(&str, &str) -> bool) -> Vec<(&str, &str)> {
    let given = KNOWN
        .iter()
        .flat_map(|key| parameters.all(key).map(|value| (*key, value)));
    given.filter(|(key, value)| !without(key, value)).collect()
}

/// The orders of the list as links.
fn order(parameters: &Parameters) -> Markup {
    let current = parameters.get("sort").unwrap_or("relevance");
    html! {
        @for name in ["relevance", "name"] {
            @if name == current {
                strong { (name) } " "
            } @else {
                @let others = others(parameters, |key, _| ["sort", "page"].contains(&key));
                a href=(links::with("/search", &[others, vec![("sort", name)]].concat())) { (name) } " "
            }
        }
    }
}

fn nothing(query: &AcrossQuery, words: &str, faceted: &Faceted<'_>) -> Markup {
    let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
    let near = suggest::similar(words, names.map(|package| &*package.name));
    empty(html! {
        p { "No package matches." }
        @if !near.is_empty() {
            p { "Similar names: " @for name in &near { a href=(links::across(name)) { (name) } " " } }
        }
        @if !faceted.filter.is_empty() || !faceted.catalogs.is_empty() {
            @let kept = |name: &'static str| others(&query.parameters, move |key, _| key == name || key == "page");
            @for name in FACETS.into_iter().chain(["catalog"]) {
                @if query.parameters.all(name).next().is_some() {
                    @let values: Vec<String> = query.parameters.all(name).map(|value| clip(value, LONGEST)).collect();
                    p { a href=(links::with("/search", &kept(name))) { "Without the filter " (title(name)) } ": " (values.join(", ")) }
                }
            }
            p { a href=(links::with("/search", &[("q", words)])) { "Search without filters" } }
        }
        p { a href="/search" { "All packages" } }
    })
}

/// Names for the field while somebody types: packages and kinds that begin with the
/// text, then those that contain it.
pub(crate) async fn suggest(request: QueryRequest) -> Response {
    request
        .run_across(&LOOKUPS, &["q"], |query| {
            let wanted = query
                .parameters
                .get("q")
                .unwrap_or_default()
                .trim()
                .to_lowercase();
            let packages = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
            let packages = packages.map(|package| (&*package.name, "package"));
            let kinds = query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
            let kinds = kinds.map(|api| (api.kind.as_str(), "kind"));
            let catalogs = query.catalogs.iter();
            let catalogs = catalogs.map(|(catalog, _)| (catalog.name.as_str(), "catalog"));
            let mut found: Vec<(bool, &str, &str)> = packages
                .chain(kinds)
                .chain(catalogs)
                .filter_map(|(name, what)| {
                    let at = name.to_lowercase().find(&wanted)?;
                    (!wanted.is_empty()).then_some((at > 0, name, what))
                })
                .collect();
            found.sort_unstable();
            found.dedup();
            let items: Vec<_> = found
                .iter()
                .take(SUGGESTED)
                .map(|(_, name, what)| json!({ "name": name, "type": what }))
                .collect();
            Ok(QueryResponse::Text {
                bytes: json!({ "items": items }).to_string().into(),
                media_type: "application/json",
            })
        })
        .await
}
