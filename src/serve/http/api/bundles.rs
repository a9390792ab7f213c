//! Bundles by name. Names are unique within a package only, so the response is a
//! list, nearly always with one item.

use axum::extract::Path;
use axum::response::Response;
use bytes::Bytes;

use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::queries::records::bundles::{Bundle, Dependency, Membership, Metadata};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{
    BundlePath, LOOKUPS, ParsedQuery, QueryRequest, json, read,
};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::Snapshot;
use fbc::presentation::{BundleView, Permissions};

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

/// `/catalogs/{catalog}/api/v1/bundles/{bundle}`.
pub(crate) static NAMED: Operation = Operation {
    id: "bundles",
    summary: "The bundles of a name",
    description: "A bundle's name is its own in its package only, so this is a list: of one item \
nearly always.",
    parameters: &[
        Parameter::text("package", "Only the bundle of this package."),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::list::<Bundle<'_>>("BundleList", &[])),
};

/// The bundles of a name.
pub(crate) async fn named(request: QueryRequest, Path(path): Path<BundlePath>) -> Response {
    let work = move |query: &ParsedQuery| list(query, &path.bundle);
    request.run(&LOOKUPS, &NAMED, work).await
}

fn list(query: &ParsedQuery, name: &str) -> Result<QueryResponse, Problem> {
    let snapshot = &query.snapshot;
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
    QueryResponse::list::<Bundle<'_>>(page, metas.len(), |at| bundle(query, name, metas[at]))
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
