//! The needs of a version with what fits in each catalog, and the packages that need its
//! package.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use axum::extract::Path;
use axum::response::Response;
use serde::Deserialize;

use crate::queries::dependents::dependents;
use crate::queries::records::dependencies::{
    DependenciesRecord, Fitting, Need, NeededBy, Providing,
};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::bundles::{entry, line};
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, PackagePath, QueryRequest, channels, json, read};
use crate::serve::http::api::response::QueryResponse;
use fbc::document::Gvk;
use fbc::presentation::{BundleView, Permissions};
use fbc::text::semver::{Range, Version};

/// How many needs of a version are looked up. Real versions have some.
const MAX_NEEDS: usize = 500;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PackageRequired {
    package_name: String,
    version_range: String,
}

/// The versions that a catalog has of a needed package.
struct Available<'a> {
    catalog: &'a str,
    /// Whether OLM v0 does not see the package.
    left_out: bool,
    /// The highest first, each once.
    versions: Vec<Version>,
}

/// The needs of a bundle, and how many further ones are left out.
pub(crate) fn needs<'a>(
    query: &'a AcrossQuery,
    view: &'a BundleView<'a>,
) -> Result<(Vec<Need<'a>>, usize), Problem> {
    let mut needs = Vec::new();
    // Many needs may name one package.
    let mut known: HashMap<String, Vec<Available<'a>>> = HashMap::new();
    for (kind, value) in view.dependencies.iter().take(MAX_NEEDS) {
        needs.push(if kind == "olm.package.required" {
            let need: PackageRequired = serde_json::from_str(value.get()).unwrap_or_default();
            let found = match known.entry(need.package_name.clone()) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => place.insert(available(query, &need.package_name)?),
            };
            package_need(need, found)
        } else {
            Need::Constraint { value }
        });
    }
    let room = MAX_NEEDS - needs.len();
    needs.extend(api_needs(
        query,
        &view.requires[..view.requires.len().min(room)],
    ));
    let all = view.dependencies.len() + view.requires.len();
    let beyond = all - needs.len();
    Ok((needs, beyond))
}

/// The versions of a package in each catalog that has it.
fn available<'a>(query: &'a AcrossQuery, name: &str) -> Result<Vec<Available<'a>>, Problem> {
    let mut found = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        let Some(package) = snapshot.package_answers(name) else {
            continue;
        };
        let stored = channels(snapshot, package);
        let all = read(&stored)?;
        let entries = all.iter().flat_map(|channel| &channel.entries);
        let versions = entries.filter_map(|entry| Version::parse(&entry.version).ok());
        let mut versions: Vec<Version> = versions.collect();
        versions.sort_by(|one, other| other.cmp(one));
        versions.dedup();
        found.push(Available {
            catalog: catalog.as_str(),
            left_out: package.quarantined,
            versions,
        });
    }
    Ok(found)
}

/// A needed package: in each catalog, its highest version in the wanted range.
fn package_need<'a>(need: PackageRequired, available: &[Available<'a>]) -> Need<'a> {
    let range = Range::parse(&need.version_range).ok();
    let fits = |version: &&Version| range.as_ref().is_some_and(|range| range.contains(version));
    let catalogs = available.iter().map(|one| {
        let (version, reason) = if one.left_out {
            (None, Some("left out for its errors"))
        } else {
            match one.versions.iter().find(fits) {
                Some(version) => (Some(version.to_string()), None),
                None => (None, Some("no version fits")),
            }
        };
        Fitting {
            catalog: one.catalog,
            version,
            reason,
        }
    });
    Need::Package {
        catalogs: catalogs.collect(),
        package: need.package_name,
        range: need.version_range,
        readable: range.is_some(),
    }
}

/// The needed APIs, each with its providers. The APIs of each catalog are looked through once.
fn api_needs<'a>(query: &'a AcrossQuery, apis: &'a [Gvk]) -> Vec<Need<'a>> {
    let wanted: HashSet<&Gvk> = apis.iter().collect();
    let providing = query.loaded().map(|(catalog, snapshot)| {
        let mut packages: HashMap<&Gvk, Vec<&str>> = HashMap::new();
        for one in snapshot.provided(|api| wanted.contains(api)) {
            packages.entry(one.api).or_default().push(one.package);
        }
        (catalog.as_str(), packages)
    });
    let providing: Vec<(&str, HashMap<&Gvk, Vec<&str>>)> = providing.collect();
    let needs = apis.iter().map(|api| Need::Api {
        api,
        catalogs: providing
            .iter()
            .filter_map(|(catalog, packages)| {
                let mut packages = packages.get(api)?.clone();
                packages.dedup();
                Some(Providing { catalog, packages })
            })
            .collect(),
    });
    needs.collect()
}

/// The packages that need a package, in each catalog that has it.
pub(crate) fn needed_by<'a>(
    query: &'a AcrossQuery,
    package: &str,
) -> Result<Vec<NeededBy<'a>>, Problem> {
    let mut found = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        let Some(package) = snapshot.package_answers(package) else {
            continue;
        };
        let packages = dependents(snapshot, package)?;
        if !packages.is_empty() {
            found.push(NeededBy {
                catalog: catalog.as_str(),
                packages,
            });
        }
    }
    Ok(found)
}

/// `/catalogs/{catalog}/api/v1/packages/{package}/dependencies`.
pub(crate) static DEPENDENCIES: Operation = Operation {
    id: "dependencies",
    summary: "The dependencies of a version",
    description: "What the version needs, with the highest version that fits in each catalog that the \
client may read; the packages whose newest version needs this package; and the \
permissions, where the catalog has the manifests.",
    parameters: &[
        Parameter::text(
            "version",
            "The version, by its number or its bundle; by default the head of the default \
channel.",
        ),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<DependenciesRecord<'_>>().undated()),
};

/// The dependencies of a version of a package.
pub(crate) async fn of_version(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let catalog = request.catalog();
    let work = move |query: &AcrossQuery| {
        let (_, snapshot) = query.loaded_named(catalog?.as_str())?;
        let wanted = path.package.as_str();
        let package = snapshot.package_answers(wanted).ok_or_else(|| {
            let names = snapshot.packages().iter();
            Problem::unknown("package", wanted, names.map(|package| &*package.name))
        })?;
        let stored = channels(snapshot, package);
        let all = read(&stored)?;
        let chosen = entry(&all, query.parameters.get("version"))?;
        let (bundle, version) = chosen.map_or(("", ""), |entry| (&*entry.name, &*entry.version));
        let line = line(snapshot, &package.name, bundle).unwrap_or_default();
        let view = BundleView::new(&line);
        let (needs, beyond) = needs(query, &view)?;
        let record = DependenciesRecord {
            package: &package.name,
            bundle,
            version,
            needs,
            more_needs: (beyond > 0).then_some(beyond),
            needed_by: needed_by(query, &package.name)?,
            permissions: Permissions::from_bundle(&line),
        };
        Ok(QueryResponse::object::<DependenciesRecord<'_>>(json(
            &record,
        )?))
    };
    request.run_across(&LOOKUPS, &DEPENDENCIES, work).await
}
