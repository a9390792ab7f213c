//! Fetching the signatures of an image from where cosign puts them: the tag
//! `sha256-….sig`, and the image's referrers.
//!
//! The policy verifies them. A registry can return anything, so all counts and
//! sizes are bounded.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, object};
use crate::policy::{ImageSignature, RequiredSignature};
use crate::pull::referrers::{Referrer, present, referrers, tagged};
use crate::pull::route::{Route, repository};
use crate::reference::Reference;
use crate::registry::Client;

/// The media type of the document that cosign signs.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The artifact type of cosign's signatures among referrers.
const ARTIFACT: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
/// The annotation with the signature of a payload.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The most signatures of one location that are verified.
const MAX_SIGNATURES: usize = 50;
/// The most referrers that are fetched.
const MAX_REFERRERS: usize = 20;
/// The largest payload, in bytes.
const MAX_PAYLOAD: u64 = 256 << 10;
/// The longest signature, in characters of base64.
const MAX_SIGNATURE: usize = 16 << 10;
/// The most problems that an error describes.
const MAX_PROBLEMS: usize = 4;

impl Route {
    /// Checks that the policy admits the image. `digest` is the digest of its
    /// top-level document, `instance` that of the image chosen from an index.
    /// A signature of either suffices.
    pub async fn admit(&self, digest: &Digest, instance: Option<&Digest>) -> Result<(), Error> {
        let required = self.admission.required_signatures();
        if required.is_empty() {
            return Ok(());
        }
        let mut digests = vec![*digest];
        digests.extend(instance.filter(|instance| *instance != digest));
        let mut missing: Vec<_> = required.iter().collect();
        let mut problems = SignatureProblems::default();
        for location in self.usable() {
            for digest in &digests {
                let mut query = FindSignatures {
                    digest,
                    requested: &self.requested,
                    missing: &mut missing,
                    problems: &mut problems,
                };
                let checked = self
                    .clients
                    .run(location, async |client, reference| {
                        query.run(client, reference).await
                    })
                    .await;
                if let Err(error) = checked {
                    problems.failure.get_or_insert(error);
                }
                if missing.is_empty() {
                    let served = repository(&location.reference);
                    tracing::debug!(image = %self.requested, %digest, served, "the required signatures are there");
                    return Ok(());
                }
            }
        }
        Err(match problems.into_failure() {
            // A location that failed may have the signature.
            Ok(error) => error,
            Err(problem) => Error::Rejected {
                reference: self.requested.clone(),
                source: self.admission.unsigned(problem),
            },
        })
    }
}

/// The search for the signatures of one digest.
struct FindSignatures<'a, 'b> {
    digest: &'a Digest,
    requested: &'a Reference,
    /// The signatures that are not found yet.
    missing: &'a mut Vec<&'b RequiredSignature>,
    problems: &'a mut SignatureProblems,
}

/// Why no signature was accepted.
#[derive(Default)]
struct SignatureProblems {
    problems: Vec<String>,
    found: bool,
    /// The error of a location.
    failure: Option<Error>,
}

impl SignatureProblems {
    /// The error of a location, or else the problems of the signatures.
    fn into_failure(self) -> Result<Error, String> {
        match self.failure {
            Some(error) => Ok(error),
            None if !self.found => Err("there is none".into()),
            None => Err(self.problems.join("; ")),
        }
    }

    fn wrong(&mut self, problem: String) {
        self.found = true;
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl FindSignatures<'_, '_> {
    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<(), Error> {
        let mut left = MAX_SIGNATURES;
        let tag = format!("sha256-{}.sig", self.digest.hex());
        if let Some(manifest) = tagged(client, reference, &tag).await? {
            self.check(client, reference, &manifest, &mut left).await?;
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        let referrers = referrers(client, reference, self.digest).await?.into_iter();
        let signatures =
            referrers.filter(|referrer| referrer.artifact_type.as_deref() == Some(ARTIFACT));
        for Referrer { digest, .. } in signatures.take(MAX_REFERRERS) {
            self.check(client, reference, &digest, &mut left).await?;
            if self.missing.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Verifies the signatures of one manifest.
    async fn check(
        &mut self,
        client: &Client,
        reference: &Reference,
        manifest: &Digest,
        left: &mut usize,
    ) -> Result<(), Error> {
        let Some(bytes) = present(client.manifest(reference, manifest).await)? else {
            return Ok(());
        };
        let Ok(document) = object::<SignatureManifest>(&bytes) else {
            self.problems.wrong("it is no signature".into());
            return Ok(());
        };
        for layer in document.layers {
            if self.missing.is_empty() {
                return Ok(());
            }
            if layer.media_type != PAYLOAD {
                continue;
            }
            if *left == 0 {
                let problem = format!("there are more than {MAX_SIGNATURES} signatures");
                self.problems.wrong(problem);
                return Ok(());
            }
            *left -= 1;
            let Some(signature) = signature(client, reference, layer).await? else {
                self.problems.wrong("it is no signature".into());
                continue;
            };
            self.missing.retain(|required| {
                let checked = required.check(&signature, self.requested, self.digest);
                let is_missing = checked.is_err();
                if let Err(problem) = checked {
                    self.problems.wrong(problem);
                }
                is_missing
            });
        }
        Ok(())
    }
}

/// A signature with its payload; none when the layer is no signature.
async fn signature(
    client: &Client,
    reference: &Reference,
    layer: SignatureLayer,
) -> Result<Option<ImageSignature>, Error> {
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
    let Some(mut stream) = present(client.blob(reference, &descriptor).await)? else {
        return Ok(None);
    };
    let mut payload = Vec::new();
    // The stream ends at the size of the descriptor.
    while let Some(piece) = stream.next().await? {
        payload.extend_from_slice(&piece);
    }
    Ok(Some(ImageSignature { payload, signature }))
}

#[derive(Deserialize)]
struct SignatureManifest {
    #[serde(default)]
    layers: Vec<SignatureLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignatureLayer {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    annotations: Option<BTreeMap<String, String>>,
}
