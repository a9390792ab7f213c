//! One version of a package.

use std::collections::{BTreeSet, HashSet};

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::answers::rest::plan::successors;
use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Edge, Installed};
use crate::serve::http::api::bundles::entry;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::pages::package::steps::difference;
use crate::serve::http::pages::package::subject::{Subject, version_field};
use crate::serve::http::pages::parts::{api_version, badge, code, counted, fold, short_name};
use crate::serve::http::pages::{links, markdown, request};
use fbc::presentation::BundleView;
use fbc::text::display::clip;
use fbc::text::semver::{Range, Version};

/// How many versions before and after, and how many skipped ones, are named.
const NAMED: usize = 20;
/// How many APIs, and how many channels of the version, are listed.
const APIS: usize = 200;
const CHANNELS: usize = 100;
/// The longest text of properties, in bytes.
const SHOWN: usize = 16 << 10;

/// The entry of the version in a channel.
type Membership<'a> = (&'a ChannelRecord<'a>, &'a EntryRecord<'a>);

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["with"], |query| {
        let subject = Subject::of(query)?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let name = bundle_of(&subject, &all, query.path("bundle"))?;
        let line = subject.line(name).unwrap_or_default();
        let view = BundleView::new(&line);
        let own = all.iter().filter_map(|channel| {
            let entry = channel.entries.iter().find(|entry| entry.name == name)?;
            Some((channel, entry))
        });
        let own: Vec<Membership<'_>> = own.collect();
        let other = entry(&all, query.parameters.get("with"))?;
        let other = query.parameters.get("with").and(other.map(|entry| &*entry.name));
        let value: Value = serde_json::from_slice(&line).unwrap_or_default();
        let properties = serde_json::to_string_pretty(&value["properties"]).unwrap_or_default();
        let blob = [("schema", "olm.bundle"), ("package", &*subject.record.summary.name), ("name", name)];
        let body = html! {
            (heading(&subject, &own, &view, name))
            (facts(&subject, (&all, &own), &view, name))
            (comparison(&subject, &all, other, name))
            @if !view.provides.is_empty() {
                h3 { "APIs" }
                ul.links { @for api in view.provides.iter().take(APIS) {
                    li { a href=(links::kind(&api.group, &api.kind)) { (api.kind) } " " code { (api_version(api)) } }
                } }
                @if view.provides.len() > APIS { p { "… and " (view.provides.len() - APIS) " more" } }
            }
            @if !view.presentation.description.is_empty() {
                (fold(html! { "Description" }, html! { div.text dir="auto" { (markdown::render(&view.presentation.description)) } }))
            }
            (fold(html! { "Properties" }, html! {
                (code("Properties", &clip(&properties, SHOWN)))
                p { a href=(links::with(&subject.api("metas"), &blob)) { "The whole bundle, as the catalog has it" } }
            }))
        };
        let mut page = subject.page("versions", &body);
        let catalog = subject.catalog.as_str();
        page.title = format!("{name} in {catalog}");
        let address = links::bundle(catalog, &subject.record.summary.name, name);
        page.trail.push((name.to_owned(), address));
        Ok(page.twin(subject.bundle_api(name, &[])))
    })
    .await
}

/// The bundle that the address names, also by its version.
fn bundle_of<'a>(
    subject: &Subject<'_>,
    all: &'a [ChannelRecord<'a>],
    wanted: &'a str,
) -> Result<&'a str, Problem> {
    if subject.line(wanted).is_some() {
        return Ok(wanted);
    }
    let of_version = entry(all, Some(wanted)).ok().flatten();
    let of_version = of_version.filter(|entry| subject.line(&entry.name).is_some());
    of_version.map(|entry| &*entry.name).ok_or_else(|| {
        let entries = all.iter().flat_map(|channel| &channel.entries);
        Problem::unknown("bundle", wanted, entries.map(|entry| &*entry.name))
    })
}

