//! Every route of the HTTP port, by who uses it.
//!
//! A route of the API names its operations, from which the description of the API is made.
//! The routes of `/v2/`, for pulls of images, are in `serve::oci`.

use axum::Router;
use axum::routing::{MethodRouter, any};

use crate::serve::http::api::across::{self, compare as sides, problems as all_problems};
use crate::serve::http::api::description::{self, RouteOperations};
use crate::serve::http::api::operation::Operation;
use crate::serve::http::api::{
    bundles, dependents, examples, history, images, install, lifecycle, packages, plan, providers,
    search, updates,
};
use crate::serve::http::catalogd::content::{self, ALL, METAS};
use crate::serve::http::catalogd::graphql::{self, GRAPHQL};
use crate::serve::http::catalogd::operations as catalogd_operations;
use crate::serve::http::index;
use crate::serve::http::pages::package as tabs;
use crate::serve::http::pages::{
    across as package_page, api as reference, apis, assets, bundle, changes, compare, icon, mirror,
    problems, search as search_page, sign_in,
};
use crate::snapshot::Catalogs;

/// A route of the API.
pub(super) struct ApiRoute {
    path: &'static str,
    handler: MethodRouter<Catalogs>,
    operations: &'static [&'static Operation],
}

/// A route of the API. `$handler` answers all methods.
macro_rules! api {
    ($path:expr, $handler:expr, $($operation:expr),+) => {
        ApiRoute {
            path: $path,
            handler: any($handler),
            operations: const { &[$(&$operation),+] },
        }
    };
}

/// The API of OLM v1's catalogd.
pub(super) fn catalogd() -> Vec<ApiRoute> {
    use catalogd_operations as operations;
    vec![
        api!(ALL, content::all, operations::ALL),
        api!(METAS, content::metas, operations::METAS),
        ApiRoute {
            path: GRAPHQL,
            handler: graphql::route(),
            operations: const { &[&operations::GRAPHQL_PAGE, &operations::GRAPHQL] },
        },
    ]
}

/// The catalogs. Browsers get pages from all but `/api/v1/catalogs`.
pub(super) fn catalogs() -> Vec<ApiRoute> {
    vec![
        api!("/", index::list, index::ROOT),
        api!("/catalogs", index::list, index::CATALOGS),
        api!("/catalogs/{name}", index::one, index::CATALOG),
        api!("/api/v1/catalogs", index::list, index::CATALOGS_OF_ALL),
    ]
}

/// Queries of programs over one catalog.
#[rustfmt::skip] // One line for each route.
pub(super) fn queries() -> Vec<ApiRoute> {
    vec![
        api!("/catalogs/{name}/api/v1/packages", packages::list, packages::LIST),
        api!("/catalogs/{name}/api/v1/packages/{package}", packages::one, packages::ONE),
        api!("/catalogs/{name}/api/v1/packages/{package}/icon", packages::icon, packages::ICON),
        api!("/catalogs/{name}/api/v1/packages/{package}/examples", examples::list, examples::EXAMPLES),
        api!("/catalogs/{name}/api/v1/packages/{package}/dependencies", across::dependencies::of_version, across::dependencies::DEPENDENCIES),
        api!("/catalogs/{name}/api/v1/packages/{package}/install", install::one, install::INSTALL),
        api!("/catalogs/{name}/api/v1/packages/{package}/lifecycle", lifecycle::one, lifecycle::LIFECYCLE),
        api!("/catalogs/{name}/api/v1/packages/{package}/channels", packages::channels, packages::CHANNELS),
        api!("/catalogs/{name}/api/v1/packages/{package}/channels/{channel}", packages::channel, packages::CHANNEL),
        api!("/catalogs/{name}/api/v1/bundles/{bundle}", bundles::named, bundles::NAMED),
        api!("/catalogs/{name}/api/v1/images", images::list, images::LIST),
        api!("/catalogs/{name}/api/v1/providers", providers::of_one, providers::PROVIDERS),
        api!("/catalogs/{name}/api/v1/updates", updates::one, updates::UPDATES),
        api!("/catalogs/{name}/api/v1/plan", plan::one, plan::PLAN),
        api!("/catalogs/{name}/api/v1/dependents", dependents::list, dependents::DEPENDENTS),
        api!("/catalogs/{name}/api/v1/search", search::list, search::SEARCH),
        api!("/catalogs/{name}/api/v1/revisions", history::revisions, history::REVISIONS),
        api!("/catalogs/{name}/api/v1/changes", history::differences, history::CHANGES),
        api!("/catalogs/{name}/api/v1/changes.atom", history::atom, history::FEED_OF_CHANGES),
    ]
}

