//! The steps of a way of updates, and the differences of two bundles.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::answers::rest::plan::PlanStep;
use crate::answers::rest::updates::Edge;
use crate::serve::http::pages::links;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{badge, counted, fold};
use fbc::document::Gvk;
use fbc::presentation::BundleView;

/// Longer runs of plain steps are folded.
const RUN: usize = 6;
/// How many steps tell all that their bundles change; the others tell their APIs.
const COMPARED: usize = 12;
/// How many changed kinds of a step are listed.
const APIS: usize = 50;

/// The steps; long runs of plain ones are folded.
pub(super) fn steps(subject: &Subject<'_>, all: &[PlanStep<'_>]) -> Markup {
    let plain = |step: &PlanStep<'_>| {
        step.edge == Edge::Replaces
            && step.passed_over.is_empty()
            && step.deprecation.is_none()
            && !step.changes_channel
    };
    let runs: Vec<&[PlanStep<'_>]> = all
        .chunk_by(|one, other| plain(one) && plain(other))
        .collect();
    let apis = LazyCell::new(|| subject.snapshot.apis_of(&subject.record.summary.name));
    let none = BTreeSet::new();
    let change = |from: &str, to: &str, whole: bool| {
        if whole {
            return difference(subject, from, to);
        }
        let of = |bundle: &str| {
            let is_there = subject.line(bundle).is_some();
            is_there.then(|| apis.get(bundle).unwrap_or(&none))
        };
        match (of(from), of(to)) {
            (Some(before), Some(after)) if before != after => {
                html! { ul.changes { (changed_apis(before, after)) } }
            }
            _ => html! {},
        }
    };
    let mut compared = 0;
    let mut number = 1;
    let mut parts = Vec::new();
    for run in runs {
        let first = number;
        number += run.len();
        let items = |whole: bool| {
            html! {
                @for (at, step) in run.iter().enumerate() {
                    (item(subject, step, first + at, &change(step.from, step.to, whole)))
                }
            }
        };
        if run.len() > RUN {
            let (from, last) = (run[0].from, &run[run.len() - 1]);
            parts.push(html! {
                li.folded value=(first) {
                    (fold(
                        html! { (run.len()) " single steps: " (name_of(from)) " → " (last.to) },
                        html! { ol { (items(false)) } },
                    ))
                    (change(from, last.to, true))
                }
            });
        } else {
            compared += run.len();
            parts.push(items(compared <= COMPARED));
        }
    }
    html! { @for part in parts { (part) } }
}

fn item(subject: &Subject<'_>, step: &PlanStep<'_>, number: usize, change: &Markup) -> Markup {
    let catalog = subject.catalog.as_str();
    let link = |name: &str| links::bundle(catalog, &subject.record.summary.name, name);
    html! {
        li value=(number) {
            @if step.changes_channel {
                p { (badge("warning", "change of channel")) " to " code { (step.channel) } }
            }
            p {
                code { (name_of(step.from)) } " → " a href=(link(step.to)) { code { (step.to) } } " "
                @if !step.version.is_empty() { strong { (step.version) } " " }
                (badge("plain", step.edge.as_str()))
                @if let Some(reason) = step.deprecation { " " (badge("deprecated", "deprecated")) " " (reason) }
            }
            @if !step.passed_over.is_empty() {
                p.soft { "passed over: "
                    @for (at, passed) in step.passed_over.iter().enumerate() {
                        @if at > 0 { ", " }
                        (passed.version)
                        @match passed.edge {
                            Some(Edge::Skips) => " (skipped)",
                            Some(Edge::SkipRange) => " (in skipRange)",
                            Some(_) => " (replaced)",
                            None => " (not on the way)",
                        }
                    }
                }
            }
            (change)
        }
    }
}

/// The bundle before a step; the catalog may not have it.
fn name_of(from: &str) -> &str {
    match from {
        "" => "installed",
        name => name,
    }
}

/// Differences of two bundles; empty if there are none, or if the catalog lacks one of them.
pub(crate) fn difference(subject: &Subject<'_>, from: &str, to: &str) -> Markup {
    let (Some(before), Some(after)) = (subject.line(from), subject.line(to)) else {
        return html! {};
    };
    let (before, after) = (BundleView::new(&before), BundleView::new(&after));
    let images = |view: &BundleView<'_>| {
        let images = view.related_images.iter().map(|image| image.image.clone());
        images.collect::<BTreeSet<String>>()
    };
    let added_images = images(&after).difference(&images(&before)).count();
    let kubernetes = &after.presentation.min_kube_version;
    let is_other = *kubernetes != before.presentation.min_kube_version;
    let kubernetes = Some(kubernetes).filter(|version| is_other && !version.is_empty());
    let items = html! {
        (changed_apis(&before.provides.iter().collect(), &after.provides.iter().collect()))
        @if added_images > 0 { li { (counted(added_images, "new image")) } }
        @if let Some(version) = kubernetes { li { "Kubernetes ≥ " (version) } }
    };
    html! {
        @if !items.0.is_empty() { ul.changes { (items) } }
    }
}

/// The APIs that a bundle adds and removes, as items of a list. A kind in another version is
/// one change.
fn changed_apis(before: &BTreeSet<&Gvk>, after: &BTreeSet<&Gvk>) -> Markup {
    let mut kinds: BTreeMap<(&str, &str), Change<'_>> = BTreeMap::new();
    for api in before.union(after) {
        let change = kinds.entry((&api.group, &api.kind)).or_default();
        match (before.contains(api), after.contains(api)) {
            (true, true) => change.kept = true,
            (true, false) => change.gone.push(&api.version),
            (false, _) => change.new.push(&api.version),
        }
    }
    kinds.retain(|_, change| !change.gone.is_empty() || !change.new.is_empty());
    html! {
        @for ((_, kind), change) in kinds.iter().take(APIS) {
            @let (gone, new) = (change.gone.join(", "), change.new.join(", "));
            li {
                @match (gone.is_empty(), new.is_empty()) {
                    (true, _) => { "+ " (kind) " " (new) },
                    (_, false) => { (kind) " " (gone) " → " (new) " " (badge("warning", "version changed")) },
                    _ if change.kept => { "− " (kind) " " (gone) " " (badge("warning", "version removed")) },
                    _ => { "− " (kind) " " (gone) " " (badge("warning", "API removed")) },
                }
            }
        }
        @if kinds.len() > APIS { li { "… and " (counted(kinds.len() - APIS, "more kind")) } }
    }
}

/// The versions of a kind that come and go.
#[derive(Default)]
struct Change<'a> {
    gone: Vec<&'a str>,
    new: Vec<&'a str>,
    /// Whether another version stays.
    kept: bool,
}
