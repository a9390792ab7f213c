//! The pages of one package in one catalog. Each tab is a page of its own; `subject`
//! has what they have in common.

mod apis;
mod dependencies;
mod drawing;
mod history;
mod images;
mod install;
mod overview;
mod problems;
pub(super) mod steps;
pub(super) mod subject;
mod updates;
mod versions;

use axum::Router;
use axum::routing::any;

use crate::serve::http::api::history::atom;
use crate::snapshot::Catalogs;

/// The routes of all tabs.
pub(super) fn routes() -> Router<Catalogs> {
    let at = |tab: &str| format!("/catalogs/{{name}}/packages/{{package}}{tab}");
    Router::new()
        .route(&at(""), any(overview::show))
        .route(&at("/versions"), any(versions::show))
        .route(&at("/graph.svg"), any(drawing::svg))
        .route(&at("/graph.mmd"), any(drawing::mermaid))
        .route(&at("/updates"), any(updates::show))
        .route(&at("/apis"), any(apis::show))
        .route(&at("/images"), any(images::show))
        .route(&at("/dependencies"), any(dependencies::show))
        .route(&at("/install"), any(install::show))
        .route(&at("/problems"), any(problems::show))
        .route(&at("/history"), any(history::show))
        .route(&at("/history.atom"), any(atom))
        .route(&at("/{tab}"), any(subject::no_tab))
}
