//! The way from an installed version to another, step by step.

use axum::response::Response;

use crate::answers::rest::plan::{Rules, plan};
use crate::answers::rest::records::ChannelRecord;
use crate::queries::records::updates::PlanRecord;
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest, json, read};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::api::updates::{installed, unknown};

/// `/catalogs/{catalog}/api/v1/plan`.
pub(crate) static PLAN: Operation = Operation {
    id: "plan",
    summary: "The steps from a version to another",
    description: "With `to`, the shortest way; a change of the channel is a step of its own under OLM \
v0. Without `to`, the way that OLM v0 goes to the head of the channel, or OLM v1 by \
its best successors.",
    parameters: &[
        Parameter::text("package", "The package.")
            .required()
            .example("ferry-operator"),
        Parameter::text("from", "What is installed: a bundle's name, or a version.")
            .required()
            .example("ferry-operator.v2.0.0"),
        Parameter::text("to", "The bundle to reach, by its name or its version."),
        Parameter::text(
            "channel",
            "The channel of the subscription; by default the default channel.",
        ),
        Parameter::one_of::<Rules>("rules", "The rules: those of OLM v0 (default) or OLM v1."),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<PlanRecord<'_>>()),
};

/// The steps of an update.
pub(crate) async fn one(request: QueryRequest) -> Response {
    request.run(&LOOKUPS, &PLAN, work).await
}

fn work(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let parameters = &query.parameters;
    let package = parameters.get("package").ok_or_else(|| {
        Problem::missing_parameter("package", "name the package that is to be updated")
    })?;
    let package = query.package(package)?;
    // Neither names nor versions contain a space: it is an unescaped `+`.
    let from = parameters.get("from").map(|from| from.replace(' ', "+"));
    let from = from.ok_or_else(|| {
        Problem::missing_parameter("from", "name the installed bundle or its version")
    })?;
    let rules = rules(parameters.get("rules"))?;
    let stored = query.channels(package);
    let mut all = read(&stored)?;
    let channel = subscribed(&mut all, query.parameters.get("channel"))?;
    let start = installed(&all, &from)?;
    let to = parameters
        .get("to")
        .map(|to| target(&all, to))
        .transpose()?;
    let found = plan(&all, &start, to, rules);
    let (hint, suggestions) = unknown(&package.name, &all, &start, &from).unzip();
    let record = PlanRecord {
        package: &package.name,
        rules,
        channel: &channel,
        from: &from,
        to,
        quarantined: package.quarantined,
        reached: found.reached,
        steps: found.steps,
        hint,
        suggestions: suggestions.unwrap_or_default(),
    };
    Ok(QueryResponse::object::<PlanRecord<'_>>(json(&record)?))
}

/// The rules that a parameter names.
pub(crate) fn rules(text: Option<&str>) -> Result<Rules, Problem> {
    match text {
        None | Some("v0") => Ok(Rules::V0),
        Some("v1") => Ok(Rules::V1),
        Some(other) => {
            let detail = format!("rules is v0 or v1, and not {:?}", cut(other));
            Err(Problem::invalid_parameter("rules", detail))
        }
    }
}

/// Puts the channel of the subscription first, by default the default channel, and
/// returns its name.
pub(crate) fn subscribed(
    all: &mut [ChannelRecord<'_>],
    wanted: Option<&str>,
) -> Result<String, Problem> {
    let found = all.iter().position(|channel| match wanted {
        Some(wanted) => channel.name == wanted,
        None => channel.default,
    });
    let at = match (found, wanted) {
        (Some(at), _) => at,
        (None, None) => 0,
        (None, Some(wanted)) => {
            let names = all.iter().map(|channel| &*channel.name);
            return Err(Problem::unknown("channel", wanted, names));
        }
    };
    if let Some(part) = all.get_mut(..=at) {
        part.rotate_right(1);
    }
    let first = all.first();
    Ok(first.map_or_else(String::new, |channel| channel.name.clone().into_owned()))
}

/// The bundle of a name or a version.
pub(crate) fn target<'a>(all: &'a [ChannelRecord<'a>], wanted: &str) -> Result<&'a str, Problem> {
    let wanted = wanted.replace(' ', "+");
    let entries = || all.iter().flat_map(|channel| &channel.entries);
    let found = entries().find(|entry| entry.name == wanted || entry.version == wanted);
    let found = found.map(|entry| &*entry.name);
    found.ok_or_else(|| {
        let names = entries().flat_map(|entry| [&*entry.name, &*entry.version]);
        Problem::unknown("bundle", &wanted, names)
    })
}
