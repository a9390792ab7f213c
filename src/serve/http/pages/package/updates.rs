//! The way from an installed version to another, step by step, with reasons.

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::plan::{Plan, PlanStep, Rules, plan, successors};
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::Installed;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::plan::{way, words};
use crate::serve::http::api::plan::{rules, subscribed, target};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::api::updates::{installed, unknown};
use crate::serve::http::pages::package::steps::steps;
use crate::serve::http::pages::package::subject::{Subject, channel_field, version_field};
use crate::serve::http::pages::parts::{badge, counted, empty, fold, notice};
use crate::serve::http::pages::text::sentence;
use crate::serve::http::pages::{links, request};

/// How many further catalogs a form offers.
const VIA: usize = 6;
/// How many successors are listed.
const SUCCESSORS: usize = 20;

pub(crate) async fn show(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["from", "to", "channel", "rules", "via"];
    let request = request.repeating(&["via"]);
    request::run(request, &LOOKUPS, KNOWN, |query| {
        let subject = Subject::of(query)?;
        let (record, parameters) = (&subject.record, &query.parameters);
        let stored = subject.channels();
        let mut all = read(&stored)?;
        let rules = rules(parameters.get("rules"))?;
        if all.is_empty() {
            let body = html! { (empty(html! { p { "This package has no channel, so it has no updates." } })) };
            return Ok(subject.page("updates", &body));
        }
        let from = parameters.get("from").map(|from| from.replace(' ', "+"));
        // A subscription is to a channel that has the installed version.
        let of_version = from.as_deref().and_then(|from| channel_of(&all, from));
        let wanted = parameters.get("channel").or(of_version.as_deref());
        let channel = subscribed(&mut all, wanted)?;
        let (all, channel) = (all, channel.as_str());
        let start = from.as_deref().map(|from| installed(&all, from)).transpose()?;
        let to = parameters.get("to");
        let target = to.map(|to| target(&all, to)).transpose()?;
        // An installed version that left the catalog stays in the form.
        let chosen = start.as_ref().map(|start| match start.name {
            "" => from.as_deref().unwrap_or_default(),
            name => name,
        });
        let body = html! {
            h2 { "Plan an update" }
            form.fields {
                (version_field("From", "from", &all, chosen, Some("choose")))
                (version_field("To", "to", &all, target, Some("newest")))
                (channel_field(&record.summary, channel))
                label { "Rules "
                    select name="rules" {
                        @for (value, name) in [(Rules::V0, "OLM v0"), (Rules::V1, "OLM v1")] {
                            option value=(value.as_str()) selected[value == rules] { (name) }
                        }
                    }
                }
                (catalogs_field(query, &subject))
                button { "Plan" }
            }
            @match &start {
                None => (empty(html! { p { "Choose the installed version to see each step to the newest one." } })),
                Some(start) => {
                    @let from_text = from.as_deref().unwrap_or_default();
                    @if let Some((hint, _)) = unknown(&record.summary.name, &all, start, from_text) {
                        (notice("warning", html! { p { (sentence(&hint)) } }))
                    }
                    (planned(&subject, &plan(&all, start, target, rules), start, target, channel))
                    @if let (Some(from), None, Rules::V0) = (&from, target, rules) {
                        (other_ways(&subject, &all, start, (from, channel)))
                    }
                    (olm_v1(&subject, &all, start))
                    @if let Some(from) = &from { (over_catalogs(query, &subject, (from, channel), rules)?) }
                },
            }
        };
        let twin = links::with(
            &subject.api(if from.is_some() { "plan" } else { "updates" }),
            &[
                ("package", &*record.summary.name),
                ("from", from.as_deref().unwrap_or_default()),
                ("to", target.unwrap_or_default()),
                ("channel", channel),
                ("rules", if from.is_some() { rules.as_str() } else { "" }),
            ],
        );
        Ok(subject.page("updates", &body).twin(twin))
    })
    .await
}

