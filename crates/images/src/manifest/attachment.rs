//! Manifests that are attached to another one: signatures, attestations, bills
//! of materials.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::digest::Digest;
use crate::manifest::json::texts;

/// The endings of cosign's tags.
const COSIGN: [&str; 3] = ["sig", "att", "sbom"];

/// The relation of a manifest to its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The manifest that it is attached to.
    pub subject: Digest,
    /// Its artifact type, or else the media type of its configuration.
    pub artifact_type: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Attachment {
    /// Reads the subject of a manifest, if it has one.
    pub fn from_manifest(manifest: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(manifest).ok()?;
        let kinds = [&document["artifactType"], &document["config"]["mediaType"]];
        let mut kinds = kinds.into_iter().filter_map(Value::as_str);
        let annotations = texts(&document["annotations"]);
        Some(Self {
            subject: document["subject"]["digest"].as_str()?.parse().ok()?,
            // None of these is required.
            artifact_type: kinds
                .find(|kind| !kind.is_empty())
                .unwrap_or_default()
                .to_owned(),
            annotations: annotations.unwrap_or_default(),
        })
    }
}

/// The tags of the artifacts that cosign attaches to a manifest.
pub fn cosign_tags(digest: &Digest) -> impl Iterator<Item = String> {
    let hex = digest.hex();
    COSIGN
        .into_iter()
        .map(move |kind| format!("sha256-{hex}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attached_manifest_has_a_subject_and_a_type() {
        let subject = Digest::of(b"subject");
        let document = |rest: &str| {
            format!(r#"{{"schemaVersion":2,"subject":{{"digest":"{subject}"}}{rest}}}"#)
        };
        let kind = |rest: &str| {
            Attachment::from_manifest(document(rest).as_bytes())
                .unwrap()
                .artifact_type
        };
        assert_eq!(kind(r#","artifactType":"a/b""#), "a/b");
        assert_eq!(kind(r#","config":{"mediaType":"c/d"}"#), "c/d");
        assert_eq!(
            kind(r#","artifactType":"","config":{"mediaType":"c/d"}"#),
            "c/d"
        );
        assert_eq!(Attachment::from_manifest(b"{}"), None);
        assert_eq!(
            Attachment::from_manifest(br#"{"subject":{"digest":"md5:0"}}"#),
            None
        );
    }
}
