//! The manifests in the `olm.bundle.object` properties of a bundle, and the
//! `ClusterServiceVersion` among them.
//!
//! The data of such a property is a manifest in JSON or YAML, in base64. As in
//! opm, line breaks in the base64 text do not count, and the first object of the
//! kind `ClusterServiceVersion` is the one of the bundle.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{Text, or_default};
use crate::text::json::{Canonicaliser, JsonError};
use crate::text::yaml;
use crate::text::yaml::YamlError;

const CSV_KIND: &str = "ClusterServiceVersion";

/// Why the data of an object is not a manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("its data is not base64: {0}; encode the manifest anew")]
    Base64(base64::DecodeError),
    #[error("its data is not JSON: {0}; correct the manifest")]
    Json(JsonError),
    #[error("its data is neither JSON nor YAML: {}; correct the manifest", .0.message)]
    Yaml(YamlError),
}

/// Reads the data of an object as canonical JSON.
pub(crate) fn decode(data: &str) -> Result<Vec<u8>, ManifestError> {
    to_json(&from_base64(data).map_err(ManifestError::Base64)?)
}

/// Whether a manifest, given as canonical JSON, is a `ClusterServiceVersion`.
pub(crate) fn is_csv(manifest: &[u8]) -> bool {
    kind(manifest).0 == CSV_KIND
}

/// The first `ClusterServiceVersion` among the data of objects, as canonical
/// JSON. Data that is not a manifest is passed over.
pub(crate) fn find_csv<'a>(objects: impl IntoIterator<Item = Cow<'a, str>>) -> Option<Vec<u8>> {
    let mut found = of_kinds(objects, &[CSV_KIND]);
    found.next().map(|(_, manifest)| manifest)
}

/// The manifests of some kinds among the data of objects, each with its kind and as
/// canonical JSON. Data that is not a manifest is passed over.
pub(crate) fn of_kinds<'a>(
    objects: impl IntoIterator<Item = Cow<'a, str>>,
    kinds: &[&'static str],
) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    objects.into_iter().filter_map(|data| {
        let manifest = from_base64(&data).ok()?;
        if !may_be(&manifest, kinds) {
            return None;
        }
        let manifest = to_json(&manifest).ok()?;
        let found = kinds.iter().find(|one| kind(&manifest).0 == **one);
        Some((*found?, manifest))
    })
}

/// The kind of a manifest, given as canonical JSON.
fn kind(manifest: &[u8]) -> Text<'_> {
    let mut kind = Text::default();
    Cursor::new(manifest).each_member(|key, cursor| {
        if key == "kind" {
            kind = or_default(cursor);
        }
    });
    kind
}

/// Most manifests are of other kinds, and need not be read to know that: the
/// name of the kind can only be written without itself by way of an escape.
fn may_be(manifest: &[u8], kinds: &[&str]) -> bool {
    let mut kinds = kinds.iter();
    kinds.any(|kind| memmem::find(manifest, kind.as_bytes()).is_some())
        || memchr::memchr(b'\\', manifest).is_some()
}

fn from_base64(data: &str) -> Result<Vec<u8>, base64::DecodeError> {
    if memchr::memchr2(b'\r', b'\n', data.as_bytes()).is_some() {
        STANDARD.decode(data.replace(['\r', '\n'], ""))
    } else {
        STANDARD.decode(data)
    }
}

fn to_json(manifest: &[u8]) -> Result<Vec<u8>, ManifestError> {
    let mut json = Vec::with_capacity(manifest.len());
    if manifest.trim_ascii_start().starts_with(b"{") {
        Canonicaliser::default()
            .read(manifest, 0, &mut json)
            .map_err(ManifestError::Json)?;
    } else {
        yaml::to_json(manifest, &yaml::Limits::default(), &mut json)
            .map_err(ManifestError::Yaml)?;
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifests: &[&str]) -> Option<String> {
        let objects = manifests.iter().map(|text| STANDARD.encode(text).into());
        find_csv(objects).map(|json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn a_manifest_in_yaml_or_with_escapes_is_found() {
        let wanted = r#"{"kind":"ClusterServiceVersion","spec":{"displayName":"A"}}"#;
        for manifest in [
            r#"{"kind": "ClusterServiceVersion", "spec": {"displayName": "A"}}"#,
            r#" {"spec": {"displayName": "A"}, "kind": "Cluster\u0053erviceVersion"}"#,
            "kind: ClusterServiceVersion\nspec:\n  displayName: A\n",
            "spec: {displayName: A}\nkind: \"ClusterService\\\n  Version\"\n",
        ] {
            assert_eq!(found(&[manifest]).as_deref(), Some(wanted), "{manifest}");
        }
    }

    #[test]
    fn base64_may_have_line_breaks() {
        let mut data = STANDARD.encode("kind: ClusterServiceVersion");
        data.insert_str(8, "\r\n");
        data.push('\n');
        assert!(find_csv([data.into()]).is_some());
    }

    #[test]
    fn the_first_of_the_kind_is_taken_and_bad_data_passed_over() {
        let csv = |name: &str| format!("kind: ClusterServiceVersion\nname: {name}\n");
        let (first, second) = (csv("a"), csv("b"));
        let manifests = [
            "{\"kind\": 1}",
            "a: [\\",
            "kind: ConfigMap",
            &first,
            &second,
        ];
        let json = found(&manifests).unwrap();
        assert!(json.ends_with(r#""name":"a"}"#), "{json}");
        assert!(find_csv(["?".into()]).is_none());
        // Only the kind of the manifest itself counts.
        assert_eq!(found(&["data:\n  kind: ClusterServiceVersion\n"]), None);
    }
}
