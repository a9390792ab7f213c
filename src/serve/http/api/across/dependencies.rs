//! The needs of a version with what fits in each catalog, and the packages that need its
//! package.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::name::CatalogName;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::bundles::{entry, line};
use crate::serve::http::api::dependents::{Dependent, dependents};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, channels, json, read};
use crate::serve::http::api::response::QueryResponse;
use fbc::document::Gvk;
use fbc::presentation::{BundleView, Permissions};
use fbc::text::semver::{Range, Version};

/// The fields of the answer, in their order.
const FIELDS: &[&str] = &[
    "package",
    "bundle",
    "version",
    "needs",
    "moreNeeds",
    "neededBy",
    "permissions",
];

/// How many needs of a version are looked up. Real versions have some.
const MAX_NEEDS: usize = 500;

/// A need of a version.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum Need<'a> {
    /// Another package.
    Package {
        package: String,
        /// As it is written.
        range: String,
        /// Whether the range can be read. Nothing fits one that cannot.
        readable: bool,
        /// The catalogs that have the package.
        catalogs: Vec<Fitting<'a>>,
    },
    /// A kind.
    Api {
        api: &'a Gvk,
        /// The catalogs with packages that provide it.
        catalogs: Vec<Providing<'a>>,
    },
    /// A constraint, as it is written.
    Constraint { value: &'a RawValue },
}

/// What a catalog has of a needed package.
#[derive(Serialize)]
pub(crate) struct Fitting<'a> {
    pub(crate) catalog: &'a str,
    /// The highest version that fits, or why none does.
    #[serde(flatten)]
    pub(crate) best: Fit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Fit {
    Version(String),
    Reason(&'static str),
}

/// The packages of a catalog that provide a needed kind.
#[derive(Serialize)]
pub(crate) struct Providing<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) packages: Vec<&'a str>,
}

/// The packages of a catalog that need a package.
#[derive(Serialize)]
pub(crate) struct NeededBy<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) packages: Vec<Dependent<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DependenciesRecord<'a> {
    package: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    bundle: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    needs: Vec<Need<'a>>,
    /// How many further ones there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_needs: Option<usize>,
    needed_by: Vec<NeededBy<'a>>,
    /// Absent where the catalog has no manifests of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
}

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
    let catalogs = available.iter().map(|one| Fitting {
        catalog: one.catalog,
        best: if one.left_out {
            Fit::Reason("left out for its errors")
        } else {
            match one.versions.iter().find(fits) {
                Some(version) => Fit::Version(version.to_string()),
                None => Fit::Reason("no version fits"),
            }
        },
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
pub(crate) fn needed_by<'a>(query: &'a AcrossQuery, package: &str) -> Vec<NeededBy<'a>> {
    let found = query.loaded().filter_map(|(catalog, snapshot)| {
        let packages = dependents(snapshot, snapshot.package_answers(package)?);
        (!packages.is_empty()).then_some(NeededBy {
            catalog: catalog.as_str(),
            packages,
        })
    });
    found.collect()
}

/// The dependencies of a version of a package.
pub(crate) async fn of_version(request: QueryRequest) -> Response {
    let work = |query: &AcrossQuery| {
        let name: CatalogName = query.path("name").parse().map_err(Problem::catalog_name)?;
        let (_, snapshot) = query.loaded_named(name.as_str())?;
        let wanted = query.path("package");
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
            needed_by: needed_by(query, &package.name),
            permissions: Permissions::from_bundle(&line),
        };
        Ok(QueryResponse::Object {
            json: json(&record)?,
            fields: FIELDS,
        })
    };
    request
        .run_across(&LOOKUPS, &["version", "fields"], work)
        .await
}
