//! Packages, their pictures and their channels: stored answers.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::serve::http::queries::answer::Answer;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::{Asked, Question};
use fbc::presentation::PackageView;

/// The fields of a package in a list, in their order.
pub(super) const SUMMARY: &[&str] = &[
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
];

/// The fields of a whole package.
const DETAILS: &[&str] = &[
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
pub(super) async fn list(question: Question) -> Response {
    question
        .answer(&["limit", "continue", "fields"], |asked| {
            let snapshot = &asked.snapshot;
            let page = asked.parameters.page(snapshot)?;
            let packages = snapshot.packages();
            Answer::list(page, packages.len(), snapshot, SUMMARY, |at| {
                Ok(snapshot.answer(packages[at].summary))
            })
        })
        .await
}

/// A whole package.
pub(super) async fn one(question: Question) -> Response {
    question
        .answer(&["fields"], |asked| {
            let package = asked.package(asked.path("package"))?;
            Ok(Answer::Object {
                json: asked.snapshot.answer(package.details),
                fields: DETAILS,
            })
        })
        .await
}

/// The picture of a package.
pub(super) async fn icon(question: Question) -> Response {
    question.answer(&[], picture).await
}

fn picture(asked: &Asked) -> Result<Answer, Problem> {
    let package = asked.package(asked.path("package"))?;
    let line = asked.snapshot.line(package.meta);
    let (data, media_type) = PackageView::of(&line)
        .icon
        .ok_or_else(|| Problem::no_icon(&package.name, "has no icon"))?;
    let data = data.replace(['\r', '\n'], "");
    let bytes = STANDARD
        .decode(data)
        .map_err(|_| Problem::no_icon(&package.name, "has an icon that is not base64"))?;
    Ok(Answer::Picture {
        bytes: bytes.into(),
        media_type,
    })
}

/// A channel with its entries.
pub(super) async fn channel(question: Question) -> Response {
    question
        .answer(&["fields"], |asked| {
            let package = asked.package(asked.path("package"))?;
            let (wanted, channels) = (asked.path("channel"), &package.channels);
            let names = || channels.iter().map(|(name, _)| &**name);
            let at = names()
                .position(|name| name == wanted)
                .ok_or_else(|| Problem::unknown("channel", wanted, names()))?;
            Ok(Answer::Object {
                json: asked.snapshot.answer(channels[at].1),
                fields: CHANNEL,
            })
        })
        .await
}
