//! The needs of a version with what fits in each catalog, and the packages that need its
//! package.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::name::CatalogName;
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::bundles::{entry, line};
use crate::serve::http::queries::dependents::{Dependent, dependents};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, channels, json, read};
use crate::serve::http::queries::response::QueryResponse;
use fbc::document::Gvk;
use fbc::presentation::{BundleView, Permissions};
use fbc::text::semver::{Range, Version};

/// The fields of the answer, in their order.
const FIELDS: &[&str] = &[
    "package",
    "bundle",
    "version",
    "needs",
    "neededBy",
    "permissions",
];

/// A need of a version.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(in crate::serve::http) enum Need<'a> {
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
pub(in crate::serve::http) struct Fitting<'a> {
    pub(in crate::serve::http) catalog: &'a str,
    /// The highest version that fits, or why none does.
    #[serde(flatten)]
    pub(in crate::serve::http) best: Fit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::serve::http) enum Fit {
    Version(String),
    Reason(&'static str),
}

/// The packages of a catalog that provide a needed kind.
#[derive(Serialize)]
pub(in crate::serve::http) struct Providing<'a> {
    pub(in crate::serve::http) catalog: &'a str,
    pub(in crate::serve::http) packages: Vec<&'a str>,
}

/// The packages of a catalog that need a package.
#[derive(Serialize)]
pub(in crate::serve::http) struct NeededBy<'a> {
    pub(in crate::serve::http) catalog: &'a str,
    pub(in crate::serve::http) packages: Vec<Dependent<'a>>,
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

/// The needs of a bundle.
pub(in crate::serve::http) fn needs<'a>(
    query: &'a AcrossQuery,
    view: &'a BundleView<'a>,
) -> Result<Vec<Need<'a>>, Problem> {
    let mut needs = Vec::new();
    for (kind, value) in &view.dependencies {
        needs.push(if kind == "olm.package.required" {
            package_need(query, value.get())?
        } else {
            Need::Constraint { value }
        });
    }
    needs.extend(view.requires.iter().map(|api| api_need(query, api)));
    Ok(needs)
}

/// A needed package: in each catalog, its highest version in the wanted range.
fn package_need<'a>(query: &'a AcrossQuery, value: &str) -> Result<Need<'a>, Problem> {
    let need: PackageRequired = serde_json::from_str(value).unwrap_or_default();
    let range = Range::parse(&need.version_range).ok();
    let mut catalogs = Vec::new();
    for (catalog, snapshot) in query.loaded() {
        let Some(package) = snapshot.package_answers(&need.package_name) else {
            continue;
        };
        let stored = channels(snapshot, package);
        let all = read(&stored)?;
        let entries = all.iter().flat_map(|channel| &channel.entries);
        let versions = entries.filter_map(|entry| Version::parse(&entry.version).ok());
        let fits = |version: &Version| range.as_ref().is_some_and(|range| range.contains(version));
        let best = if package.quarantined {
            Fit::Reason("left out for its errors")
        } else {
            match versions.filter(fits).max() {
                Some(version) => Fit::Version(version.to_string()),
                None => Fit::Reason("no version fits"),
            }
        };
        catalogs.push(Fitting {
            catalog: catalog.as_str(),
            best,
        });
    }
    Ok(Need::Package {
        package: need.package_name,
        range: need.version_range,
        readable: range.is_some(),
        catalogs,
    })
}

fn api_need<'a>(query: &'a AcrossQuery, api: &'a Gvk) -> Need<'a> {
    let catalogs = query.loaded().map(|(catalog, snapshot)| {
        let provided = snapshot.provided(|one| one == api);
        let mut packages: Vec<&str> = provided.iter().map(|one| one.package).collect();
        packages.dedup();
        Providing {
            catalog: catalog.as_str(),
            packages,
        }
    });
    Need::Api {
        api,
        catalogs: catalogs.filter(|one| !one.packages.is_empty()).collect(),
    }
}

/// The packages that need a package, in each catalog that has it.
pub(in crate::serve::http) fn needed_by<'a>(
    query: &'a AcrossQuery,
    package: &str,
) -> Vec<NeededBy<'a>> {
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
pub(in crate::serve::http::queries) async fn of_version(request: QueryRequest) -> Response {
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
        let view = BundleView::of(&line);
        let record = DependenciesRecord {
            package: &package.name,
            bundle,
            version,
            needs: needs(query, &view)?,
            needed_by: needed_by(query, &package.name),
            permissions: Permissions::of(&line),
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
