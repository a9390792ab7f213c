//! Packages, their icons and their channels: stored responses.

use axum::extract::Path;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::answers::rest::records::{ChannelRecord, PackageDetails, PackageSummary};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, Content as Body, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{
    ChannelPath, LOOKUPS, PackagePath, ParsedQuery, QueryRequest,
};
use crate::serve::http::api::response::{HINTS, QueryResponse};
use fbc::presentation::PackageView;

/// `/catalogs/{catalog}/api/v1/packages`.
pub(crate) static LIST: Operation = Operation {
    id: "packages",
    summary: "All packages",
    description: "By name, also those with errors (`quarantined`).",
    parameters: &[LIMIT, CONTINUE, FIELDS],
    answer: Answer::Query(QueryAnswer::list::<PackageSummary<'_>>(
        "PackageList",
        HINTS,
    )),
};

/// All packages, by name.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request
        .run_stored(&LIST, |query| {
            let snapshot = &query.snapshot;
            let page = query.parameters.page(Content::of(snapshot))?;
            let packages = snapshot.packages();
            QueryResponse::list::<PackageSummary<'_>>(page, packages.len(), |at| {
                Ok(snapshot.answer(packages[at].summary))
            })
        })
        .await
}

/// `/catalogs/{catalog}/api/v1/packages/{package}`.
pub(crate) static ONE: Operation = Operation {
    id: "package",
    summary: "A package",
    description: "All that is known of it, with what the head of its default channel says to people.",
    parameters: &[FIELDS],
    answer: Answer::Query(QueryAnswer::object::<PackageDetails<'_>>()),
};

/// A whole package.
pub(crate) async fn one(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    request
        .run(&LOOKUPS, &ONE, move |query| {
            let package = query.package(&path.package)?;
            Ok(QueryResponse::object::<PackageDetails<'_>>(
                query.snapshot.answer(package.details),
            ))
        })
        .await
}

/// `/catalogs/{catalog}/api/v1/packages/{package}/icon`.
pub(crate) static ICON: Operation = Operation {
    id: "icon",
    summary: "The icon of a package",
    description: "Its bytes, with a policy that lets no script run in it.",
    parameters: &[],
    answer: Answer::Query(QueryAnswer::contents(&[
        Body::Bytes("image/*"),
        Body::Bytes("application/octet-stream"),
    ])),
};

/// The icon of a package.
pub(crate) async fn icon(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let work = move |query: &ParsedQuery| picture(query, &path);
    request.run(&LOOKUPS, &ICON, work).await
}

fn picture(query: &ParsedQuery, path: &PackagePath) -> Result<QueryResponse, Problem> {
    let package = query.package(&path.package)?;
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

/// `/catalogs/{catalog}/api/v1/packages/{package}/channels`.
pub(crate) static CHANNELS: Operation = Operation {
    id: "channels",
    summary: "The channels of a package",
    description: "By name, each with its entries as in the answer about one channel.",
    parameters: &[
        Parameter::repeated("channel", "Only this channel; may be given several times.")
            .example("v2"),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::list::<ChannelRecord<'_>>("ChannelList", &[])),
};

/// The channels of a package with their entries, by name.
pub(crate) async fn channels(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let work = move |query: &ParsedQuery| {
        let (snapshot, parameters) = (&query.snapshot, &query.parameters);
        let page = parameters.page(Content::of(snapshot))?;
        let package = query.package(&path.package)?;
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
        QueryResponse::list::<ChannelRecord<'_>>(page, chosen.len(), |at| {
            Ok(snapshot.answer(chosen[at]))
        })
    };
    request.run(&LOOKUPS, &CHANNELS, work).await
}

/// `/catalogs/{catalog}/api/v1/packages/{package}/channels/{channel}`.
pub(crate) static CHANNEL: Operation = Operation {
    id: "channel",
    summary: "A channel",
    description: "With its entries in order: first the head and what follows along `replaces`, then \
the others.",
    parameters: &[FIELDS],
    answer: Answer::Query(QueryAnswer::object::<ChannelRecord<'_>>()),
};

/// A channel with its entries.
pub(crate) async fn channel(request: QueryRequest, Path(path): Path<ChannelPath>) -> Response {
    request
        .run(&LOOKUPS, &CHANNEL, move |query| {
            let package = query.package(&path.package)?;
            let (wanted, channels) = (path.channel.as_str(), &package.channels);
            let names = || channels.iter().map(|(name, _)| &**name);
            let at = names()
                .position(|name| name == wanted)
                .ok_or_else(|| Problem::unknown("channel", wanted, names()))?;
            Ok(QueryResponse::object::<ChannelRecord<'_>>(
                query.snapshot.answer(channels[at].1),
            ))
        })
        .await
}
