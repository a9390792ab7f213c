//! The reason of an empty selection, in a header.
//!
//! catalogd answers `metas` with an empty body when nothing matches, and its
//! clients rely on that. So a wrong name is told in a header.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use axum::response::Response;
use http::{HeaderName, StatusCode};

use crate::serve::fields::header;
use crate::serve::http::api::problem::cut;
use crate::snapshot::{Query, Selection, Snapshot};
use fbc::text::suggest;

/// The header.
pub(crate) const HINT: HeaderName = HeaderName::from_static("almanac-hint");
/// The parameters of `metas`.
const KEYS: [&str; 3] = ["schema", "package", "name"];
/// The most bytes of a hint.
const MAX_HINT: usize = 1_000;
/// The most names that are compared with a wrong one: more would keep other
/// requests waiting.
const MAX_COMPARED: usize = 2_000;

/// Adds a hint to the response with an empty selection.
pub(crate) fn add(response: &mut Response, selection: &Selection, query: &Query<'_>) {
    if !selection.is_empty() || response.status() != StatusCode::OK {
        return;
    }
    if let Some(hint) = hint(selection.snapshot(), query) {
        response.headers_mut().insert(HINT, header(visible(&hint)));
    }
}

/// Adds a hint to the response to a malformed query of `metas`.
pub(crate) fn add_key(response: &mut Response, query: &str) {
    let keys = query.split('&').filter(|pair| !pair.is_empty());
    let mut keys = keys.map(|pair| pair.split('=').next().unwrap_or_default());
    let hint = match keys.find(|key| !KEYS.contains(key)) {
        Some(key) => {
            let end = suggest::proposal_or_all(key, KEYS);
            format!("metas has no parameter {:?}{end}", cut(key))
        }
        None => "a value has a wrong escape: write %25 for a percent sign".to_owned(),
    };
    response.headers_mut().insert(HINT, header(visible(&hint)));
}

/// The first of the fields that no blob has, else a sentence about all.
fn hint(snapshot: &Snapshot, query: &Query<'_>) -> Option<String> {
    let alone = |query: Query<'_>| snapshot.count(&query) == 0;
    if let Some(schema) = &query.schema {
        let only = Query {
            schema: Some(schema.clone()),
            ..Query::default()
        };
        if alone(only) {
            return Some(unknown("schema", schema, snapshot.schemas()));
        }
        if schema == "olm.package" && query.package.is_some() {
            let hint = "olm.package blobs have a name and no package: write name= for package=";
            return Some(hint.to_owned());
        }
    }
    if let Some(package) = &query.package {
        let only = Query {
            package: Some(package.clone()),
            ..Query::default()
        };
        if alone(only) {
            let names = snapshot.packages().iter().map(|package| &*package.name);
            return Some(unknown("package", package, names));
        }
    }
    let name = query.name.as_deref()?;
    let others = Query {
        name: None,
        ..query.clone()
    };
    Some(match snapshot.count(&others) {
        0 => "no blob has this schema and this package".to_owned(),
        1..=MAX_COMPARED => unknown("name", name, snapshot.names(&others)),
        _ => unknown("name", name, []),
    })
}

/// A sentence about a value that no selected blob has.
fn unknown<'a>(field: &str, wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().take(MAX_COMPARED).collect();
    let end = suggest::proposal_or_all(wanted, names);
    format!("no blob has the {field} {:?}{end}", cut(wanted))
}

/// The text in visible ASCII and blanks, and not too long: a header has no other
/// signs.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for sign in text.chars() {
        if visible.len() >= MAX_HINT {
            break;
        }
        if sign == ' ' || sign.is_ascii_graphic() {
            visible.push(sign);
        } else {
            let _ = write!(visible, "{}", sign.escape_unicode());
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_has_only_signs_of_a_header() {
        assert_eq!(visible("a \"ä\"\r\n"), "a \"\\u{e4}\"\\u{d}\\u{a}");
        assert!(visible(&"ä".repeat(10_000)).len() < MAX_HINT + 10);
        let wrong = unknown("schema", "olm.bundel", ["olm.bundle", "olm.channel"]);
        assert_eq!(
            wrong,
            "no blob has the schema \"olm.bundel\"; did you mean \"olm.bundle\"?"
        );
    }
}
