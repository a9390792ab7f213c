//! One version of a package.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::answers::rest::records::{ChannelRecord, EntryRecord, percent_encoded};
use crate::serve::http::pages::package::subject::{Subject, version_field};
use crate::serve::http::pages::package::updates::difference;
use crate::serve::http::pages::parts::{badge, code, fold};
use crate::serve::http::pages::{links, markdown, request};
use crate::serve::http::queries::bundles::entry;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::presentation::BundleView;
use fbc::text::display::clip;
use fbc::text::semver::{Range, Version};

/// How many versions before are named, by channel.
const BEFORE: usize = 20;
/// The longest text of properties, in bytes.
const SHOWN: usize = 100 << 10;

/// The entries of a channel that an entry replaces or skips, also by its range.
fn comes_from<'a>(
    channel: &'a ChannelRecord<'a>,
    entry: &'a EntryRecord<'a>,
) -> impl Iterator<Item = &'a str> {
    let range = Range::parse(&entry.skip_range).ok();
    let others = channel.entries.iter().filter(move |one| {
        let version = Version::parse(&one.version).ok();
        let in_range = version.zip(range.as_ref());
        one.name != entry.name
            && (one.name == entry.replaces
                || entry.skips.contains(&one.name)
                || in_range.is_some_and(|(version, range)| range.contains(&version)))
    });
    others.take(BEFORE).map(|one| &*one.name)
}

/// A form to compare a version with another, and what the two differ in.
fn comparison(
    subject: &Subject<'_>,
    all: &[ChannelRecord<'_>],
    other: Option<&str>,
    name: &str,
) -> Markup {
    html! {
        form.inline {
            (version_field("Compare with", "with", all, other, Some("choose")))
            button { "Compare" }
        }
        @if let Some(other) = other {
            h3 {
                "From " a href=(links::bundle(subject.catalog.as_str(), &subject.record.name, other)) { (other) }
                " to this version"
            }
            @let path = subject.api(&format!("bundles/{}", percent_encoded(other)));
            p { a href=(links::with(&path, &[("package", &subject.record.name)])) { "The other version as JSON" } }
            (difference(subject, other, name))
        }
    }
}

pub(super) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["with"], |query| {
        let subject = Subject::of(query)?;
        let name = query.path("bundle");
        let stored = subject.channels();
        let all = read(&stored)?;
        let line = subject.line(name).ok_or_else(|| {
            let entries = all.iter().flat_map(|channel| &channel.entries);
            Problem::unknown("bundle", name, entries.map(|entry| &*entry.name))
        })?;
        let view = BundleView::of(&line);
        let own = all.iter().filter_map(|channel| {
            let entry = channel.entries.iter().find(|entry| entry.name == name)?;
            Some((channel, entry))
        });
        let own: Vec<_> = own.collect();
        let next = all.iter().flat_map(|channel| {
            let after = channel.entries.iter();
            let after = after.filter(|entry| {
                entry.replaces == name || entry.skips.iter().any(|skip| skip == name)
            });
            after.map(move |entry| (channel, entry))
        });
        let next: Vec<_> = next.collect();
        let catalog = subject.catalog.as_str();
        let address = |bundle: &str| links::bundle(catalog, &subject.record.name, bundle);
        let deprecation = own.iter().find_map(|(_, entry)| entry.deprecation.as_deref());
        let newest = subject.record.head.as_deref();
        let other = entry(&all, query.parameters.get("with"))?;
        let other = query.parameters.get("with").and(other.map(|entry| &*entry.name));
        let before = own.iter().flat_map(|(channel, entry)| comes_from(channel, entry));
        let before: BTreeSet<&str> = before.collect();
        let value: Value = serde_json::from_slice(&line).unwrap_or_default();
        let properties = serde_json::to_string_pretty(&value["properties"]).unwrap_or_default();
        let body = html! {
            h2 {
                (if view.version.is_empty() { name } else { &view.version }) " " code { (name) } " "
                @match newest {
                    Some(newest) if newest == name => (badge("good", "newest")),
                    Some(newest) => { a href=(address(newest)) { (badge("plain", "not the newest")) } },
                    None => {},
                }
            }
            @if let Some(reason) = deprecation { p { (badge("deprecated", "deprecated")) " " (reason) } }
            dl.facts {
                dt { "Image" } dd { @if view.image.is_empty() { "none" } @else { code.break { (view.image) } } }
                @if own.is_empty() { dt { "Channels" } dd { "none: nobody can install it" } }
                @for (channel, entry) in &own {
                    dt { "In " (channel.name) }
                    dd {
                        @if channel.head.as_deref() == Some(name) { (badge("good", "head")) " " }
                        @if !entry.replaces.is_empty() { "replaces " code { (entry.replaces) } " " }
                        @if !entry.skips.is_empty() { "skips " (entry.skips.join(", ")) " " }
                        @if !entry.skip_range.is_empty() { "skipRange " code { (entry.skip_range) } }
                    }
                }
                dt { "Came from" }
                dd {
                    @if before.is_empty() { "no version of its channels" }
                    @for name in &before { a href=(address(name)) { (name) } " " }
                }
                dt { "Goes to" }
                dd {
                    @if next.is_empty() { "no entry names it" }
                    @for (channel, entry) in &next {
                        a href=(address(&entry.name)) { (entry.name) } " (" (channel.name) ") "
                    }
                    " · " a href=(links::with(&subject.tab("updates"), &[("from", name)])) { "plan the update" }
                }
                @if !view.presentation.min_kube_version.is_empty() { dt { "Kubernetes" } dd { "≥ " (view.presentation.min_kube_version) } }
                // The tabs know versions of channels only.
                @if let Some((channel, _)) = own.first() {
                    dt { "More" }
                    dd {
                        @for (tab, text) in [("apis", "APIs"), ("images", "images"), ("dependencies", "dependencies")] {
                            a href=(links::with(&subject.tab(tab), &[("version", name)])) { (text) } " "
                        }
                        a href=(links::with(&subject.tab("install"), &[("channel", &channel.name), ("version", name)])) { "install" }
                    }
                }
            }
            (comparison(&subject, &all, other, name))
            @if !view.provides.is_empty() {
                h3 { "APIs" }
                ul.links { @for api in &view.provides { li { a href=(links::kind(&api.group, &api.kind)) { (api.kind) } " " code { (api.group) "/" (api.version) } } } }
            }
            @if !view.presentation.description.is_empty() {
                (fold(html! { "Description" }, html! { div.text { (markdown::render(&view.presentation.description)) } }))
            }
            (fold(html! { "Properties" }, code("Properties", &clip(&properties, SHOWN))))
        };
        let mut page = subject.page("versions", &body);
        page.title = format!("{name} in {catalog}");
        page.trail.push((name.to_owned(), address(name)));
        let twin = links::with(&subject.api(&format!("bundles/{}", crate::answers::rest::records::percent_encoded(name))), &[("package", &subject.record.name)]);
        Ok(page.twin(twin))
    })
    .await
}
