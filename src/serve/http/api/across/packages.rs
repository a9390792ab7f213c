//! A package in every catalog that has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use bytes::Bytes;

use crate::answers::index::PackageAnswers;
use crate::answers::rest::plan::successors;
use crate::answers::rest::records::ChannelRecord;
use crate::name::CatalogName;
use crate::queries::records::packages::{InstalledIn, NextVersion, PackageInCatalog};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, PackagePath, QueryRequest, channels, json, read};
use crate::serve::http::api::response::ACROSS_NOTES;
use crate::serve::http::api::response::{Notes, QueryResponse};
use crate::serve::http::api::updates::{installed, unknown};
use crate::snapshot::Snapshot;
use fbc::text::semver::Version;

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

/// `/api/v1/packages/{package}`.
pub(crate) static NAMED: Operation = Operation {
    id: "packageInAll",
    summary: "A package in every catalog",
    description: "The package with its channels and heads in each catalog that has it and that the \
client may read. With `installed`, each item tells what its catalog has for that \
version; if no catalog has it, `hint` and `suggestions` name the nearest versions.",
    parameters: &[
        Parameter::text("installed", "An installed bundle or its version.")
            .longest(1024)
            .example("1.4.0"),
        Parameter::text(
            "min",
            "Only channels whose head has at least this version in one of the catalogs.",
        )
        .longest(1024)
        .example("2.0.0"),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::list::<PackageInCatalog<'_>>("PackageInCatalogList", ACROSS_NOTES).undated(),
    ),
};

/// The package with its channels and heads, by catalog.
pub(crate) async fn named(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let work = move |query: &AcrossQuery| {
        let parameters = &query.parameters;
        let page = parameters.page(query.content())?;
        let with = with_package(query, &path.package)?;
        let lowest = lowest(parameters)?;
        let (found, hint) = match parameters.get("installed") {
            Some(version) => {
                let (found, hint) = installed_in(&with, version)?;
                (Some(found), hint)
            }
            None => (None, None),
        };
        let mut packages = Vec::new();
        for (_, snapshot, package) in &with {
            packages.push(snapshot.summary(package)?);
        }
        if lowest.is_some() {
            let heads = packages.iter().flat_map(|package| &package.channels);
            let heads = heads.map(|head| (&*head.name, &*head.version));
            let high = high_enough(lowest.as_ref(), heads);
            let high: BTreeSet<String> = high.into_iter().map(str::to_owned).collect();
            for package in &mut packages {
                package
                    .channels
                    .retain(|channel| high.contains(&*channel.name));
            }
        }
        let mut response =
            QueryResponse::list::<PackageInCatalog<'_>>(page, packages.len(), |at| {
                json(&PackageInCatalog {
                    catalog: with[at].0.as_str(),
                    package: packages[at].clone(),
                    installed: found.as_ref().and_then(|found| found.get(at)).cloned(),
                })
            })?;
        let (hint, suggestions) = hint.unzip();
        response.note(Notes {
            hint,
            suggestions: suggestions.unwrap_or_default(),
            ..query.notes()
        });
        Ok(response)
    };
    request.run_across(&LOOKUPS, &NAMED, work).await
}
