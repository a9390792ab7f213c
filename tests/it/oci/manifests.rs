//! References, manifests and indexes.

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, USER_AGENT};
use images::digest::Digest;
use images::manifest::{DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use images::{ImageConfig, Manifest, Platform, Reference};
use serde_json::json;

use super::{HEAD, REPOSITORY, client, pull, put_image, reference, registry, told};
use crate::support::image::CONFIGS_LABEL;
use crate::support::registry::{DigestHeader, TestRegistry};

const GET: &str = "GET /v2/catalogs/a/manifests/latest";

#[tokio::test]
async fn an_image_is_resolved_and_pulled_to_its_last_layer() {
    let (registry, reference, digest) = registry().await;
    let client = client();
    let resolved = client.resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert_eq!(resolved.media_type.as_deref(), Some(OCI_MANIFEST));
    let bytes = client.manifest(&reference, &digest).await.unwrap();
    assert_eq!(resolved.size, Some(bytes.len() as u64));
    let Manifest::Image(image) = Manifest::parse(&bytes, None).unwrap() else {
        panic!("an image was put");
    };
    let config = pull(&client, &reference, &image.config).await.unwrap();
    let config = ImageConfig::parse(&config).unwrap();
    assert_eq!(config.label(CONFIGS_LABEL), Some("/configs"));
    let layer = pull(&client, &reference, &image.layers[0]).await.unwrap();
    assert_eq!(Digest::of(&layer), image.layers[0].digest);
    assert_eq!(registry.lines().len(), 4);
}

#[tokio::test]
async fn an_index_leads_to_the_image_of_the_platform() {
    let registry = TestRegistry::start().await;
    let entry = |architecture: &str| {
        let digest = put_image(&registry, REPOSITORY, architecture);
        json!({
            "mediaType": OCI_MANIFEST,
            "digest": digest.to_string(),
            "size": 1,
            "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let entries = [entry("arm64"), entry("amd64")];
    let amd64 = entries[1]["digest"].clone();
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries});
    let digest = registry.put_manifest(REPOSITORY, "latest", index.to_string(), OCI_INDEX);
    let (client, reference) = (client(), reference(&registry));
    let resolved = client.resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert_eq!(resolved.media_type.as_deref(), Some(OCI_INDEX));
    let bytes = client.manifest(&reference, &digest).await.unwrap();
    let Manifest::Index(index) = Manifest::parse(&bytes, None).unwrap() else {
        panic!("an index was put");
    };
    let selected = index.select(&Platform::default()).unwrap();
    assert_eq!(selected.digest.to_string(), amd64);
    client.manifest(&reference, &selected.digest).await.unwrap();
}

#[tokio::test]
async fn a_poll_is_one_request_that_says_what_it_takes() {
    let (registry, reference, _) = registry().await;
    let client = client();
    client.resolve(&reference).await.unwrap();
    client.resolve(&reference).await.unwrap();
    assert_eq!(registry.lines(), [HEAD, HEAD]);
    let headers = &registry.requests()[0].headers;
    let accept = headers[ACCEPT].to_str().unwrap();
    assert!(
        accept.contains(OCI_INDEX) && accept.contains(DOCKER_MANIFEST),
        "{accept}"
    );
    assert_eq!(headers[ACCEPT_ENCODING], "identity");
    assert_eq!(headers[USER_AGENT], "client-under-test/1.0");
    assert!(!headers.contains_key(AUTHORIZATION));
}

#[tokio::test]
async fn a_reference_by_digest_is_resolved_without_asking() {
    let (registry, reference, digest) = registry().await;
    let resolved = client()
        .resolve(&reference.with_digest(digest))
        .await
        .unwrap();
    assert_eq!(resolved.digest, digest);
    assert!(registry.lines().is_empty());
}

#[tokio::test]
async fn a_registry_without_head_is_asked_with_get() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.no_head = true);
    assert_eq!(client().resolve(&reference).await.unwrap().digest, digest);
    assert_eq!(registry.lines(), [HEAD, GET]);
}

#[tokio::test]
async fn a_missing_digest_header_is_computed_from_the_body() {
    let (registry, reference, digest) = registry().await;
    for header in [DigestHeader::Absent, DigestHeader::Nonsense] {
        registry.misbehave(|behaviour| behaviour.digest_header = header);
        let resolved = client().resolve(&reference).await.unwrap();
        assert_eq!(resolved.digest, digest);
        assert_eq!(resolved.media_type.as_deref(), Some(OCI_MANIFEST));
    }
    assert_eq!(registry.lines(), [HEAD, GET, HEAD, GET]);
}

#[tokio::test]
async fn a_wrong_digest_header_leads_to_nothing() {
    let (registry, reference, _) = registry().await;
    let client = client();
    registry.misbehave(|behaviour| behaviour.digest_header = DigestHeader::Wrong);
    let lie = client.resolve(&reference).await.unwrap().digest;
    let error = client.manifest(&reference, &lie).await.unwrap_err();
    assert_eq!(error.reason(), "not_found");
    registry.misbehave(|behaviour| behaviour.no_head = true);
    let error = client.resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(!error.is_temporary());
}

#[tokio::test]
async fn an_altered_manifest_is_refused() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.altered = true);
    let error = client().manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(told(&error).contains(&digest.to_string()), "{error}");
}

#[tokio::test]
async fn a_page_is_not_taken_for_a_manifest() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| {
        behaviour.not_a_manifest = true;
        behaviour.digest_header = DigestHeader::Absent;
    });
    let error = client().resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "bad_manifest");
    let error = client().manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
}

#[tokio::test]
async fn a_manifest_that_is_too_large_is_not_read() {
    let registry = TestRegistry::start().await;
    let large = vec![b' '; (4 << 20) + 1];
    let digest = registry.put_manifest(REPOSITORY, "latest", large, OCI_MANIFEST);
    let reference = reference(&registry);
    for percent in [None, Some(100)] {
        registry.misbehave(|behaviour| behaviour.percent = percent);
        let error = client().manifest(&reference, &digest).await.unwrap_err();
        assert_eq!(error.reason(), "too_large");
    }
}

#[tokio::test]
async fn a_missing_tag_is_told_in_the_registrys_words() {
    let (registry, _, _) = registry().await;
    let missing: Reference = registry.reference(REPOSITORY, "missing").parse().unwrap();
    let error = client().resolve(&missing).await.unwrap_err();
    assert_eq!(error.reason(), "not_found");
    assert!(!error.is_temporary());
    let text = told(&error);
    assert!(
        text.contains("MANIFEST_UNKNOWN: manifest unknown"),
        "{text}"
    );
    assert!(text.contains(&missing.to_string()), "{text}");
}
