//! The way of an installed package over several catalogs, in their order.

use axum::response::Response;
use bytes::Bytes;

use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::stages::{Stage, Taken, stages};
use crate::queries::records::updates::WayRecord;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::plan::{rules, subscribed};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, channels, json, read};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::api::updates::installed;

/// How many catalogs a way has at most.
const MOST: usize = 10;

/// Finds the way of a package over catalogs, and hands it to `work` with a word whether
/// the last one takes what comes to it.
pub(crate) fn way<T>(
    query: &AcrossQuery,
    catalogs: &[&str],
    (package, from, channel): (&str, &str, Option<&str>),
    rules: Rules,
    work: impl FnOnce(&[Stage<'_>], bool) -> Result<T, Problem>,
) -> Result<T, Problem> {
    if catalogs.len() > MOST {
        let detail = format!("a way has at most {MOST} catalogs");
        return Err(Problem::invalid_parameter("catalog", detail));
    }
    let mut stored: Vec<(&str, Vec<Bytes>)> = Vec::new();
    for wanted in catalogs {
        let (name, snapshot) = query.loaded_named(wanted)?;
        let answers = snapshot.package_answers(package);
        let records = answers.map_or_else(Vec::new, |answers| channels(snapshot, answers));
        stored.push((name.as_str(), records));
    }
    let mut all: Vec<(&str, Vec<ChannelRecord<'_>>)> = Vec::new();
    for (name, records) in &stored {
        let mut channels = read(records)?;
        // Of the catalogs that have the channel of the subscription, it comes first.
        let has = channels.iter().any(|one| Some(&*one.name) == channel);
        subscribed(&mut channels, channel.filter(|_| has))?;
        all.push((name, channels));
    }
    let Some((_, first)) = all.first().filter(|(_, first)| !first.is_empty()) else {
        let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
        let names = names.map(|package| &*package.name);
        return Err(Problem::unknown("package", package, names));
    };
    if let Some(wanted) = channel
        && !first.iter().any(|one| one.name == wanted)
    {
        let names = first.iter().map(|one| &*one.name);
        return Err(Problem::unknown("channel", wanted, names));
    }
    let start = installed(first, from)?;
    let borrowed: Vec<_> = all
        .iter()
        .map(|(name, channels)| (*name, channels.as_slice()))
        .collect();
    let found = stages(&borrowed, &start, rules);
    let reached =
        found.len() == catalogs.len() && found.last().is_some_and(|stage| stage.taken.is_taken());
    work(&found, reached)
}

/// `/api/v1/plan`.
pub(crate) static WAY: Operation = Operation {
    id: "planOverCatalogs",
    summary: "The way of a package over several catalogs",
    description: "For each pair of neighbours: whether the next catalog has the installed bundle or an \
edge that leaves it, and if not, what to update before.",
    parameters: &[
        Parameter::text("package", "The package.")
            .required()
            .example("ferry-operator"),
        Parameter::text("from", "What is installed: a bundle's name, or a version.")
            .required()
            .example("ferry-operator.v2.0.0"),
        Parameter::repeated("catalog", "The catalogs in their order.")
            .required()
            .example("community"),
        Parameter::text(
            "channel",
            "The channel of the subscription; by default the default channel of each catalog.",
        ),
        Parameter::one_of::<Rules>("rules", "The rules: those of OLM v0 (default) or OLM v1."),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<WayRecord<'_>>().undated()),
};

/// The way over the catalogs that are given.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request.run_across(&LOOKUPS, &WAY, work).await
}

fn work(query: &AcrossQuery) -> Result<QueryResponse, Problem> {
    let parameters = &query.parameters;
    let package = parameters.get("package").ok_or_else(|| {
        Problem::missing_parameter("package", "name the package that is to be updated")
    })?;
    // Neither names nor versions contain a space: it is an unescaped `+`.
    let from = parameters.get("from").map(|from| from.replace(' ', "+"));
    let from = from.ok_or_else(|| {
        Problem::missing_parameter("from", "name the installed bundle or its version")
    })?;
    let catalogs: Vec<&str> = parameters.all("catalog").collect();
    if catalogs.is_empty() {
        let detail = "name the catalogs in their order, each by catalog";
        return Err(Problem::missing_parameter("catalog", detail));
    }
    let rules = rules(parameters.get("rules"))?;
    let channel = parameters.get("channel");
    let subject = (package, from.as_str(), channel);
    way(query, &catalogs, subject, rules, |stages, reached| {
        let record = WayRecord {
            package,
            rules,
            channel,
            from: &from,
            reached,
            stages,
        };
        Ok(QueryResponse::object::<WayRecord<'_>>(json(&record)?))
    })
}

/// How a catalog takes a bundle, in words.
pub(crate) fn words(taken: Taken) -> &'static str {
    match taken {
        Taken::Entry => "has it",
        Taken::Edge => "takes it by an edge",
        Taken::No => "neither has it nor an edge that leaves it",
        Taken::NoPackage => "does not have the package",
    }
}
