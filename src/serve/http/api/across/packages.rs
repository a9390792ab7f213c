//! A package in every catalog that has it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::answers::index::PackageAnswers;
use crate::answers::rest::plan::successors;
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::Edge;
use crate::name::CatalogName;
use crate::serve::http::api::across::{AcrossQuery, of_catalog};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, channels, json, read};
use crate::serve::http::api::response::{Notes, QueryResponse};
use crate::serve::http::api::updates::{installed, unknown};
use crate::snapshot::Snapshot;
use fbc::text::semver::Version;

/// The fields of the package in a catalog, in their order.
const FIELDS: &[&str] = &[
    "catalog",
    "name",
    "displayName",
    "summary",
    "defaultChannel",
    "head",
    "version",
    "channels",
    "deprecation",
    "quarantined",
    "icon",
    "installed",
];

/// A catalog with a package, its snapshot and the package.
pub(crate) type PackageOf<'a> = (&'a CatalogName, &'a Arc<Snapshot>, &'a PackageAnswers);

/// The catalogs that have a package.
pub(crate) fn with_package<'a>(
    query: &'a AcrossQuery,
    name: &str,
) -> Result<Vec<PackageOf<'a>>, Problem> {
    let with = query.loaded().filter_map(|(catalog, snapshot)| {
        Some((catalog, snapshot, snapshot.package_answers(name)?))
    });
    let with: Vec<_> = with.collect();
    if with.is_empty() {
        let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
        let names = names.map(|package| &*package.name);
        return Err(Problem::unknown("package", name, names));
    }
    Ok(with)
}

/// The lowest version of the heads that are asked for.
pub(crate) fn lowest(parameters: &Parameters) -> Result<Option<Version>, Problem> {
    let read = |text: &str| {
        Version::parse(text).map_err(|error| {
            let detail = format!("min is a version such as 2.1.0: {error}");
            Problem::invalid_parameter("min", detail)
        })
    };
    parameters.get("min").map(read).transpose()
}

/// The channels whose head has at least the lowest version in some catalog. `heads` are the
/// channels of all catalogs, each with the version of its head.
pub(crate) fn high_enough<'a>(
    lowest: Option<&Version>,
    heads: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeSet<&'a str> {
    let is_enough = |version: &str| {
        lowest.is_none_or(|min| Version::parse(version).is_ok_and(|version| version >= *min))
    };
    let heads = heads.into_iter().filter(|(_, version)| is_enough(version));
    heads.map(|(channel, _)| channel).collect()
}

/// A sentence about a version that no catalog has, and the nearest versions.
type Nearest = (String, Vec<String>);

/// What a catalog has for an installed version.
#[derive(Serialize)]
pub(crate) struct InstalledIn {
    /// Whether one of its entries is the version.
    pub(crate) here: bool,
    /// The highest version that an edge leads to at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<NextVersion>,
}

/// A bundle that follows an installed one.
#[derive(Serialize)]
pub(crate) struct NextVersion {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    /// How it follows.
    pub(crate) edges: Vec<Edge>,
}

/// What each of the catalogs has for an installed version; and if none has it, a sentence
/// with the nearest versions.
pub(crate) fn installed_in(
    with: &[PackageOf<'_>],
    version: &str,
) -> Result<(Vec<InstalledIn>, Option<Nearest>), Problem> {
    // Neither names nor versions contain a space: it is an unescaped `+`.
    let version = version.replace(' ', "+");
    let stored: Vec<Vec<Bytes>> = with
        .iter()
        .map(|(_, snapshot, package)| channels(snapshot, package))
        .collect();
    let all: Vec<Vec<ChannelRecord<'_>>> = stored
        .iter()
        .map(|stored| read(stored))
        .collect::<Result<_, _>>()?;
    let every: Vec<ChannelRecord<'_>> = all.iter().flatten().cloned().collect();
    let start = installed(&every, &version)?;
    let name = with.first().map_or("", |(_, _, package)| &*package.name);
    let hint = unknown(name, &every, &start, &version);
    let found = all.iter().map(|channels| {
        let mut entries = channels.iter().flat_map(|channel| &channel.entries);
        // Another catalog may be the one whose entries or edges name it.
        let start = installed(channels, &version).ok();
        let next = start.and_then(|start| {
            let next = successors(channels, &start);
            next.first().map(|one| NextVersion {
                name: one.name.to_owned(),
                version: one.version.to_owned(),
                edges: one.edges.clone(),
            })
        });
        InstalledIn {
            here: entries.any(|entry| entry.name == version || entry.version == version),
            update: next,
        }
    });
    Ok((found.collect(), hint))
}

/// The heads in a stored record.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    channels: Vec<Head<'a>>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    version: Cow<'a, str>,
}

