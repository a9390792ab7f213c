//! What is attached to a manifest: by the referrers API, by the tag that
//! stands in for it, and by the tags of cosign.

use http::StatusCode;
use serde::Deserialize;

use crate::digest::Digest;
use crate::oci::client::Client;
use crate::oci::error::Error;
use crate::oci::manifest::{MAX_DOCUMENT, MAX_ENTRIES, Manifest, OCI_INDEX};
use crate::oci::reference::Reference;
use crate::oci::transport::body;

/// What cosign puts behind the digest of an image in a tag.
const COSIGN: [&str; 3] = ["sig", "att", "sbom"];

/// What a manifest says of another, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The manifest that it is about.
    pub subject: Digest,
    /// Its artifact type, else the media type of its configuration.
    pub artifact_type: String,
    /// Its annotations.
    pub annotations: std::collections::BTreeMap<String, String>,
}

impl Attachment {
    /// What a manifest says that it is about, if it says so.
    pub fn of(manifest: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Document {
            subject: Subject,
            #[serde(default)]
            artifact_type: Option<String>,
            #[serde(default)]
            config: Option<Config>,
            #[serde(default)]
            annotations: Option<std::collections::BTreeMap<String, String>>,
        }
        #[derive(Deserialize)]
        struct Subject {
            digest: Digest,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Config {
            #[serde(default)]
            media_type: String,
        }
        let document: Document = serde_json::from_slice(manifest).ok()?;
        let config = document.config.map(|config| config.media_type);
        let artifact_type = document.artifact_type.filter(|kind| !kind.is_empty());
        Some(Self {
            subject: document.subject.digest,
            artifact_type: artifact_type.or(config).unwrap_or_default(),
            annotations: document.annotations.unwrap_or_default(),
        })
    }
}

/// The tags under which cosign keeps what it says of a manifest.
pub fn cosign_tags(digest: &Digest) -> impl Iterator<Item = String> {
    let hex = digest.hex();
    COSIGN
        .into_iter()
        .map(move |kind| format!("sha256-{hex}.{kind}"))
}

impl Client {
    /// The digests of the manifests that refer to this one; at most those of
    /// one page. A registry without that API is asked for the tag that stands
    /// in for it (distribution specification, "unavailable referrers API").
    pub async fn referrers(
        &self,
        reference: &Reference,
        digest: &Digest,
    ) -> Result<Vec<Digest>, Error> {
        let url = self.url(reference, &format!("referrers/{digest}"))?;
        let answer = self
            .in_time(reference, &url, async {
                let response = self.get(reference, &url, OCI_INDEX).await?;
                body(reference, response, MAX_DOCUMENT).await
            })
            .await;
        match answer {
            Ok(bytes) => {
                // What is no index says that there is no such API.
                if let Ok(Manifest::Index(index)) = Manifest::parse(&bytes, Some(OCI_INDEX)) {
                    let found = index.entries.into_iter().take(MAX_ENTRIES);
                    return Ok(found.map(|entry| entry.descriptor.digest).collect());
                }
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        let tag = reference.with_tag(&format!("sha256-{}", digest.hex()));
        let Some(resolved) = self.resolve_if_there(&tag).await? else {
            return Ok(Vec::new());
        };
        let bytes = self.manifest(&tag, &resolved).await?;
        Ok(match Manifest::parse(&bytes, None) {
            Ok(Manifest::Index(index)) => {
                let found = index.entries.into_iter();
                found.map(|entry| entry.descriptor.digest).collect()
            }
            _ => Vec::new(),
        })
    }

    /// The digest that a reference stands for, or nothing when there is no such
    /// thing.
    pub async fn resolve_if_there(&self, reference: &Reference) -> Result<Option<Digest>, Error> {
        match self.resolve(reference).await {
            Ok(resolved) => Ok(Some(resolved.digest)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error says that there is no such thing, or that nobody may know:
/// some registries answer so to whatever they do not have.
fn is_absent(error: &Error) -> bool {
    let Error::Status { status, .. } = error else {
        return false;
    };
    matches!(
        *status,
        StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::NOT_IMPLEMENTED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_says_what_it_is_about() {
        let subject = Digest::of(b"subject");
        let document = |rest: &str| {
            format!(r#"{{"schemaVersion":2,"subject":{{"digest":"{subject}"}}{rest}}}"#)
        };
        let kind = |rest: &str| {
            Attachment::of(document(rest).as_bytes())
                .unwrap()
                .artifact_type
        };
        assert_eq!(kind(r#","artifactType":"a/b""#), "a/b");
        assert_eq!(kind(r#","config":{"mediaType":"c/d"}"#), "c/d");
        assert_eq!(
            kind(r#","artifactType":"","config":{"mediaType":"c/d"}"#),
            "c/d"
        );
        assert_eq!(Attachment::of(b"{}"), None);
        assert_eq!(Attachment::of(br#"{"subject":{"digest":"md5:0"}}"#), None);
    }
}
