//! The package that a page is about: its records, its frame, and fields to choose from it.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use maud::{Markup, html};

use crate::answers::index::PackageAnswers;
use crate::answers::rest::records::{
    ChannelRecord, PackageDetails, PackageSummary, percent_encoded,
};
use crate::name::CatalogName;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::bundles;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, channels, read};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{add_to_plan, badge, counted, icon, notice, short_name};
use crate::serve::http::pages::request::Shown;
use crate::serve::http::pages::{links, request};
use crate::snapshot::Snapshot;
use fbc::presentation::BundleView;
use fbc::text::semver::Version;

/// The tabs: the last segment of their paths, and their names.
const TABS: [(&str, &str); 9] = [
    ("", "Overview"),
    ("versions", "Versions"),
    ("updates", "Updates"),
    ("apis", "APIs"),
    ("images", "Images"),
    ("dependencies", "Dependencies"),
    ("install", "Install"),
    ("problems", "Problems"),
    ("history", "History"),
];

/// How many versions, or channels, a field offers.
const MAX_CHOICES: usize = 500;

/// A package of a catalog.
pub(crate) struct Subject<'a> {
    pub(crate) catalog: &'a CatalogName,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) package: &'a PackageAnswers,
    pub(crate) record: PackageDetails<'static>,
}

/// A version of the package, chosen by `version` or by default the head of the default
/// channel.
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// The version that a tab is about.
pub(crate) struct ShownVersion<'a> {
    /// All channels of the package.
    all: &'a [ChannelRecord<'a>],
    /// The version; `None` without one that is the newest.
    pub(crate) chosen: Option<Chosen>,
    /// The line of its bundle.
    pub(crate) line: &'a [u8],
    /// The bundle.
    pub(crate) view: BundleView<'a>,
}

impl ShownVersion<'_> {
    /// A heading, with a field to choose another version.
    pub(crate) fn heading(&self, title: &str) -> Markup {
        let current = self.chosen.as_ref().map(|chosen| chosen.name.as_str());
        html! {
            h2 { (title) @if let Some(chosen) = &self.chosen { " of " (chosen.version) } }
            form.inline {
                (version_field("Version", "version", self.all, current, None))
                button { "Show" }
            }
        }
    }

    /// The name of its bundle.
    pub(crate) fn name(&self) -> Option<&str> {
        self.chosen.as_ref().map(|chosen| chosen.name.as_str())
    }
}

impl<'a> Subject<'a> {
    /// The package that the path names.
    pub(crate) fn of(query: &'a AcrossQuery) -> Result<Self, Problem> {
        let shown = Shown::of(query)?;
        let name = query.path("package");
        let package = shown.snapshot.package_answers(name).ok_or_else(|| {
            let names = shown.snapshot.packages().iter();
            Problem::unknown("package", name, names.map(|package| &*package.name))
        })?;
        Ok(Self {
            catalog: shown.name(),
            snapshot: shown.snapshot,
            package,
            record: shown.snapshot.details(package)?,
        })
    }

    /// Its stored channels. [`read`] reads them.
    pub(crate) fn channels(&self) -> Vec<Bytes> {
        channels(self.snapshot, self.package)
    }

    /// The line of a bundle of the package.
    pub(crate) fn line(&self, bundle: &str) -> Option<Bytes> {
        bundles::line(self.snapshot, &self.record.summary.name, bundle)
    }

