//! Bundles by name. A name is a bundle's own in its package only, so the
//! answer is a list, which nearly always has one item.

use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::serve::http::queries::answer::Answer;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::{Asked, Question};
use crate::snapshot::Snapshot;
use fbc::document::Gvk;
use fbc::presentation::{BundleView, Presentation, RelatedImage};

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
    metadata: Metadata<'a>,
}

/// A channel that has the bundle, and how it stands there.
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

/// The bundles of a name.
pub(super) async fn named(question: Question) -> Response {
    question
        .answer(&["package", "limit", "continue", "fields"], list)
        .await
}

fn list(asked: &Asked) -> Result<Answer, Problem> {
    let (snapshot, name) = (&asked.snapshot, asked.path("bundle"));
    let page = asked.parameters.page(snapshot)?;
    let mut metas = snapshot.bundles_named(name);
    if let Some(package) = asked.parameters.get("package") {
        asked.package(package)?;
        metas.retain(|meta| snapshot.package_of(*meta) == package);
    }
    metas.sort_by_key(|meta| (snapshot.package_of(*meta), *meta));
    if metas.is_empty() {
        return Err(Problem::unknown("bundle", name, snapshot.bundle_names()));
    }
    Answer::list(page, metas.len(), snapshot, FIELDS, |at| {
        bundle(asked, name, metas[at])
    })
}

fn bundle(asked: &Asked, name: &str, meta: u32) -> Result<Bytes, Problem> {
    let snapshot = &asked.snapshot;
    let package = snapshot.package_of(meta);
    let answers = snapshot.package_answers(package);
    let stored = answers.map_or_else(Vec::new, |answers| asked.channels(answers));
    let channels = read(&stored)?;
    let places: Vec<(&ChannelRecord<'_>, &EntryRecord<'_>)> = channels
        .iter()
        .filter_map(|channel| {
            let entry = channel.entries.iter().find(|entry| entry.name == name)?;
            Some((channel, entry))
        })
        .collect();
    let line = snapshot.line(meta);
    let view = BundleView::of(&line);
    let presentation = &view.presentation;
    let summary = presentation.summary(&presentation.description);
    let bundle = Bundle {
        name,
        package,
        version: &view.version,
        release: &view.release,
        image: &view.image,
        channels: (places.iter())
            .map(|(channel, entry)| Membership {
                name: &channel.name,
                head: channel.head.as_deref() == Some(name),
                replaces: &entry.replaces,
                skips: &entry.skips,
                skip_range: &entry.skip_range,
            })
            .collect(),
        deprecation: (places.iter()).find_map(|(_, entry)| entry.deprecation.as_deref()),
        // A bundle of a package that is not there is not served either.
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
        metadata: Metadata {
            display_name: &presentation.display_name,
            summary: &summary,
            presentation,
        },
    };
    Ok(json(&bundle))
}

/// Reads stored channels.
pub(super) fn read(stored: &[Bytes]) -> Result<Vec<ChannelRecord<'_>>, Problem> {
    let channels = stored.iter().map(Snapshot::channel_record);
    channels.collect::<Result<_, _>>().map_err(|error| {
        tracing::error!(%error, "a query could not be answered");
        Problem::internal()
    })
}

/// Texts, numbers and lists of them as JSON, which always works.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