/// A channel with a version, if the default one lacks it.
fn channel_of(all: &[ChannelRecord<'_>], version: &str) -> Option<String> {
    let has = |channel: &&ChannelRecord<'_>| {
        let mut entries = channel.entries.iter();
        entries.any(|entry| entry.name == version || entry.version == version)
    };
    if all
        .iter()
        .filter(|channel| channel.default)
        .any(|one| has(&one))
    {
        return None;
    }
    all.iter().find(has).map(|channel| channel.name.to_string())
}

fn planned(
    subject: &Subject<'_>,
    plan: &Plan<'_>,
    start: &Installed<'_>,
    target: Option<&str>,
    channel: &str,
) -> Markup {
    let last = plan.steps.last().map_or(start.name, |step| step.to);
    html! {
        @match (plan.reached, plan.steps.len(), target) {
            _ if plan.rules == Rules::V0 && subject.record.summary.quarantined => (notice("warning", html! {
                p { "No way under OLM v0: it does not see a package that is left out for its errors." }
            })),
            (true, 0, _) => (notice("good", html! { p { "Nothing to do: this is the newest version that the rules reach." } })),
            (true, steps, None) if plan.rules == Rules::V0 => p.lead { (channel) ": " (counted(steps, "step")) ", reaches the head" },
            (true, steps, _) => p.lead { (counted(steps, "step")) },
            (false, _, Some(to)) => (notice("warning", html! {
                p { "No way leads to " code { (to) } " under OLM " (plan.rules.as_str()) "." }
            })),
            (false, 0, None) => (notice("warning", html! {
                p { "No update: nothing in " code { (channel) } " follows this version under OLM " (plan.rules.as_str()) "." }
            })),
            (false, steps, None) => {
                p.lead { (channel) ": " (counted(steps, "step")) }
                (notice("warning", html! {
                    p { "The way ends at " code { (last) } ", before the head: nothing here follows it." }
                }))
            },
        }
        @if !plan.steps.is_empty() { ol.steps { (steps(subject, &plan.steps)) } }
    }
}

/// Ways of OLM v0 with a change of the channel: a shorter one to the head, and the one to the
/// head of the default channel.
fn other_ways<'a>(
    subject: &Subject<'_>,
    all: &'a [ChannelRecord<'a>],
    start: &Installed<'a>,
    (from, channel): (&str, &str),
) -> Markup {
    let own = plan(all, start, None, Rules::V0);
    let head = |channel: Option<&'a ChannelRecord<'a>>| channel?.head.as_deref();
    let (here, default) = (head(all.first()), head(all.iter().find(|one| one.default)));
    let way = |head: &'a str| (head, plan(all, start, Some(head), Rules::V0));
    let shorter = here.map(way).filter(|(_, other)| {
        other.reached && (!own.reached || other.steps.len() < own.steps.len())
    });
    let onward = default.filter(|default| Some(*default) != here).map(way);
    let onward = onward.filter(|(_, other)| other.reached && !other.steps.is_empty());
    let link = |(head, other): &(&str, Plan<'_>)| {
        let parameters = [("from", from), ("to", *head), ("channel", channel)];
        let link = links::with(&subject.tab("updates"), &parameters);
        html! { a href=(link) { (counted(other.steps.len(), "step")) } }
    };
    html! {
        @if let Some(way) = &shorter {
            p { "Another way: " (link(way)) ", with a change of the channel" }
        }
        @if let Some(way) = &onward {
            p { "To " code { (way.0) } ", the head of the default channel: " (link(way)) ", with a change of the channel" }
        }
    }
}

/// The catalogs that the way goes on to, in their order.
fn via(query: &AcrossQuery) -> Vec<&str> {
    query.parameters.all("via").collect()
}

