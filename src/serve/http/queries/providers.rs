//! The channel entries that provide an API.

use axum::response::Response;
use serde::Serialize;

use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, ParsedQuery, QueryRequest, json, read};
use crate::serve::http::queries::response::QueryResponse;
use crate::snapshot::Provided;
use fbc::document::Gvk;

/// The fields of a provider, in their order.
const FIELDS: &[&str] = &[
    "package",
    "channel",
    "bundle",
    "version",
    "head",
    "defaultChannel",
    "deprecation",
    "quarantined",
    "api",
];

/// An entry of a channel that provides an API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Provider<'a> {
    package: &'a str,
    channel: &'a str,
    bundle: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    head: bool,
    default_channel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    quarantined: bool,
    api: &'a Gvk,
}

/// The entries that provide an API, by package, channel and position in the
/// channel.
pub(super) async fn list(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &[
        "group", "version", "kind", "heads", "limit", "continue", "fields",
    ];
    request.run(&LOOKUPS, KNOWN, found).await
}

fn found(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let parameters = &query.parameters;
    let [group, version, kind] = ["group", "version", "kind"].map(|name| parameters.get(name));
    if group.is_none() && kind.is_none() {
        return Err(Problem::missing_parameter(
            "kind",
            "name the API by \"kind\" or \"group\", or by both, and by \"version\" if it matters",
        ));
    }
    let only_heads = parameters.flag("heads")?;
    let page = parameters.page(&query.snapshot)?;
    let provided = query.snapshot.provided(|api| {
        group.is_none_or(|group| api.group == group)
            && version.is_none_or(|version| api.version == version)
            && kind.is_none_or(|kind| api.kind == kind)
    });
    // Only the items of the page are kept. The others are counted.
    let mut items = Vec::new();
    let mut total = 0;
    let last = page.offset.saturating_add(page.limit);
    for of_package in provided.chunk_by(|one, other| one.package == other.package) {
        let Some(package) = query.snapshot.package_answers(of_package[0].package) else {
            continue;
        };
        let stored = query.channels(package);
        for channel in &read(&stored)? {
            for entry in &channel.entries {
                let head = channel.head.as_ref() == Some(&entry.name);
                if only_heads && !head {
                    continue;
                }
                for provided in of_bundle(of_package, &entry.name) {
                    if (page.offset..last).contains(&total) {
                        items.push(json(&Provider {
                            package: &package.name,
                            channel: &channel.name,
                            bundle: &entry.name,
                            version: &entry.version,
                            head,
                            default_channel: channel.default,
                            deprecation: entry.deprecation.as_deref(),
                            quarantined: channel.quarantined,
                            api: provided.api,
                        })?);
                    }
                    total += 1;
                }
            }
        }
    }
    Ok(QueryResponse::List {
        items,
        total,
        next: page.next(total, &query.snapshot),
        fields: FIELDS,
    })
}

/// The APIs of a bundle, among those of its package, sorted by bundle.
fn of_bundle<'a>(of_package: &'a [Provided<'a>], bundle: &str) -> &'a [Provided<'a>] {
    let start = of_package.partition_point(|provided| provided.bundle < bundle);
    let end = of_package.partition_point(|provided| provided.bundle <= bundle);
    &of_package[start..end]
}