/// Queries of programs over all catalogs.
#[rustfmt::skip] // One line for each route.
pub(super) fn queries_over_catalogs() -> Vec<ApiRoute> {
    vec![
        api!("/openapi.json", description::show, description::OPENAPI),
        api!("/api/v1/search", across::search::list, across::search::SEARCH),
        api!("/api/v1/facets", across::facets::list, across::facets::FACETED),
        api!("/api/v1/providers", across::providers, across::PROVIDERS),
        api!("/api/v1/packages/{package}", across::packages::named, across::packages::NAMED),
        api!("/api/v1/plan", across::plan::list, across::plan::WAY),
        api!("/api/v1/changes", across::changes::list, across::changes::CHANGES),
        api!("/api/v1/compare", sides::matrix, sides::COMPARE),
        api!("/api/v1/diff", sides::diff, sides::DIFF),
        api!("/api/v1/mirror", across::mirror::list, across::mirror::MIRROR),
        api!("/api/v1/problems", all_problems::list, all_problems::PROBLEMS),
        api!("/api/v1/kinds", all_problems::kind_list, all_problems::KINDS),
    ]
}

/// Pages for people.
pub(super) fn pages() -> Router<Catalogs> {
    let tab = |tab: &str| format!("/catalogs/{{name}}/packages/{{package}}{tab}");
    Router::new()
        .route("/search", any(search_page::show))
        .route("/suggest", any(search_page::suggest))
        .route("/apis", any(apis::list))
        .route("/apis/{group}/{kind}", any(apis::one))
        .route("/compare", any(compare::matrix))
        .route("/compare/diff", any(compare::diff))
        .route("/changes", any(changes::of_all))
        .route("/problems", any(problems::of_all))
        .route("/mirror", any(mirror::show))
        .route("/api", any(reference::show))
        .route("/packages/{package}", any(package_page::show))
        .route("/catalogs/{name}/changes", any(changes::of_one))
        .route("/catalogs/{name}/changes.atom", any(history::atom))
        .route("/catalogs/{name}/problems", any(problems::of_one))
        .route("/catalogs/{name}/icons/{digest}", any(icon::show))
        .route(&tab(""), any(tabs::overview::show))
        .route(&tab("/versions"), any(tabs::versions::show))
        .route(&tab("/graph.svg"), any(tabs::drawing::svg))
        .route(&tab("/graph.mmd"), any(tabs::drawing::mermaid))
        .route(&tab("/updates"), any(tabs::updates::show))
        .route(&tab("/apis"), any(tabs::apis::show))
        .route(&tab("/images"), any(tabs::images::show))
        .route(&tab("/dependencies"), any(tabs::dependencies::show))
        .route(&tab("/install"), any(tabs::install::show))
        .route(&tab("/problems"), any(tabs::problems::show))
        .route(&tab("/history"), any(tabs::history::show))
        .route(&tab("/history.atom"), any(history::atom))
        .route(&tab("/{tab}"), any(tabs::subject::no_tab))
        .route(&tab("/bundles/{bundle}"), any(bundle::show))
        .route("/assets/{hash}/{name}", any(assets::show))
        .route("/sign-in", any(sign_in::show))
        .route("/robots.txt", any(assets::robots))
        .route("/opensearch.xml", any(assets::opensearch))
}

/// A router of routes.
pub(super) fn router(routes: Vec<ApiRoute>) -> Router<Catalogs> {
    let empty = Router::new();
    let routes = routes.into_iter();
    routes.fold(empty, |router, route| {
        router.route(route.path, route.handler)
    })
}

/// The operations of routes.
pub(super) fn operations(routes: &[ApiRoute]) -> impl Iterator<Item = RouteOperations> {
    routes.iter().map(|route| (route.path, route.operations))
}