fn heading(
    subject: &Subject<'_>,
    own: &[Membership<'_>],
    view: &BundleView<'_>,
    name: &str,
) -> Markup {
    let deprecation = own
        .iter()
        .find_map(|(_, entry)| entry.deprecation.as_deref());
    html! {
        h2 {
            (if view.version.is_empty() { name } else { &view.version }) " " code { (name) } " "
            @match subject.record.summary.head.as_deref() {
                Some(newest) if newest == name => (badge("good", "newest")),
                Some(newest) => {
                    a href=(links::bundle(subject.catalog.as_str(), &subject.record.summary.name, newest)) {
                        (badge("plain", "not the newest"))
                    }
                },
                None => {},
            }
        }
        @if let Some(reason) = deprecation { p { (badge("deprecated", "deprecated")) " " (reason) } }
        @if !view.image.is_empty() { (code("Image", &view.image)) }
    }
}

/// The places of the version in its channels, and its neighbours.
fn facts(
    subject: &Subject<'_>,
    (all, own): (&[ChannelRecord<'_>], &[Membership<'_>]),
    view: &BundleView<'_>,
    name: &str,
) -> Markup {
    let before = own
        .iter()
        .take(CHANNELS)
        .flat_map(|(channel, entry)| comes_from(channel, entry));
    let before: BTreeSet<&str> = before.collect();
    let installed = Installed {
        name,
        version: Version::parse(&view.version).ok(),
    };
    let next = successors(all, &installed);
    let address = |bundle: &str| {
        links::bundle(
            subject.catalog.as_str(),
            &subject.record.summary.name,
            bundle,
        )
    };
    html! {
        dl.facts {
            @if own.is_empty() { dt { "Channels" } dd { "none: nobody can install it" } }
            @for (channel, entry) in own.iter().take(CHANNELS) {
                dt { "In " (short_name(&channel.name)) }
                dd { (membership(channel, entry)) }
            }
            @if own.len() > CHANNELS { dt { "And" } dd { "in " (counted(own.len() - CHANNELS, "further channel")) } }
            dt { "Came from" }
            dd {
                @if before.is_empty() { "no version of its channels" }
                @for name in &before { a href=(address(name)) { (name) } " " }
            }
            dt { "Goes to" }
            dd {
                @if next.is_empty() { "no entry replaces or skips it" }
                @for one in next.iter().take(NAMED) {
                    @let edges: Vec<&str> = one.edges.iter().map(|edge| edge.as_str()).collect();
                    a href=(address(one.name)) { (one.name) } " (" (edges.join(", ")) " in " (one.channels.join(", ")) ") "
                }
                @if next.len() > NAMED { "… and " (next.len() - NAMED) " more" }
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
    }
}

/// An entry in words.
fn membership(channel: &ChannelRecord<'_>, entry: &EntryRecord<'_>) -> Markup {
    html! {
        @if channel.head.as_deref() == Some(&entry.name) { (badge("good", "head")) " " }
        @if !entry.replaces.is_empty() { (Edge::Replaces.as_str()) " " code { (entry.replaces) } " " }
        @if !entry.skips.is_empty() {
            (Edge::Skips.as_str()) " "
            @for (at, skip) in entry.skips.iter().take(NAMED).enumerate() { @if at > 0 { ", " } (skip) } " "
            @if entry.skips.len() > NAMED { "… and " (entry.skips.len() - NAMED) " more " }
        }
        @if !entry.skip_range.is_empty() { (Edge::SkipRange.as_str()) " " code { (entry.skip_range) } }
    }
}

/// The entries of a channel that an entry replaces or skips, also by its range.
fn comes_from<'a>(
    channel: &'a ChannelRecord<'a>,
    entry: &'a EntryRecord<'a>,
) -> impl Iterator<Item = &'a str> {
    let range = Range::parse(&entry.skip_range).ok();
    let skips: HashSet<&str> = entry.skips.iter().map(|skip| &**skip).collect();
    let others = channel.entries.iter().filter(move |one| {
        let version = Version::parse(&one.version).ok();
        let in_range = version.zip(range.as_ref());
        one.name != entry.name
            && (one.name == entry.replaces
                || skips.contains(&*one.name)
                || in_range.is_some_and(|(version, range)| range.contains(&version)))
    });
    others.take(NAMED).map(|one| &*one.name)
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
                "From " a href=(links::bundle(subject.catalog.as_str(), &subject.record.summary.name, other)) { (other) }
                " to this version"
            }
            @if subject.line(other).is_some() {
                @let changes = difference(subject, other, name);
                p { a href=(subject.bundle_api(other, &[])) { "The other version as JSON" } }
                @if changes.0.is_empty() { p { "The same APIs, no new image, and the same minimum of Kubernetes." } }
                @else { (changes) }
            } @else {
                p { "The catalog has no bundle of this name; an entry of a channel names it only." }
            }
        }
    }
}
