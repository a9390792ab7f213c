//! The signatures of sigstore in a registry: the tag `sha256-….sig`, and the
//! image's referrers, where cosign puts them and bundles.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, null_as_default, object, texts};
use crate::pull::referrers::{present, referrers, tagged};
use crate::pull::signatures::search::{Search, count};
use crate::reference::Reference;
use crate::registry::Client;
use crate::signatures::bundle::{Bundle, MAX_BUNDLE};
use crate::signatures::sigstore::signature::PAYLOAD;
use crate::signatures::{Signature, SignatureKind, SigstoreSignature};

/// The artifact type of cosign's signatures among referrers.
const ARTIFACT: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
/// The artifact type that the fallback tag of referrers states for bundles: the
/// media type of their configuration.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The start of the media types of all versions of bundles.
const BUNDLES: &str = "application/vnd.dev.sigstore.bundle";
/// The most signatures of one location that are verified.
const MAX_SIGNATURES: usize = 50;
/// The most referrers that are fetched.
const MAX_REFERRERS: usize = 20;
/// The largest payload, in bytes.
const MAX_PAYLOAD: u64 = 256 << 10;

/// Searches the signatures of one digest at a location.
pub(super) async fn run(
    search: &Search<'_>,
    client: &Client,
    image: &Reference,
    digest: &Digest,
) -> Result<(), Error> {
    if !search.needs(SignatureKind::Sigstore) {
        return Ok(());
    }
    let mut left = MAX_SIGNATURES;
    let tag = format!("sha256-{}.sig", digest.hex());
    let place = format!("{}:{tag}", image.name());
    match tagged(client, image, &tag).await? {
        Some(manifest) => {
            let found = check(search, client, image, digest, &manifest, &mut left).await?;
            search.searched(place, count(found));
        }
        None => search.searched(place, "nothing"),
    }
    if !search.needs(SignatureKind::Sigstore) {
        return Ok(());
    }
    let referrers = referrers(client, image, digest).await?.into_iter();
    let signatures = referrers.filter(|referrer| {
        let kind = referrer.artifact_type.as_deref().unwrap_or_default();
        [ARTIFACT, EMPTY].contains(&kind) || kind.starts_with(BUNDLES)
    });
    let mut found = 0;
    for (number, referrer) in signatures.enumerate() {
        if number == MAX_REFERRERS {
            let problem = format!("there are more than {MAX_REFERRERS} referrers");
            search.wrong(SignatureKind::Sigstore, problem);
            break;
        }
        found += check(search, client, image, digest, &referrer.digest, &mut left).await?;
        if !search.needs(SignatureKind::Sigstore) {
            break;
        }
    }
    let place = format!("the referrers of {}@{digest}", image.name());
    search.searched(place, count(found));
    Ok(())
}

/// Verifies the signatures of one manifest. Returns how many it has.
async fn check(
    search: &Search<'_>,
    client: &Client,
    image: &Reference,
    digest: &Digest,
    manifest: &Digest,
    left: &mut usize,
) -> Result<usize, Error> {
    let wrong = |problem: String| search.wrong(SignatureKind::Sigstore, problem);
    let Some(bytes) = present(client.manifest(image, manifest).await)? else {
        return Ok(0);
    };
    let Ok(document) = object::<SignatureManifest>(&bytes) else {
        wrong("it is not a signature".into());
        return Ok(0);
    };
    let mut found = 0;
    for layer in document.layers {
        let is_bundle = layer.media_type.starts_with(BUNDLES);
        if !is_bundle && layer.media_type != PAYLOAD {
            continue;
        }
        if *left == 0 {
            wrong(format!("there are more than {MAX_SIGNATURES} signatures"));
            break;
        }
        *left -= 1;
        found += 1;
        let signature = if is_bundle {
            bundle(search, client, image, &layer).await?
        } else {
            signature(client, image, layer).await?
        };
        match signature {
            Some(signature) => search.check(signature, digest).await,
            None => wrong("it is not a signature".into()),
        }
        if !search.needs(SignatureKind::Sigstore) {
            break;
        }
    }
    Ok(found)
}

/// A signature with its payload; none when the layer is no signature.
async fn signature(
    client: &Client,
    reference: &Reference,
    layer: SignatureLayer,
) -> Result<Option<Signature>, Error> {
    let Some(payload) = content(client, reference, &layer, MAX_PAYLOAD).await? else {
        return Ok(None);
    };
    let signature = SigstoreSignature::new(payload, layer.annotations);
    Ok(signature.map(Signature::Sigstore))
}

/// A bundle; none when the layer is none.
async fn bundle(
    search: &Search<'_>,
    client: &Client,
    reference: &Reference,
    layer: &SignatureLayer,
) -> Result<Option<Signature>, Error> {
    let digest_suffices = search.digest_suffices;
    let bytes = content(client, reference, layer, MAX_BUNDLE).await?;
    Ok(bytes.map(|bytes| {
        Signature::Bundle(Bundle {
            bytes,
            digest_suffices,
        })
    }))
}

/// The content of a layer; none when it is too large or not there.
async fn content(
    client: &Client,
    reference: &Reference,
    layer: &SignatureLayer,
    limit: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let (true, Ok(digest)) = (layer.size <= limit, layer.digest.parse()) else {
        return Ok(None);
    };
    let descriptor = Descriptor {
        media_type: layer.media_type.clone(),
        digest,
        size: layer.size,
    };
    let Some(mut stream) = present(client.blob(reference, &descriptor).await)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    // The stream ends at the size of the descriptor.
    while let Some(piece) = stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes))
}

#[derive(Deserialize)]
struct SignatureManifest {
    #[serde(default, deserialize_with = "null_as_default")]
    layers: Vec<SignatureLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignatureLayer {
    #[serde(default, deserialize_with = "null_as_default")]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
}
