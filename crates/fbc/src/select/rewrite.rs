//! Choices ─► lines. Most lines do not change. Channels lose entries, deprecations lose
//! those of omitted objects, and a package may get another default channel.
//! Values keep the text that they have.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};

use crate::read::DeprecationEntry;
use crate::select::choice::Choice;
use crate::select::error::SelectError;
use crate::select::index::CatalogIndex;
use crate::select::model::{Line, Selected, SelectedBundle, SelectedPackage};
use crate::select::request::Request;
use crate::text::json::typed::from_json;

/// An object whose values are text still.
type Object<'a> = BTreeMap<String, &'a RawValue>;

/// Writes what was chosen. A single catalog that is wanted in full comes out
/// as it is, packages with errors included.
pub(crate) fn write(
    indexes: &[CatalogIndex<'_>],
    request: &Request,
    chosen: BTreeMap<&str, Choice<'_>>,
    notes: Vec<String>,
) -> Result<Selected, SelectError> {
    let mut selected = Selected {
        notes,
        ..Selected::default()
    };
    let used: BTreeSet<usize> = (request.selections.iter())
        .flat_map(|selection| selection.from.iter().copied())
        .collect();
    let mut seen = BTreeSet::new();
    for index in used.iter().filter_map(|number| indexes.get(*number)) {
        for line in &index.others {
            if seen.insert(&line.json) {
                selected.others.push(line.json.clone());
            }
        }
    }
    for choice in chosen.into_values() {
        selected.packages.push(write_package(&choice)?);
    }
    Ok(selected)
}

fn write_package(choice: &Choice<'_>) -> Result<SelectedPackage, SelectError> {
    let package = &choice.package;
    let mut bundles: BTreeMap<&str, SelectedBundle> = BTreeMap::new();
    for (number, kept) in &choice.channels {
        let channel = &package.channels[*number];
        for (entry, reason) in kept {
            let name = channel.entries[*entry].name.as_str();
            let Some(bundle) = package.bundles.get(name) else {
                continue;
            };
            let selected = bundles.entry(name).or_insert_with(|| SelectedBundle {
                name: name.to_owned(),
                version: bundle.facts().text.clone(),
                line: bundle.line.json.clone(),
                channels: Vec::new(),
            });
            (selected.channels).push((channel.name.to_owned(), reason.clone()));
        }
    }
    let mut lines = Vec::new();
    for line in &package.lines {
        let written = match &*line.schema {
            "olm.package" => package_line(choice, line)?,
            "olm.channel" => channel_line(choice, line)?,
            "olm.bundle" => bundles.contains_key(&*line.name).then(|| line.json.clone()),
            "olm.deprecations" => deprecations_line(choice, line, &bundles)?,
            _ => Some(line.json.clone()),
        };
        lines.extend(written);
    }
    Ok(SelectedPackage {
        name: package.name.to_owned(),
        catalog: package.catalog.to_owned(),
        lines,
        bundles: bundles.into_values().collect(),
    })
}

fn package_line(choice: &Choice<'_>, line: &Line) -> Result<Option<Bytes>, SelectError> {
    if choice.default_channel == choice.package.default_channel {
        return Ok(Some(line.json.clone()));
    }
    let default = to_raw_value(&choice.default_channel).map_err(unreadable(choice))?;
    let mut object = object(choice, line)?;
    object.retain(|key, _| !key.eq_ignore_ascii_case("defaultChannel"));
    object.insert("defaultChannel".to_owned(), &default);
    written(choice, &object).map(Some)
}

fn channel_line(choice: &Choice<'_>, line: &Line) -> Result<Option<Bytes>, SelectError> {
    let package = &choice.package;
    let number = package.channel(&line.name);
    let kept = number.and_then(|number| choice.channels.get_key_value(&number));
    let Some((number, kept)) = kept else {
        return Ok(None);
    };
    if kept.len() == package.channels[*number].entries.len() {
        return Ok(Some(line.json.clone()));
    }
    let mut at = 0..;
    filtered(choice, line, |_: &RawValue| {
        at.next().is_some_and(|number| kept.contains_key(&number))
    })
    .map(Some)
}

fn deprecations_line(
    choice: &Choice<'_>,
    line: &Line,
    bundles: &BTreeMap<&str, SelectedBundle>,
) -> Result<Option<Bytes>, SelectError> {
    let package = &choice.package;
    let mut left = 0;
    let written = filtered(choice, line, |entry: &RawValue| {
        // Packages with malformed deprecations are not selected.
        let entry: DeprecationEntry = from_json(entry.get().as_bytes()).unwrap_or_default();
        let reference = entry.reference;
        let name = reference.name.as_str();
        let stays = match reference.schema.as_str() {
            "olm.bundle" => bundles.contains_key(name),
            "olm.channel" => {
                let channel = package.channel(name);
                channel.is_some_and(|channel| choice.channels.contains_key(&channel))
            }
            _ => true,
        };
        left += usize::from(stays);
        stays
    })?;
    Ok((left > 0).then_some(written))
}

/// A line with those of its entries that `stays` takes.
fn filtered(
    choice: &Choice<'_>,
    line: &Line,
    mut stays: impl FnMut(&RawValue) -> bool,
) -> Result<Bytes, SelectError> {
    let mut object = object(choice, line)?;
    let key = object
        .keys()
        .rev()
        .find(|key| key.eq_ignore_ascii_case("entries"));
    let Some(key) = key.cloned() else {
        return Ok(line.json.clone());
    };
    let entries = object.get(&key).map_or("[]", |entries| entries.get());
    let mut entries: Vec<&RawValue> = serde_json::from_str(entries).map_err(unreadable(choice))?;
    entries.retain(|entry| stays(entry));
    let entries = to_raw_value(&entries).map_err(unreadable(choice))?;
    object.insert(key, &entries);
    written(choice, &object)
}

fn object<'l>(choice: &Choice<'_>, line: &'l Line) -> Result<Object<'l>, SelectError> {
    serde_json::from_slice(&line.json).map_err(unreadable(choice))
}

fn written(choice: &Choice<'_>, object: &Object<'_>) -> Result<Bytes, SelectError> {
    let json = serde_json::to_vec(object).map_err(unreadable(choice))?;
    Ok(json.into())
}

fn unreadable(choice: &Choice<'_>) -> impl Fn(serde_json::Error) -> SelectError {
    let package = choice.package.name.to_owned();
    move |error| SelectError::Line {
        package: package.clone(),
        problem: error.to_string(),
    }
}
