//! The overview of a package: its description, and the facts about its newest version.

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::records::ChannelRecord;
use crate::serve::http::api::bundles::entry;
use crate::serve::http::api::lifecycle::{day, lifecycles};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::package::versions::ordered;
use crate::serve::http::pages::parts::{
    badge, count, empty, fold, outward, short_name, states, table,
};
use crate::serve::http::pages::{links, markdown, request};
use fbc::lifecycle::{Support, VersionLifecycle, support};
use fbc::text::display::clip;

/// How many versions of a lifecycle, and phases of each, a page lists.
const PHASES: usize = 50;
/// How many categories, links, maintainers, keywords and folded channels are listed, each.
const LISTED: usize = 100;
/// How many channels are shown before a fold.
const CHANNELS: usize = 8;
/// The capability levels in their order.
const LEVELS: [&str; 5] = [
    "basic install",
    "seamless upgrades",
    "full lifecycle",
    "deep insights",
    "auto pilot",
];

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["date"], |query| {
        let subject = Subject::of(query)?;
        let day = day(query.parameters.get("date"))?;
        let record = &subject.record;
        let others = query.loaded().filter(|(name, _)| *name != subject.catalog);
        let others = others.map(|(name, snapshot)| {
            let found = snapshot.package_answers(&record.summary.name);
            let found = found.map(|package| snapshot.summary(package));
            Ok::<_, Problem>((name.as_str(), found.transpose()?))
        });
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let head = entry(&all, None)?;
        let old_head = head.and_then(|head| head.deprecation.as_deref());
        let body = html! {
            div.columns {
                section.text aria-label="Description" {
                    h2.hidden { "Description" }
                    @if record.presentation.description.trim().is_empty() {
                        (empty(html! { p { "Its author wrote no description." } }))
                    } @else {
                        div dir="auto" { (markdown::render(&record.presentation.description)) }
                    }
                }
                aside aria-label="Facts" { (facts(&subject, &ordered(&all), old_head, &day)) }
            }
            @if !others.is_empty() {
                h2 { "In other catalogs" }
                @let with: Vec<_> = others.iter().filter_map(|(catalog, found)| Some((*catalog, found.as_ref()?))).collect();
                @if !with.is_empty() {
                    ul.links {
                        @for (catalog, found) in &with {
                            li { a href=(links::package(catalog, &record.summary.name)) { (catalog) } " " (found.version) " " (states(found)) }
                        }
                        li { a href=(links::across(&record.summary.name)) { "Compare its channels" } }
                    }
                }
                @let without: Vec<&str> = others.iter().filter(|(_, found)| found.is_none()).map(|(catalog, _)| *catalog).collect();
                @if !without.is_empty() { p.soft { "Not in " (without.join(", ")) "." } }
            }
        };
        Ok(subject
            .page("", &body)
            .twin(subject.own_api("")))
    })
    .await
}

