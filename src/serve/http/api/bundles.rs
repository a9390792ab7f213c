//! Bundles by name. Names are unique within a package only, so the response is a
//! list, nearly always with one item.

use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, ParsedQuery, QueryRequest, json, read};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::Snapshot;
use fbc::document::Gvk;
use fbc::presentation::{BundleView, Permissions, Presentation, RelatedImage};

/// The fields of a bundle, in their order.
const FIELDS: &[&str] = &[
    "name",
    "package",
    "version",
    "release",
    "image",
    "channels",
    "deprecation",
    "quarantined",
    "providedApis",
    "requiredApis",
    "dependencies",
    "relatedImages",
    "permissions",
    "metadata",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bundle<'a> {
    name: &'a str,
    package: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    release: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
    channels: Vec<Membership<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    quarantined: bool,
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    provided_apis: &'a [Gvk],
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    required_apis: &'a [Gvk],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<Dependency<'a>>,
    #[serde(skip_serializing_if = "<[RelatedImage]>::is_empty")]
    related_images: &'a [RelatedImage],
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
    metadata: Metadata<'a>,
}

/// The entry of the bundle in a channel.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Membership<'a> {
    name: &'a str,
    head: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    replaces: &'a str,
    #[serde(skip_serializing_if = "<[std::borrow::Cow<'_, str>]>::is_empty")]
    skips: &'a [std::borrow::Cow<'a, str>],
    #[serde(skip_serializing_if = "str::is_empty")]
    skip_range: &'a str,
}

#[derive(Serialize)]
struct Dependency<'a> {
    r#type: &'a str,
    value: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    summary: &'a str,
    #[serde(flatten)]
    presentation: &'a Presentation,
}

/// The entry of a package that a parameter names by its bundle or its version; by default
/// the head of the default channel, if there is one.
pub(crate) fn entry<'a>(
    all: &'a [ChannelRecord<'a>],
    wanted: Option<&str>,
) -> Result<Option<&'a EntryRecord<'a>>, Problem> {
    let entries = || all.iter().flat_map(|channel| &channel.entries);
    let Some(wanted) = wanted else {
        let default = all.iter().find(|channel| channel.default);
        let head = default.and_then(|channel| channel.head.as_deref());
        return Ok(entries().find(|entry| Some(&*entry.name) == head));
    };
    // Neither names nor versions contain a space: it is an unescaped `+`.
    let wanted = wanted.replace(' ', "+");
    let found = entries().find(|entry| entry.name == wanted || entry.version == wanted);
    let found = found.ok_or_else(|| {
        let names = entries().flat_map(|entry| [&*entry.name, &*entry.version]);
        Problem::unknown("version", &wanted, names)
    })?;
    Ok(Some(found))
}

/// The line of a bundle of a package.
pub(crate) fn line(snapshot: &Snapshot, package: &str, bundle: &str) -> Option<Bytes> {
    let metas = snapshot.bundles_named(bundle);
    let mut own = metas.into_iter();
    let meta = own.find(|meta| snapshot.package_of(*meta) == package)?;
    Some(snapshot.line(meta))
}

/// The bundles of a name.
pub(super) async fn named(request: QueryRequest) -> Response {
    request
        .run(&LOOKUPS, &["package", "limit", "continue", "fields"], list)
        .await
}

fn list(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let (snapshot, name) = (&query.snapshot, query.path("bundle"));
    let page = query.parameters.page(Content::of(snapshot))?;
    let mut metas = snapshot.bundles_named(name);
    if let Some(package) = query.parameters.get("package") {
        query.package(package)?;
        metas.retain(|meta| snapshot.package_of(*meta) == package);
    }
    metas.sort_by_key(|meta| (snapshot.package_of(*meta), *meta));
    if metas.is_empty() {
        return Err(Problem::unknown("bundle", name, snapshot.bundle_names()));
    }
    QueryResponse::list(page, metas.len(), FIELDS, |at| {
        bundle(query, name, metas[at])
    })
}

fn bundle(query: &ParsedQuery, name: &str, meta: u32) -> Result<Bytes, Problem> {
    let snapshot = &query.snapshot;
    let package = snapshot.package_of(meta);
    let answers = snapshot.package_answers(package);
    let stored = answers.map_or_else(Vec::new, |answers| query.channels(answers));
    let channels = read(&stored)?;
    let memberships: Vec<(&ChannelRecord<'_>, &EntryRecord<'_>)> = channels
        .iter()
        .filter_map(|channel| {
            let entry = channel.entries.iter().find(|entry| entry.name == name)?;
            Some((channel, entry))
        })
        .collect();
    let line = snapshot.line(meta);
    let view = BundleView::new(&line);
    let presentation = &view.presentation;
    let summary = presentation.summary(&presentation.description);
    let bundle = Bundle {
        name,
        package,
        version: &view.version,
        release: &view.release,
        image: &view.image,
        channels: (memberships.iter())
            .map(|(channel, entry)| Membership {
                name: &channel.name,
                head: channel.head.as_deref() == Some(name),
                replaces: &entry.replaces,
                skips: &entry.skips,
                skip_range: &entry.skip_range,
            })
            .collect(),
        deprecation: (memberships.iter()).find_map(|(_, entry)| entry.deprecation.as_deref()),
        // A bundle without a package is not served over gRPC.
        quarantined: answers.is_none_or(|answers| answers.quarantined),
        provided_apis: &view.provides,
        required_apis: &view.requires,
        dependencies: (view.dependencies.iter())
            .map(|(kind, value)| Dependency {
                r#type: kind,
                value,
            })
            .collect(),
        related_images: &view.related_images,
        permissions: Permissions::from_bundle(&line),
        metadata: Metadata {
            display_name: &presentation.display_name,
            summary: &summary,
            presentation,
        },
    };
    json(&bundle)
}
