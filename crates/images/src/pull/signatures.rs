//! Fetching the signatures of an image from where cosign puts them: the tag
//! `sha256-….sig`, and the image's referrers.
//!
//! The policy verifies them. A registry can return anything, so all counts and
//! sizes are bounded.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, object};
use crate::policy::{ImageSignature, RequiredSignature};
use crate::pull::referrers::{present, referrers, tagged};
use crate::pull::route::Route;
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
        let search = SignatureSearch {
            requested: &self.requested,
            state: Mutex::new(SearchState {
                missing: required.iter().collect(),
                ..SearchState::default()
            }),
        };
        let search = &search;
        for location in self.usable() {
            for digest in &digests {
                let query =
                    |client, image| async move { search.run(&client, &image, digest).await };
                if let Err(error) = self.clients.run(location, query).await {
                    search.state.lock().failure.get_or_insert(error);
                }
                if search.is_done() {
                    let served = location.reference.name();
                    tracing::debug!(image = %self.requested, %digest, served, "the required signatures are there");
                    return Ok(());
                }
            }
        }
        let state = std::mem::take(&mut *search.state.lock());
        Err(match state.into_failure() {
            // A location that failed may have the signature.
            Ok(error) => error,
            Err(problem) => Error::Rejected {
                reference: self.requested.clone(),
                source: self.admission.unsigned(problem),
            },
        })
    }
}

/// The search for the required signatures of an image.
struct SignatureSearch<'a> {
    requested: &'a Reference,
    state: Mutex<SearchState<'a>>,
}

#[derive(Default)]
struct SearchState<'a> {
    /// The signatures that are not found yet.
    missing: Vec<&'a RequiredSignature>,
    /// Why no signature was accepted.
    problems: Vec<String>,
    found: bool,
    /// The error of a location.
    failure: Option<Error>,
}

impl SearchState<'_> {
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

    /// Verifies one signature.
    fn check(&mut self, signature: &ImageSignature, image: &Reference, digest: &Digest) {
        for required in std::mem::take(&mut self.missing) {
            if let Err(problem) = required.check(signature, image, digest) {
                self.wrong(problem);
                self.missing.push(required);
            }
        }
    }
}

impl SignatureSearch<'_> {
    fn is_done(&self) -> bool {
        self.state.lock().missing.is_empty()
    }

    fn wrong(&self, problem: impl Into<String>) {
        self.state.lock().wrong(problem.into());
    }

    /// Searches the signatures of one digest at a location.
    async fn run(&self, client: &Client, image: &Reference, digest: &Digest) -> Result<(), Error> {
        let mut left = MAX_SIGNATURES;
        let tag = format!("sha256-{}.sig", digest.hex());
        if let Some(manifest) = tagged(client, image, &tag).await? {
            self.check(client, image, digest, &manifest, &mut left)
                .await?;
        }
        if self.is_done() {
            return Ok(());
        }
        let referrers = referrers(client, image, digest).await?.into_iter();
        let signatures =
            referrers.filter(|referrer| referrer.artifact_type.as_deref() == Some(ARTIFACT));
        for referrer in signatures.take(MAX_REFERRERS) {
            self.check(client, image, digest, &referrer.digest, &mut left)
                .await?;
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// Verifies the signatures of one manifest.
    async fn check(
        &self,
        client: &Client,
        image: &Reference,
        digest: &Digest,
        manifest: &Digest,
        left: &mut usize,
    ) -> Result<(), Error> {
        let Some(bytes) = present(client.manifest(image, manifest).await)? else {
            return Ok(());
        };
        let Ok(document) = object::<SignatureManifest>(&bytes) else {
            self.wrong("it is no signature");
            return Ok(());
        };
        for layer in document.layers {
            if self.is_done() {
                return Ok(());
            }
            if layer.media_type != PAYLOAD {
                continue;
            }
            if *left == 0 {
                self.wrong(format!("there are more than {MAX_SIGNATURES} signatures"));
                return Ok(());
            }
            *left -= 1;
            match signature(client, image, layer).await? {
                Some(signature) => {
                    let mut state = self.state.lock();
                    state.check(&signature, self.requested, digest);
                }
                None => self.wrong("it is no signature"),
            }
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
