//! The registry client against a registry that behaves, and one that does not.

mod blobs;
mod credentials;
mod manifests;
mod retries;

use std::time::Duration;

use images::digest::Digest;
use images::manifest::OCI_MANIFEST;
use images::{Client, Descriptor, Error, Reference, Settings};
use serde_json::json;

use crate::support::image::CONFIGS_LABEL;
use crate::support::registry::TestRegistry;

const REPOSITORY: &str = "catalogs/a";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";

/// Settings that end a test that hangs.
fn settings() -> Settings {
    Settings {
        user_agent: "client-under-test/1.0".into(),
        idle_timeout: Duration::from_secs(10),
        manifest_timeout: Duration::from_secs(20),
        blob_timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

fn client() -> Client {
    Client::new(&settings()).unwrap()
}

fn reference(registry: &TestRegistry) -> Reference {
    registry.reference(REPOSITORY, "latest").parse().unwrap()
}

/// A registry with one image, and the digest of its manifest.
async fn registry() -> (TestRegistry, Reference, Digest) {
    let registry = TestRegistry::start().await;
    let digest = put_image(&registry, REPOSITORY, "latest");
    let reference = reference(&registry);
    (registry, reference, digest)
}

/// Puts a small image: a configuration, named after its tag, and one layer
/// (which is no archive, as nobody in here unpacks it).
fn put_image(registry: &TestRegistry, repository: &str, tag: &str) -> Digest {
    let config = json!({"config": {"Labels": {CONFIGS_LABEL: "/configs", "tag": tag}}});
    let descriptor = |media_type: &str, content: String| {
        let size = content.len();
        let digest = registry.put_blob(content).to_string();
        json!({"mediaType": media_type, "digest": digest, "size": size})
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", config.to_string()),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", "layer".into())],
    });
    registry.put_manifest(repository, tag, manifest.to_string(), OCI_MANIFEST)
}

/// A registry with one blob of some size.
async fn registry_with_blob() -> (TestRegistry, Reference, Descriptor) {
    let registry = TestRegistry::start().await;
    let bytes = (0..100_000_u32)
        .flat_map(u32::to_le_bytes)
        .collect::<Vec<_>>();
    let descriptor = Descriptor {
        media_type: "application/octet-stream".into(),
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    };
    registry.put_blob(bytes);
    let reference = reference(&registry);
    (registry, reference, descriptor)
}

async fn pull(
    client: &Client,
    reference: &Reference,
    descriptor: &Descriptor,
) -> Result<Vec<u8>, Error> {
    let mut stream = client.blob(reference, descriptor).await?;
    let mut bytes = Vec::new();
    loop {
        match stream.next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => {
                assert!(
                    stream.next().await.unwrap().is_none(),
                    "the end stays the end"
                );
                return Ok(bytes);
            }
            Err(error) => {
                assert!(
                    stream.next().await.is_err(),
                    "a failed stream never ends well"
                );
                return Err(error);
            }
        }
    }
}

/// The message with all of its causes.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
