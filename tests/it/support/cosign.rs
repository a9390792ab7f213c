//! Keys and signatures as cosign makes them, made in the test.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use super::registry::TestRegistry;

/// The media type of what is signed.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The media type of the manifest around it.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The artifact type of a signature among referrers.
const ARTIFACT: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";

/// Who signs.
pub(crate) struct Signer {
    pair: KeyPair,
}

/// A manifest with signatures, and its blobs.
pub(crate) struct Signed {
    pub(crate) manifest: Value,
    pub(crate) blobs: Vec<Vec<u8>>,
}

impl Signer {
    /// A new key, of the kind that cosign makes.
    pub(crate) fn new() -> Self {
        Self {
            pair: KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap(),
        }
    }

    /// The holder of a key.
    pub(crate) fn of(pair: KeyPair) -> Self {
        Self { pair }
    }

    /// Signs bytes, without a manifest around them.
    pub(crate) fn signature(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).unwrap()
    }

    /// Its public key, in PEM.
    pub(crate) fn public_key(&self) -> String {
        self.pair.public_key_pem()
    }

    /// Its public key, as a policy has it in `keyData`.
    pub(crate) fn key_data(&self) -> String {
        BASE64_STANDARD.encode(self.public_key())
    }

    /// Signs an image under a name.
    pub(crate) fn sign(&self, image: &Digest, name: &str) -> Signed {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": name},
                "image": {"docker-manifest-digest": image.to_string()},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        self.sign_bytes(payload.to_string().into_bytes())
    }

    /// Signs anything.
    pub(crate) fn sign_bytes(&self, payload: Vec<u8>) -> Signed {
        let signature = BASE64_STANDARD.encode(self.pair.sign(&payload).unwrap());
        let config = b"{}".to_vec();
        let descriptor = |kind: &str, bytes: &[u8]| {
            json!({
                "mediaType": kind,
                "digest": Digest::of(bytes).to_string(),
                "size": bytes.len(),
            })
        };
        let mut layer = descriptor(PAYLOAD, &payload);
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [layer],
        });
        Signed {
            manifest,
            blobs: vec![config, payload],
        }
    }
}

impl Signed {
    /// The signed bytes.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.blobs[1]
    }

    /// The signature, in base64.
    pub(crate) fn signature(&self) -> &str {
        let annotations = &self.manifest["layers"][0]["annotations"];
        annotations["dev.cosignproject.cosign/signature"]
            .as_str()
            .unwrap()
    }

    /// Adds an annotation of cosign to the signature: `bundle`, `certificate` or
    /// `chain`.
    pub(crate) fn annotate(&mut self, name: &str, value: &str) {
        let annotations = &mut self.manifest["layers"][0]["annotations"];
        annotations[format!("dev.sigstore.cosign/{name}")] = json!(value);
    }

    /// Adds the signatures of another.
    pub(crate) fn and(mut self, other: Self) -> Self {
        let layers = other.manifest["layers"].as_array().unwrap().clone();
        self.manifest["layers"]
            .as_array_mut()
            .unwrap()
            .extend(layers);
        self.blobs.extend(other.blobs);
        self
    }

    /// Puts it under the tag where signatures of an image are looked for.
    pub(crate) fn put_tag(&self, registry: &TestRegistry, repository: &str, image: &Digest) {
        let tag = format!("sha256-{}.sig", image.hex());
        self.put(registry, repository, &tag);
    }

    /// Puts it among the referrers of an image.
    pub(crate) fn put_referrer(&self, registry: &TestRegistry, repository: &str, image: &Digest) {
        let digest = self.put(registry, repository, "a-referrer");
        let descriptor = json!({
            "mediaType": MANIFEST,
            "digest": digest.to_string(),
            "size": self.manifest.to_string().len(),
            "artifactType": ARTIFACT,
        });
        registry.put_referrer(repository, image, descriptor);
    }

    /// Puts it among the referrers of an image, in a registry without an API
    /// for them.
    pub(crate) fn put_referrer_tag(
        &self,
        registry: &TestRegistry,
        repository: &str,
        image: &Digest,
    ) {
        let digest = self.put(registry, repository, "a-referrer");
        let index = json!({"schemaVersion": 2, "manifests": [{
            "mediaType": MANIFEST,
            "digest": digest.to_string(),
            "size": self.manifest.to_string().len(),
            "artifactType": ARTIFACT,
        }]});
        let tag = format!("sha256-{}", image.hex());
        let kind = "application/vnd.oci.image.index.v1+json";
        registry.put_manifest(repository, &tag, index.to_string(), kind);
    }

    fn put(&self, registry: &TestRegistry, repository: &str, tag: &str) -> Digest {
        for blob in &self.blobs {
            registry.put_blob(blob.clone());
        }
        registry.put_manifest(repository, tag, self.manifest.to_string(), MANIFEST)
    }
}
