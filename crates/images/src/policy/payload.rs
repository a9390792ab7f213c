//! What a signature says: the "simple signing" document that cosign signs.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::digest::Digest;

/// What cosign writes for the kind of document.
const KIND: &str = "cosign container image signature";

/// Which image was signed, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The digest of its manifest or index.
    pub(crate) digest: Digest,
    /// Its name, with or without a tag.
    pub(crate) name: String,
}

/// `critical` holds what has to be understood; `optional` the rest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    critical: Critical,
    #[serde(default, rename = "optional")]
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
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|_| "what was signed is no document about an image".to_owned())?;
        let Critical {
            identity,
            image,
            kind,
        } = document.critical;
        if kind != KIND {
            return Err("what was signed is no document of cosign's".into());
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
    fn only_what_is_understood_is_taken() {
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
