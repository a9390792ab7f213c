//! `almanac list` about all catalogs of a running almanac: which there are, and a
//! package in each.

use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli::format::{Column, Format};
use crate::cli::query::{Question, Respondent, text};
use crate::cli::{Failure, block_on};
use fbc::text::suggest;

const CATALOGS: &[Column] = &[
    Column::new("NAME", |item| text(item, "name")),
    Column::new("STATE", |item| text(item, "state")),
    Column::new("PACKAGES", |item| count(item, "packages")),
    Column::new("BUNDLES", |item| count(item, "bundles")),
    Column::new("MODIFIED", |item| revision(item, "modified")),
    Column::new("DIGEST", |item| revision(item, "digest")),
];

/// Prints the catalogs of a server.
pub(crate) fn catalogs(respondent: &Respondent, format: Format) -> Result<ExitCode, Failure> {
    let mut found = block_on(respondent.list(&Question::catalogs()))??;
    if found.items.is_empty()
        && let Respondent::Server { settings, .. } = respondent
        && settings.token.is_none()
    {
        let hint = "no catalog is open to readers without a token: --token-file names one";
        found.hint.get_or_insert_with(|| hint.to_owned());
    }
    found.note();
    if let Respondent::Server {
        catalog: Some(name),
        ..
    } = respondent
    {
        let is_named = |item: &Value| text(item, "name") == name.as_str();
        if !found.items.iter().any(is_named) {
            let names: Vec<String> = found.items.iter().map(|item| text(item, "name")).collect();
            let names = names.iter().map(String::as_str);
            let proposal = suggest::proposal_or_all(name.as_str(), names);
            return Err(Failure::run(anyhow!(
                "there is no catalog {name}{proposal}"
            )));
        }
        found.items.retain(is_named);
    }
    format.print_objects(&found.items, &found.items, CATALOGS, "name")
}

const PACKAGES: &[Column] = &[
    Column::new("NAME", |item| text(item, "name")),
    Column::new("DISPLAY NAME", |item| text(item, "displayName")),
    Column::new("DEFAULT CHANNEL", |item| text(item, "defaultChannel")),
    Column::new("HEAD", |item| text(item, "head")),
];

const CHANNELS: &[Column] = &[
    Column::new("PACKAGE", |item| text(item, "package")),
    Column::new("CHANNEL", |item| text(item, "name")),
    Column::new("HEAD", |item| text(item, "head")),
];

/// Prints a package of all catalogs of a server.
pub(crate) fn packages(
    respondent: &Respondent,
    package: &str,
    format: Format,
) -> Result<ExitCode, Failure> {
    let found = block_on(respondent.list(&Question::package(package)))??;
    respondent.print(format, &found.items, PACKAGES, "name")
}

/// Prints the channels of a package of all catalogs of a server.
pub(crate) fn channels(
    respondent: &Respondent,
    package: &str,
    format: Format,
) -> Result<ExitCode, Failure> {
    let found = block_on(respondent.list(&Question::package(package)))??;
    let mut channels = Vec::new();
    for item in &found.items {
        let of_package = item.get("channels").and_then(Value::as_array);
        for channel in of_package.into_iter().flatten() {
            let mut channel = channel.clone();
            channel["catalog"] = text(item, "catalog").into();
            channel["package"] = text(item, "name").into();
            channels.push(channel);
        }
    }
    respondent.print(format, &channels, CHANNELS, "name")
}

fn count(item: &Value, key: &str) -> String {
    let count = item
        .get("counts")
        .and_then(|counts| counts.get(key)?.as_u64());
    count.map(|count| count.to_string()).unwrap_or_default()
}

fn revision(item: &Value, key: &str) -> String {
    item.get("revision")
        .map(|revision| text(revision, key))
        .unwrap_or_default()
}
