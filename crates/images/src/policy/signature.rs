//! A signature that the policy requires, and its verification. The signed
//! payload is the "simple signing" document of cosign.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::digest::Digest;
use crate::policy::identity::SignedIdentity;
use crate::policy::key::PublicKey;
use crate::reference::Reference;

/// The `type` that cosign writes.
const KIND: &str = "cosign container image signature";

/// A signature that an image needs.
#[derive(Debug)]
pub struct RequiredSignature {
    pub(super) keys: Vec<PublicKey>,
    pub(super) identity: SignedIdentity,
}

/// A signature from a registry.
#[derive(Clone, Debug)]
pub struct ImageSignature {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The signature of these bytes.
    pub signature: Vec<u8>,
}

impl RequiredSignature {
    /// Checks that a signature was made with one of the keys, over this
    /// digest, for a name that fits the image.
    pub fn check(
        &self,
        signature: &ImageSignature,
        image: &Reference,
        digest: &Digest,
    ) -> Result<(), String> {
        let ImageSignature { payload, signature } = signature;
        if !self.keys.iter().any(|key| key.verifies(payload, signature)) {
            return Err("it was not made with a key of the policy".into());
        }
        // The payload is not parsed before its signature holds.
        let payload = Payload::parse(payload)?;
        if payload.digest != *digest {
            return Err(format!("it signs {}", payload.digest));
        }
        self.identity.check(image, &payload.name)
    }
}

/// The signed image and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Payload {
    /// The digest of its manifest or index.
    digest: Digest,
    /// Its name, with or without a tag.
    name: String,
}

/// Unknown fields are allowed in `optional` only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    critical: Critical,
    #[serde(rename = "optional")]
    _optional: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    docker_reference: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    docker_manifest_digest: Digest,
}

impl Payload {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|_| "its payload is no simple signing document".to_owned())?;
        let Critical {
            identity,
            image,
            kind,
        } = document.critical;
        if kind != KIND {
            return Err("its payload is no document of cosign".into());
        }
        Ok(Self {
            digest: image.docker_manifest_digest,
            name: identity.docker_reference,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_rejected() {
        let digest = Digest::of(b"image");
        let good = json!({
            "critical": {
                "identity": {"docker-reference": "quay.io/a/b"},
                "image": {"docker-manifest-digest": digest.to_string()},
                "type": KIND,
            },
            "optional": {"creator": "me"},
        });
        let parse = |document: &serde_json::Value| Payload::parse(document.to_string().as_bytes());
        let payload = parse(&good).unwrap();
        assert_eq!(
            (payload.digest, payload.name.as_str()),
            (digest, "quay.io/a/b")
        );
        let with = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut document = good.clone();
            change(&mut document);
            parse(&document)
        };
        assert!(with(&|d| d["optional"] = json!(null)).is_ok());
        assert!(with(&|d| d["critical"]["type"] = json!("atomic")).is_err());
        assert!(with(&|d| d["critical"]["until"] = json!("2020")).is_err());
        assert!(with(&|d| d["critical"]["image"]["docker-manifest-digest"] = json!("x")).is_err());
        assert!(with(&|d| d["more"] = json!(1)).is_err());
        assert!(Payload::parse(b"").is_err());
    }
}