    /// Makes a tab about the version that the parameter `version` names.
    pub(crate) fn of_version<T>(
        &self,
        query: &AcrossQuery,
        work: impl FnOnce(&ShownVersion<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let stored = self.channels();
        let all = read(&stored)?;
        let chosen = bundles::entry(&all, query.parameters.get("version"))?;
        let chosen = chosen.map(|entry| Chosen {
            name: entry.name.clone().into_owned(),
            version: entry.version.clone().into_owned(),
        });
        let line = chosen.as_ref().and_then(|chosen| self.line(&chosen.name));
        let line = line.unwrap_or_default();
        work(&ShownVersion {
            all: &all,
            chosen,
            line: &line,
            view: BundleView::new(&line),
        })
    }

    /// A mirror plan with it.
    pub(crate) fn plan(&self) -> String {
        links::plan(self.catalog.as_str(), &self.record.summary.name)
    }

    /// The path of one of its tabs.
    pub(crate) fn tab(&self, tab: &str) -> String {
        links::tab(self.catalog.as_str(), &self.record.summary.name, tab)
    }

    /// The path of a JSON route below the package.
    pub(crate) fn own_api(&self, below: &str) -> String {
        let name = percent_encoded(&self.record.summary.name);
        self.api(&format!("packages/{name}{below}"))
    }

    /// The path of the JSON of a bundle, with further parameters.
    pub(crate) fn bundle_api(&self, bundle: &str, more: &[(&str, &str)]) -> String {
        let path = self.api(&format!("bundles/{}", percent_encoded(bundle)));
        let own = [("package", &*self.record.summary.name)];
        links::with(&path, &[&own[..], more].concat())
    }

    /// The path of a JSON route of the catalog.
    pub(crate) fn api(&self, route: &str) -> String {
        links::catalog(self.catalog.as_str(), &format!("/api/v1/{route}"))
    }

    /// A page of the package.
    pub(crate) fn page(&self, tab: &'static str, body: &Markup) -> Page {
        let (catalog, record) = (self.catalog.as_str(), &self.record);
        let name = TABS.iter().find(|(path, _)| *path == tab);
        let name = name.map_or("", |(_, name)| name);
        let whole = html! {
            div.subject {
                (icon(catalog, self.snapshot, &record.summary))
                div {
                    div.title {
                        h1 { bdi { (record.summary.title()) } " " code { (record.summary.name) } }
                        (add_to_plan(catalog, &record.summary))
                    }
                    p {
                        @if record.summary.quarantined { (badge("error", "left out")) " " }
                        @if let Some(reason) = &record.summary.deprecation {
                            (badge("deprecated", "deprecated")) " " bdi { (reason) } " "
                        }
                        bdi { (record.summary.summary) }
                    }
                }
            }
            (tabs(catalog, &record.summary.name, Some(tab), |path| match path {
                "apis" => record.provided_apis.len(),
                "problems" => record.problems.len(),
                _ => 0,
            }))
            @if record.summary.quarantined {
                (notice("error", html! {
                    p { "Left out of the gRPC API: " (counted(record.problems.len(), "problem")) ". "
                        a href=(self.tab("problems")) { "See the problems" } }
                }))
            }
            (body)
        };
        let title = match tab {
            "" => format!("{} in {catalog}", record.summary.name),
            _ => format!("{} · {} in {catalog}", name, record.summary.name),
        };
        let mut trail = vec![
            ("Catalogs".to_owned(), "/".to_owned()),
            (catalog.to_owned(), links::catalog(catalog, "")),
            (record.summary.name.to_string(), self.tab("")),
        ];
        if !tab.is_empty() {
            trail.push((name.to_owned(), self.tab(tab)));
        }
        Page::new(title, whole).at(trail).content(self.snapshot)
    }
}

/// A path below a package that no page has.
pub(crate) async fn no_tab(request: QueryRequest) -> Response {
    let work = |query: &AcrossQuery| {
        Subject::of(query)?;
        let names = TABS.iter().map(|(path, _)| *path);
        let names = names.filter(|path| !path.is_empty());
        Err(Problem::unknown("page", query.path("tab"), names))
    };
    // Whatever the parameters are, the path is wrong.
    request::run(request.without_parameters(), &LOOKUPS, &[], work).await
}

/// The tabs of a package, each with the number of what it lists if that is known.
pub(crate) fn tabs(
    catalog: &str,
    package: &str,
    current: Option<&str>,
    count: impl Fn(&str) -> usize,
) -> Markup {
    html! {
        nav.tabs aria-label="Package" {
            ul {
                @for (path, name) in TABS {
                    li {
                        a href=(links::tab(catalog, package, path)) aria-current=[(current == Some(path)).then_some("page")] {
                            (name)
                            @if count(path) > 0 { " (" (count(path)) ")" }
                        }
                    }
                }
            }
        }
    }
}

/// A field to choose a version with.
pub(crate) fn version_field(
    label: &str,
    name: &str,
    all: &[ChannelRecord<'_>],
    chosen: Option<&str>,
    first: Option<&str>,
) -> Markup {
    let entries = all.iter().flat_map(|channel| &channel.entries);
    let mut entries: Vec<(&str, &str, bool)> = entries
        .map(|entry| (&*entry.name, &*entry.version, entry.deprecation.is_some()))
        .collect();
    entries.sort_by_cached_key(|(name, version, _)| {
        (Reverse(Version::parse(version).ok()), (*name).to_owned())
    });
    entries.dedup();
    let is_chosen = |entry: &(&str, &str, bool)| chosen == Some(entry.0);
    // The chosen one is always among them, also if the catalog has it no more.
    let beyond = entries.iter().skip(MAX_CHOICES).copied().find(is_chosen);
    let unlisted = chosen.filter(|_| !entries.iter().any(is_chosen));
    entries.truncate(MAX_CHOICES);
    entries.extend(beyond);
    html! {
        label { (label) " "
            select name=(name) {
                @if let Some(first) = first { option value="" { (first) } }
                @if let Some(unlisted) = unlisted { option value=(unlisted) selected { (unlisted) } }
                @for (name, version, is_old) in entries {
                    option value=(name) selected[chosen == Some(name)] {
                        @if version.is_empty() { (name) } @else { (version) }
                        @if is_old { " (deprecated)" }
                    }
                }
            }
        }
    }
}

/// A field to choose a channel with.
pub(crate) fn channel_field(record: &PackageSummary<'_>, chosen: &str) -> Markup {
    let (first, rest) = record
        .channels
        .split_at(record.channels.len().min(MAX_CHOICES));
    let beyond = rest.iter().filter(|channel| channel.name == chosen);
    html! {
        label { "Channel "
            select name="channel" {
                @for channel in first.iter().chain(beyond) {
                    option value=(channel.name) selected[channel.name == chosen] {
                        (short_name(&channel.name))
                        @if channel.deprecation.is_some() { " (deprecated)" }
                    }
                }
            }
        }
    }
}