/// The package with its channels and heads, by catalog.
pub(crate) async fn named(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["installed", "min", "limit", "continue", "fields"];
    let work = |query: &AcrossQuery| {
        let parameters = &query.parameters;
        let page = parameters.page(query.content())?;
        let with = with_package(query, query.path("package"))?;
        let lowest = lowest(parameters)?;
        let (found, hint) = match parameters.get("installed") {
            Some(version) => {
                let (found, hint) = installed_in(&with, version)?;
                (Some(found), hint)
            }
            None => (None, None),
        };
        let stored = with.iter().map(|(catalog, snapshot, package)| {
            of_catalog(catalog, &snapshot.answer(package.summary))
        });
        let stored: Vec<Bytes> = stored.collect();
        let parsed: Vec<Stored<'_>> = stored
            .iter()
            .map(|stored| serde_json::from_slice(stored).map_err(unreadable))
            .collect::<Result<_, _>>()?;
        let heads = parsed.iter().flat_map(|stored| &stored.channels);
        let heads = heads.map(|head| (&*head.name, &*head.version));
        let high = lowest
            .as_ref()
            .map(|lowest| high_enough(Some(lowest), heads));
        let mut response = QueryResponse::list(page, stored.len(), FIELDS, |at| {
            let of_installed = found.as_ref().and_then(|found| found.get(at));
            record(&stored[at], high.as_ref(), of_installed)
        })?;
        let (hint, suggestions) = hint.unzip();
        response.note(Notes {
            hint,
            suggestions: suggestions.unwrap_or_default(),
            ..query.notes()
        });
        Ok(response)
    };
    request.run_across(&LOOKUPS, KNOWN, work).await
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn unreadable(error: serde_json::Error) -> Problem {
    tracing::error!(%error, "a stored package cannot be read");
    Problem::internal()
}

/// A stored record with the channels of these names, and what is known of an installed
/// version.
fn record(
    stored: &Bytes,
    channels: Option<&BTreeSet<&str>>,
    installed: Option<&InstalledIn>,
) -> Result<Bytes, Problem> {
    if channels.is_none() && installed.is_none() {
        return Ok(stored.clone());
    }
    let object: HashMap<&str, &RawValue> = serde_json::from_slice(stored).map_err(unreadable)?;
    let mut out = Vec::with_capacity(stored.len());
    // Field names need no escapes, and writing to memory cannot fail.
    for field in FIELDS {
        let Some(value) = object.get(field) else {
            continue;
        };
        let sign = if out.is_empty() { '{' } else { ',' };
        let _ = write!(out, "{sign}\"{field}\":");
        match channels.filter(|_| *field == "channels") {
            None => out.extend_from_slice(value.get().as_bytes()),
            Some(wanted) => {
                let all: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(unreadable)?;
                let mut kept = Vec::new();
                for one in all {
                    let head: Head<'_> = serde_json::from_str(one.get()).map_err(unreadable)?;
                    if wanted.contains(&*head.name) {
                        kept.push(one);
                    }
                }
                out.extend_from_slice(&json(&kept)?);
            }
        }
    }
    if let Some(installed) = installed {
        out.extend_from_slice(b",\"installed\":");
        out.extend_from_slice(&json(installed)?);
    }
    out.push(b'}');
    Ok(out.into())
}