/// `all` are the channels in their order; `old_head` is the reason why the newest version is
/// deprecated, if it is.
fn facts(
    subject: &Subject<'_>,
    all: &[&ChannelRecord<'_>],
    old_head: Option<&str>,
    day: &str,
) -> Markup {
    let record = &subject.record;
    let level = LEVELS
        .iter()
        .position(|level| level.eq_ignore_ascii_case(record.presentation.capabilities.trim()));
    let default = all.iter().find(|one| one.default);
    let old_channel = default.and_then(|one| one.deprecation.as_deref());
    html! {
        h2 {
            @if record.summary.default_channel.is_empty() { "No default channel" }
            @else { "Default channel " code { (short_name(&record.summary.default_channel)) } }
        }
        @if let Some(reason) = old_channel { p { (badge("deprecated", "deprecated channel")) " " (reason) } }
        p.version {
            @if record.summary.version.is_empty() {
                "No single newest version: " a href=(subject.tab("versions")) { "see the channels" }
            } @else {
                strong { (record.summary.version) } " "
                a.button href=(subject.tab("install")) { "Install" }
            }
        }
        @if let Some(reason) = old_head { p { (badge("deprecated", "deprecated version")) " " (reason) } }
        (supported(subject, day))
        dl.facts {
            @if !record.presentation.provider.name.is_empty() || !record.presentation.provider.url.is_empty() {
                dt { "Provider" } dd { (outward(&record.presentation.provider.name, &record.presentation.provider.url)) }
            }
            @if !record.presentation.capabilities.is_empty() {
                dt { "Level" }
                dd {
                    @if let Some(level) = level {
                        span.level aria-hidden="true" { (dots(level + 1)) } " "
                    }
                    (record.presentation.capabilities)
                }
            }
            @if !record.presentation.categories.is_empty() {
                dt { "Categories" }
                dd { @for category in record.presentation.categories.iter().take(LISTED) {
                    (searched("category", category)) " "
                } }
            }
            @if !record.presentation.install_modes.is_empty() {
                dt { "Install modes" } dd { (record.presentation.install_modes.join(", ")) }
            }
            @if !record.presentation.architectures.is_empty() {
                dt { "Architectures" } dd { (record.presentation.architectures.join(", ")) }
            }
            @if !record.presentation.infrastructure_features.is_empty() {
                dt { "Features" } dd { (record.presentation.infrastructure_features.join(", ")) }
            }
            @if !record.presentation.unclear_features.is_empty() {
                dt { "Features " (badge("warning", "unclear")) }
                dd { (record.presentation.unclear_features.join(", ")) p.soft { "Their annotations are neither “true” nor “false”." } }
            }
            @if !record.presentation.subscriptions.is_empty() {
                dt { "Subscription" } dd { (record.presentation.subscriptions.join(", ")) }
            }
            @if !record.presentation.min_kube_version.is_empty() {
                dt { "Kubernetes" } dd { "≥ " (record.presentation.min_kube_version) }
            }
            @for (name, value) in [
                ("Maturity", &record.presentation.maturity),
                ("Support", &record.presentation.support),
                ("Created", &record.presentation.created_at),
            ] {
                @if !value.is_empty() { dt { (name) } dd { (value) } }
            }
            @if !record.presentation.container_image.is_empty() {
                dt { "Image" } dd { code { (record.presentation.container_image) } }
            }
            @if !record.presentation.repository.is_empty() {
                dt { "Repository" } dd { (outward("", &record.presentation.repository)) }
            }
            @if !record.presentation.links.is_empty() {
                dt { "Links" }
                dd { ul { @for link in record.presentation.links.iter().take(LISTED) { li { (outward(&link.name, &link.url)) } } } }
            }
            @if !record.presentation.maintainers.is_empty() {
                dt { "Maintainers" }
                dd { ul { @for one in record.presentation.maintainers.iter().take(LISTED) {
                    li { (outward(&one.name, &format!("mailto:{}", one.email))) }
                } } }
            }
            @if !record.presentation.keywords.is_empty() {
                dt { "Keywords" }
                dd { @for word in record.presentation.keywords.iter().take(LISTED) {
                    (searched("q", word)) " "
                } }
            }
            dt { "Channels" }
            dd { (folded(subject, all)) }
        }
    }
}

/// The first channels, the next ones in a fold, and the number of the others.
fn folded(subject: &Subject<'_>, all: &[&ChannelRecord<'_>]) -> Markup {
    let (first, rest) = all.split_at(all.len().min(CHANNELS));
    let listed = &rest[..rest.len().min(LISTED)];
    let beyond = rest.len() - listed.len();
    html! {
        (channels(subject, first))
        @if !rest.is_empty() {
            (fold(html! { (count(rest.len() as u64)) " more" }, html! {
                (channels(subject, listed))
                @if beyond > 0 { p { "… and " (count(beyond as u64)) " more" } }
            }))
        }
    }
}

/// Channels with the versions of their heads.
fn channels(subject: &Subject<'_>, channels: &[&ChannelRecord<'_>]) -> Markup {
    html! {
        ul { @for channel in channels {
            li {
                a href=(links::with(&subject.tab("versions"), &[("channel", &channel.name)])) { (short_name(&channel.name)) }
                " " (channel.version)
                @if channel.deprecation.is_some() { " " (badge("deprecated", "deprecated")) }
            }
        } }
    }
}

/// A word of the package as a search for it, or as text.
fn searched(parameter: &str, text: &str) -> Markup {
    html! {
        @match links::search(parameter, text) {
            Some(link) => a href=(link) { (text) },
            None => (clip(text, 200)),
        }
    }
}

/// The support of the newest version on a day, by the package's lifecycle.
fn supported(subject: &Subject<'_>, day: &str) -> Markup {
    let blobs = lifecycles(subject.snapshot, &subject.record.summary.name);
    let all = blobs.first().map_or(&[][..], |one| one.versions.as_slice());
    html! {
        @match support(&blobs, &subject.record.summary.version, day) {
            Support::Unknown => {},
            Support::Contradicted => p { (badge("warning", "support unclear")) " two lifecycles contradict each other" },
            Support::Ended(_) => p { (badge("warning", "self-support")) " outside of all phases" },
            Support::Phase(phase, version) => {
                p { (badge("good", &phase.name)) @if !phase.end_date.is_empty() { " until " (phase.end_date) } }
                @for platform in &version.platform_compatibility {
                    p.soft { (platform.name) " " (platform.versions.join(", ")) }
                }
            },
        }
        @if blobs.len() == 1 {
            (fold(html! { "Support phases" }, html! {
                (table("Support phases", &["Version", "Phase", "From", "To", "Holds on"], phases(all, day)))
                form.inline {
                    label { "On " input name="date" value=(day) maxlength="10" placeholder="2026-01-31"; }
                    button { "Show" }
                }
                p { a href=(subject.own_api("/lifecycle")) { "as JSON" } }
            }))
        }
    }
}

/// The phases of all versions, with those that hold on a day marked.
fn phases(all: &[VersionLifecycle], day: &str) -> Markup {
    html! {
        @for version in all.iter().take(PHASES) { @for phase in version.phases.iter().take(PHASES) {
            tr {
                th scope="row" { (version.name) } td { (phase.name) }
                td { (phase.start_date) } td { (phase.end_date) }
                td { @if phase.holds_on(day) { (badge("good", day)) } }
            }
        } }
    }
}

fn dots(level: usize) -> String {
    let full = level.min(LEVELS.len());
    format!("{}{}", "●".repeat(full), "○".repeat(LEVELS.len() - full))
}
