//! What is attached to a manifest: by the referrers API, by the tag that
//! stands in for it, and by the tags of cosign.

use http::StatusCode;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Manifest, OCI_INDEX};
use crate::reference::Reference;
use crate::registries::{Question, Route};
use crate::registry::client::Client;

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

impl Route {
    /// The digests of the manifests that refer to this one, at all places
    /// together; at most those of one page of each. A registry without that API
    /// is asked for the tag that stands in for it (distribution specification,
    /// "unavailable referrers API").
    pub async fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>, Error> {
        self.everywhere(&mut AskReferrers(digest)).await
    }

    /// The digests that a tag beside the image's own stands for, at all places
    /// together: usually one, or none.
    pub async fn tagged(&self, tag: &str) -> Result<Vec<Digest>, Error> {
        self.everywhere(&mut AskTag(tag)).await
    }

    async fn everywhere<Q: Question<Answer = Vec<Digest>>>(
        &self,
        question: &mut Q,
    ) -> Result<Vec<Digest>, Error> {
        let mut found = Vec::new();
        let (mut answered, mut failure) = (false, None);
        for answer in self.all(question).await {
            match answer {
                Ok(digests) => {
                    answered = true;
                    found.extend(digests);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        found.sort_unstable();
        found.dedup();
        match failure {
            Some(error) if !answered => Err(error),
            _ => Ok(found),
        }
    }
}

struct AskReferrers<'a>(&'a Digest);

impl Question for AskReferrers<'_> {
    type Answer = Vec<Digest>;

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<Vec<Digest>, Error> {
        let digests = |bytes: &[u8]| match Manifest::parse(bytes, Some(OCI_INDEX)) {
            Ok(Manifest::Index(index)) => {
                let entries = index.entries.into_iter();
                Some(entries.map(|entry| entry.descriptor.digest).collect())
            }
            // What is no index says that there is no such API.
            _ => None,
        };
        let path = format!("referrers/{}", self.0);
        match client.document(reference, &path, OCI_INDEX).await {
            Ok(bytes) => {
                if let Some(found) = digests(&bytes) {
                    return Ok(found);
                }
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        let tag = format!("sha256-{}", self.0.hex());
        let mut found = AskTag(&tag).ask(client, reference).await?;
        let Some(digest) = found.pop() else {
            return Ok(found);
        };
        let bytes = client.manifest(reference, &digest).await?;
        Ok(digests(&bytes).unwrap_or_default())
    }
}

struct AskTag<'a>(&'a str);

impl Question for AskTag<'_> {
    type Answer = Vec<Digest>;

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<Vec<Digest>, Error> {
        let Some(reference) = reference.with_tag(self.0) else {
            return Ok(Vec::new());
        };
        match client.resolve(&reference).await {
            Ok(resolved) => Ok(vec![resolved.digest]),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
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
