//! Looking for the signatures of an image where cosign puts them: under the
//! tag `sha256-….sig`, and among the image's referrers.
//!
//! Whether one is good is a matter of `policy`. A registry can put anything
//! there, so how much is looked at is bounded.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, OCI_INDEX, object};
use crate::policy::{Signature, Signed};
use crate::reference::Reference;
use crate::registry::client::Client;

/// The media type of what cosign signs.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The kind of artifact that cosign's signatures are among referrers.
const ARTIFACT: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
/// Where the signature stands beside its payload.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The most signatures of one place that are looked at.
const MAX_SIGNATURES: usize = 50;
/// The most referrers that are looked at.
const MAX_REFERRERS: usize = 20;
/// The largest payload, in bytes.
const MAX_PAYLOAD: u64 = 256 << 10;
/// The longest signature, in characters of base64.
const MAX_SIGNATURE: usize = 16 << 10;
/// How many problems are told.
const MOST_TOLD: usize = 4;

/// Why no signature was good enough.
#[derive(Default)]
pub(crate) struct Problems {
    told: Vec<String>,
    found: bool,
    failure: Option<Error>,
}

/// A look for the signatures of one digest at one place.
pub(crate) struct Search<'a> {
    client: &'a Client,
    reference: &'a Reference,
    digest: &'a Digest,
}

impl Problems {
    /// A place that could not be asked.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// The place that could not be asked, or else what was wrong.
    pub(crate) fn into_failure(self) -> Result<Error, String> {
        match self.failure {
            Some(error) => Ok(error),
            None if !self.found => Err("there is none".into()),
            None => Err(self.told.join("; ")),
        }
    }

    fn wrong(&mut self, problem: String) {
        self.found = true;
        if self.told.len() < MOST_TOLD && !self.told.contains(&problem) {
            self.told.push(problem);
        }
    }
}

impl<'a> Search<'a> {
    pub(crate) fn new(client: &'a Client, reference: &'a Reference, digest: &'a Digest) -> Self {
        Self {
            client,
            reference,
            digest,
        }
    }

    /// Takes out of `missing` what is found, under the name that was
    /// `requested`.
    pub(crate) async fn check(
        &self,
        missing: &mut Vec<&Signed>,
        requested: &Reference,
        problems: &mut Problems,
    ) -> Result<(), Error> {
        let mut left = MAX_SIGNATURES;
        let tag = self
            .reference
            .with_tag(&format!("sha256-{}.sig", self.digest.hex()));
        if let Some(tag) = &tag
            && let Some(resolved) = found(self.client.resolve(tag).await)?
        {
            self.signatures(&resolved.digest, missing, requested, problems, &mut left)
                .await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        for referrer in self.referrers().await? {
            self.signatures(&referrer, missing, requested, problems, &mut left)
                .await?;
            if missing.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The manifests of signatures that refer to the image.
    async fn referrers(&self) -> Result<Vec<Digest>, Error> {
        let path = format!("referrers/{}", self.digest);
        let answer = self.client.document(self.reference, &path, OCI_INDEX).await;
        let index = if let Some(index) = found(answer)? {
            index
        } else {
            // A registry without that API has them under a tag.
            let tag = self
                .reference
                .with_tag(&format!("sha256-{}", self.digest.hex()));
            let Some(tag) = tag else {
                return Ok(Vec::new());
            };
            let Some(resolved) = found(self.client.resolve(&tag).await)? else {
                return Ok(Vec::new());
            };
            self.client.manifest(&tag, &resolved.digest).await?
        };
        let Ok(index) = object::<Referrers>(&index) else {
            return Ok(Vec::new());
        };
        let entries = index.manifests.into_iter();
        let entries = entries.filter(|entry| entry.artifact_type.as_deref() == Some(ARTIFACT));
        let digests = entries.filter_map(|entry| entry.digest.parse().ok());
        Ok(digests.take(MAX_REFERRERS).collect())
    }

    /// Looks at the signatures of one manifest.
    async fn signatures(
        &self,
        manifest: &Digest,
        missing: &mut Vec<&Signed>,
        requested: &Reference,
        problems: &mut Problems,
        left: &mut usize,
    ) -> Result<(), Error> {
        let Some(bytes) = found(self.client.manifest(self.reference, manifest).await)? else {
            return Ok(());
        };
        let Ok(document) = object::<Signatures>(&bytes) else {
            problems.wrong("what is there is no signature".into());
            return Ok(());
        };
        for layer in document.layers {
            if missing.is_empty() {
                return Ok(());
            }
            if layer.media_type != PAYLOAD {
                continue;
            }
            if *left == 0 {
                problems.wrong(format!("only {MAX_SIGNATURES} signatures were looked at"));
                return Ok(());
            }
            *left -= 1;
            let Some(signature) = self.signature(layer).await? else {
                problems.wrong("what is there is no signature".into());
                continue;
            };
            missing.retain(
                |signed| match signed.check(&signature, requested, self.digest) {
                    Ok(()) => false,
                    Err(problem) => {
                        problems.wrong(problem);
                        true
                    }
                },
            );
        }
        Ok(())
    }

    /// A signature with what was signed; none when it is not what it should be.
    async fn signature(&self, layer: Layer) -> Result<Option<Signature>, Error> {
        let annotation = layer.annotations.unwrap_or_default().remove(SIGNATURE);
        let signature = annotation
            .filter(|text| text.len() <= MAX_SIGNATURE)
            .and_then(|text| BASE64_STANDARD.decode(text.trim()).ok());
        let (Some(signature), Ok(digest)) = (signature, layer.digest.parse()) else {
            return Ok(None);
        };
        if layer.size > MAX_PAYLOAD {
            return Ok(None);
        }
        let descriptor = Descriptor {
            media_type: layer.media_type,
            digest,
            size: layer.size,
        };
        let Some(mut stream) = found(self.client.blob(self.reference, &descriptor).await)? else {
            return Ok(None);
        };
        let mut payload = Vec::new();
        // The stream ends at the size of the descriptor.
        while let Some(piece) = stream.next().await? {
            payload.extend_from_slice(&piece);
        }
        Ok(Some(Signature { payload, signature }))
    }
}

/// An answer, where one that says "no such thing" is none.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct Referrers {
    #[serde(default)]
    manifests: Vec<Referrer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    digest: String,
    #[serde(default)]
    artifact_type: Option<String>,
}

#[derive(Deserialize)]
struct Signatures {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}