/// Fields for the catalogs that a way goes on to, if another has the package.
fn catalogs_field(query: &AcrossQuery, subject: &Subject<'_>) -> Markup {
    let others = query.loaded().filter(|(name, snapshot)| {
        let has = snapshot
            .package_answers(&subject.record.summary.name)
            .is_some();
        has && *name != subject.catalog
    });
    let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    let chosen = via(query);
    let fields = (chosen.len() + 1).max(2).min(others.len()).min(VIA);
    html! {
        @if !others.is_empty() {
            fieldset.catalogs {
                legend { "Over catalogs" }
                (subject.catalog)
                @for at in 0..fields {
                    label { " → " span.hidden { "then " }
                        select name="via" {
                            option value="" { "–" }
                            @for name in &others {
                                option value=(name) selected[chosen.get(at) == Some(name)] { (name) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The way over catalogs: what to update before each.
fn over_catalogs(
    query: &AcrossQuery,
    subject: &Subject<'_>,
    (from, channel): (&str, &str),
    rules: Rules,
) -> Result<Markup, Problem> {
    let mut catalogs = vec![subject.catalog.as_str()];
    catalogs.extend(via(query));
    if catalogs.len() < 2 {
        return Ok(html! {});
    }
    let name = &*subject.record.summary.name;
    let about = (name, from, Some(channel));
    way(query, &catalogs, about, rules, |stages, reached| {
        let mut parameters = vec![("package", name), ("from", from), ("channel", channel)];
        parameters.push(("rules", rules.as_str()));
        parameters.extend(catalogs.iter().map(|catalog| ("catalog", *catalog)));
        Ok(html! {
            h3 #catalogs { "Over catalogs: " (catalogs.join(" → ")) }
            @if reached {
                (notice("good", html! { p { "The way leads through every catalog." } }))
            } @else {
                (notice("warning", html! { p { "The way ends before the last catalog." } }))
            }
            ol.stages {
                @for (at, stage) in stages.iter().enumerate() { li {
                    strong { (stage.catalog) } " " (words(stage.taken))
                    @let link = |step: &PlanStep<'_>| links::bundle(stage.catalog, name, step.to);
                    @if let Some(last) = stage.steps.last() {
                        @let shown = if last.version.is_empty() { last.to } else { last.version };
                        p {
                            @match catalogs.get(at + 1) {
                                Some(next) => { "be at ≥ " a href=(link(last)) { (shown) } " before " (next) },
                                None => { "goes on to " a href=(link(last)) { (shown) } },
                            }
                            ", " (counted(stage.steps.len(), "step"))
                        }
                        (fold(html! { "Steps" }, html! { ul.links {
                            @for step in &stage.steps { li {
                                a href=(link(step)) { (step.to) } " " (badge("plain", step.edge.as_str()))
                                @if step.changes_channel { " in " (step.channel) }
                            } }
                        } }))
                    }
                } }
            }
            p { a href=(links::with("/api/v1/plan", &parameters)) { "This way as JSON" } }
        })
    })
}

/// Versions that OLM v1 may go to at once.
fn olm_v1(subject: &Subject<'_>, all: &[ChannelRecord<'_>], start: &Installed<'_>) -> Markup {
    let next = successors(all, start);
    html! {
        h3 { "OLM v1 at once" }
        @if next.is_empty() {
            p { "Nothing: no entry of any channel replaces or skips this version." }
        } @else {
            ul.links {
                @for (at, one) in next.iter().take(SUCCESSORS).enumerate() {
                    li {
                        a href=(links::bundle(subject.catalog.as_str(), &subject.record.summary.name, one.name)) { (one.version) }
                        " " span.soft { (one.channels.join(", ")) }
                        @if at == 0 { " " (badge("good", "highest")) }
                        @if one.deprecation.is_some() { " " (badge("deprecated", "deprecated")) }
                    }
                }
                @if next.len() > SUCCESSORS { li { "… and " (next.len() - SUCCESSORS) " more" } }
            }
        }
    }
}
