//! The updates of an installed version of a package.

use axum::response::Response;

use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::{Installed, candidates, path};
use crate::queries::records::updates::{InstalledRecord, Updates};
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest, json, read};
use crate::serve::http::api::response::QueryResponse;
use fbc::text::semver::{Constraint, Version};

/// How many versions on each side are named for an unknown one.
const NEAREST: usize = 2;

/// `/catalogs/{catalog}/api/v1/updates`.
pub(crate) static UPDATES: Operation = Operation {
    id: "updates",
    summary: "What may come after a version",
    description: "What OLM v1 may install next, and the way that OLM v0 goes to the head of each \
channel.",
    parameters: &[
        Parameter::text("package", "The package.")
            .required()
            .example("ferry-operator"),
        Parameter::text(
            "from",
            "What is installed: a bundle's name, or a version. Nothing is when it is absent.",
        )
        .example("ferry-operator.v2.0.0"),
        Parameter::repeated("channel", "Only this channel; may be given several times."),
        Parameter::text("range", "Only versions in this range, as OLM v1 reads it.")
            .longest(1024)
            .example(">=2.0.0, <3.0.0"),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<Updates<'_>>()),
};

/// The candidates of OLM v1, and the update path of OLM v0.
pub(crate) async fn one(request: QueryRequest) -> Response {
    request.run(&LOOKUPS, &UPDATES, work).await
}

fn work(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let parameters = &query.parameters;
    let package = parameters.get("package").ok_or_else(|| {
        Problem::missing_parameter("package", "name the package that is to be updated")
    })?;
    let package = query.package(package)?;
    let range = parameters
        .get("range")
        .map(|text| {
            let constraint = Constraint::parse(text).map_err(|error| {
                let detail = format!(
                    "range {:?} cannot be read: {error}; write it like \">=1.2.0, <2.0.0\"",
                    cut(text)
                );
                Problem::invalid_parameter("range", detail)
            })?;
            Ok::<_, Problem>((text, constraint))
        })
        .transpose()?;
    let stored = query.channels(package);
    let all = read(&stored)?;
    // Neither names nor versions contain a space: it is an unescaped `+`.
    let from = parameters.get("from").map(|from| from.replace(' ', "+"));
    let installed = from
        .as_deref()
        .map(|from| installed(&all, from))
        .transpose()?;
    let wanted: Vec<&str> = parameters.all("channel").collect();
    let names = || all.iter().map(|channel| &*channel.name);
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !names().any(|name| name == **wanted))
    {
        return Err(Problem::unknown("channel", unknown, names()));
    }
    let channels: Vec<ChannelRecord<'_>> = (all.iter())
        .filter(|channel| wanted.is_empty() || wanted.contains(&&*channel.name))
        .cloned()
        .collect();
    let unknown = installed
        .as_ref()
        .zip(from.as_deref())
        .and_then(|(installed, from)| unknown(&package.name, &all, installed, from));
    let (hint, suggestions) = unknown.unzip();
    let updates = Updates {
        package: &package.name,
        from: installed.as_ref().map(|installed| InstalledRecord {
            name: installed.name,
            version: installed.version.as_ref().map(ToString::to_string),
        }),
        channels: channels.iter().map(|channel| &*channel.name).collect(),
        range: range.as_ref().map(|(text, _)| *text),
        quarantined: package.quarantined,
        candidates: candidates(
            &channels,
            installed.as_ref(),
            range.as_ref().map(|(_, constraint)| constraint),
        ),
        // OLM v0 does not see a quarantined package.
        paths: if package.quarantined {
            Vec::new()
        } else {
            let paths = channels.iter();
            paths
                .map(|channel| path(channel, installed.as_ref()))
                .collect()
        },
        hint,
        suggestions: suggestions.unwrap_or_default(),
    };
    Ok(QueryResponse::object::<Updates<'_>>(json(&updates)?))
}

/// A sentence about an installed bundle that no channel has, and the nearest versions.
pub(crate) fn unknown(
    package: &str,
    channels: &[ChannelRecord<'_>],
    installed: &Installed<'_>,
    from: &str,
) -> Option<(String, Vec<String>)> {
    if is_known(channels, installed) {
        return None;
    }
    let nearest = nearest(channels, installed);
    Some((hint(package, from, &nearest), nearest))
}

/// Whether an entry has the name or the version of the installed bundle.
fn is_known(channels: &[ChannelRecord<'_>], installed: &Installed<'_>) -> bool {
    let version = installed.version.as_ref().map(ToString::to_string);
    let mut entries = channels.iter().flat_map(|channel| &channel.entries);
    entries.any(|entry| {
        (!installed.name.is_empty() && entry.name == installed.name)
            || version
                .as_ref()
                .is_some_and(|version| *version == entry.version)
    })
}

/// The versions of entries next to the installed one, at most two on each side.
fn nearest(channels: &[ChannelRecord<'_>], installed: &Installed<'_>) -> Vec<String> {
    let Some(installed) = &installed.version else {
        return Vec::new();
    };
    let entries = channels.iter().flat_map(|channel| &channel.entries);
    let mut versions: Vec<Version> = entries
        .filter_map(|entry| Version::parse(&entry.version).ok())
        .collect();
    versions.sort();
    versions.dedup();
    let at = versions.partition_point(|version| version < installed);
    let near = at.saturating_sub(NEAREST)..(at + NEAREST).min(versions.len());
    versions[near].iter().map(ToString::to_string).collect()
}

/// A sentence about a `from` that is not in the catalog.
fn hint(package: &str, from: &str, nearest: &[String]) -> String {
    let mut hint = format!(
        "package {package:?} has no entry {:?}; the answer is for an installed bundle that left \
         the catalog",
        cut(from)
    );
    if !nearest.is_empty() {
        hint.push_str("; the nearest versions are ");
        hint.push_str(&nearest.join(", "));
    }
    hint
}

/// The version in a text, which may begin with `v` and lack its last numbers.
fn written_version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let is_short = text.split('.').all(|part| part.parse::<u64>().is_ok());
    let missing = 3_usize.saturating_sub(text.split('.').count());
    if is_short && missing > 0 {
        return Version::parse(&format!("{text}{}", ".0".repeat(missing))).ok();
    }
    Version::parse(text).ok()
}

/// The meaning of `from`: a bundle of the package, a version, or a removed bundle
/// that edges still name.
pub(crate) fn installed<'a>(
    channels: &'a [ChannelRecord<'a>],
    from: &'a str,
) -> Result<Installed<'a>, Problem> {
    let entries = || channels.iter().flat_map(|channel| &channel.entries);
    if let Some(entry) = entries().find(|entry| entry.name == from) {
        return Ok(Installed {
            name: &entry.name,
            version: Version::parse(&entry.version).ok(),
        });
    }
    if let Some(version) = written_version(from) {
        let text = version.to_string();
        let entry = entries().find(|entry| entry.version == text);
        return Ok(Installed {
            name: entry.map_or("", |entry| &entry.name),
            version: Some(version),
        });
    }
    let named = entries()
        .flat_map(|entry| entry.skips.iter().chain([&entry.replaces]))
        .any(|name| name == from);
    if named {
        let version = from.rsplit_once(".v").map(|(_, version)| version);
        return Ok(Installed {
            name: from,
            version: version.and_then(|version| Version::parse(version).ok()),
        });
    }
    let known = entries().flat_map(|entry| [&*entry.name, &*entry.version]);
    Err(Problem::unknown("bundle", from, known))
}
