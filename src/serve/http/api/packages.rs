//! Packages, their icons and their channels: stored responses.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest};
use crate::serve::http::api::response::QueryResponse;
use fbc::presentation::PackageView;

/// The fields of a package in a list, in their order: those up to `icon`.
pub(super) const SUMMARY: &[&str] = DETAILS.split_at(10).0;

/// The same of a package in a list over several catalogs.
pub(super) const SUMMARY_OF_CATALOG: &[&str] = OF_CATALOG.split_at(11).0;

/// The fields of a whole package.
const DETAILS: &[&str] = OF_CATALOG.split_at(1).1;

/// The fields of a whole package and of its catalog.
const OF_CATALOG: &[&str] = &[
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
    "description",
    "keywords",
    "provider",
    "maintainers",
    "links",
    "maturity",
    "minKubeVersion",
    "installModes",
    "categories",
    "capabilities",
    "repository",
    "containerImage",
    "createdAt",
    "support",
    "architectures",
    "infrastructureFeatures",
    "subscriptions",
    "suggestedNamespace",
    "providedApis",
    "problems",
];

/// The fields of a channel.
const CHANNEL: &[&str] = &[
    "package",
    "name",
    "default",
    "head",
    "version",
    "deprecation",
    "quarantined",
    "entries",
];

/// All packages, by name.
pub(super) async fn list(request: QueryRequest) -> Response {
    request
        .run_stored(&["limit", "continue", "fields"], |query| {
            let snapshot = &query.snapshot;
            let page = query.parameters.page(Content::of(snapshot))?;
            let packages = snapshot.packages();
            QueryResponse::list(page, packages.len(), SUMMARY, |at| {
                Ok(snapshot.answer(packages[at].summary))
            })
        })
        .await
}

/// A whole package.
pub(super) async fn one(request: QueryRequest) -> Response {
    request
        .run(&LOOKUPS, &["fields"], |query| {
            let package = query.package(query.path("package"))?;
            Ok(QueryResponse::Object {
                json: query.snapshot.answer(package.details),
                fields: DETAILS,
            })
        })
        .await
}

/// The icon of a package.
pub(super) async fn icon(request: QueryRequest) -> Response {
    request.run(&LOOKUPS, &[], picture).await
}

fn picture(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let package = query.package(query.path("package"))?;
    let line = query.snapshot.line(package.meta);
    let (data, media_type) = PackageView::new(&line)
        .icon
        .ok_or_else(|| Problem::no_icon(&package.name, "has no icon"))?;
    let data = data.replace(['\r', '\n'], "");
    let bytes = STANDARD
        .decode(data)
        .map_err(|_| Problem::no_icon(&package.name, "has an icon that is not base64"))?;
    Ok(QueryResponse::Picture {
        bytes: bytes.into(),
        media_type,
    })
}

/// The channels of a package with their entries, by name.
pub(super) async fn channels(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["channel", "limit", "continue", "fields"];
    let work = |query: &ParsedQuery| {
        let (snapshot, parameters) = (&query.snapshot, &query.parameters);
        let page = parameters.page(Content::of(snapshot))?;
        let package = query.package(query.path("package"))?;
        let names = || package.channels.iter().map(|(name, _)| &**name);
        let wanted: Vec<&str> = parameters.all("channel").collect();
        if let Some(unknown) = wanted
            .iter()
            .find(|wanted| !names().any(|name| name == **wanted))
        {
            return Err(Problem::unknown("channel", unknown, names()));
        }
        let all = package.channels.iter();
        let chosen = all.filter(|(name, _)| wanted.is_empty() || wanted.contains(&&**name));
        let chosen: Vec<_> = chosen.map(|(_, span)| *span).collect();
        QueryResponse::list(page, chosen.len(), CHANNEL, |at| {
            Ok(snapshot.answer(chosen[at]))
        })
    };
    let request = request.repeating(&["channel"]);
    request.run(&LOOKUPS, KNOWN, work).await
}

/// A channel with its entries.
pub(super) async fn channel(request: QueryRequest) -> Response {
    request
        .run(&LOOKUPS, &["fields"], |query| {
            let package = query.package(query.path("package"))?;
            let (wanted, channels) = (query.path("channel"), &package.channels);
            let names = || channels.iter().map(|(name, _)| &**name);
            let at = names()
                .position(|name| name == wanted)
                .ok_or_else(|| Problem::unknown("channel", wanted, names()))?;
            Ok(QueryResponse::Object {
                json: query.snapshot.answer(channels[at].1),
                fields: CHANNEL,
            })
        })
        .await
}
