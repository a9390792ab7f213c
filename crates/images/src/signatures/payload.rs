//! The signed document of both kinds of signatures, called "simple signing"
//! (containers-signature(5), cosign's signature specification).

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::policy::SignedIdentity;
use crate::reference::Reference;
use crate::signatures::object_only::ObjectOnly;

/// The end of the integers of 64 bits, where timestamps end.
const MAX_TIMESTAMP: f64 = 9_223_372_036_854_775_808.0;

/// The kind of a document, with its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadKind {
    /// Signed with OpenPGP: `optional` is an object.
    Simple,
    /// Signed with sigstore: `optional` is an object or `null`.
    Sigstore,
}

/// The signed image and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The digest of its manifest or index.
    pub(crate) digest: Digest,
    /// Its name, with or without a tag.
    pub(crate) name: String,
}

impl Payload {
    /// Reads a document, after its signature was verified.
    pub(crate) fn parse(bytes: &[u8], kind: PayloadKind) -> Result<Self, String> {
        let ObjectOnly(document) = serde_json::from_slice::<ObjectOnly<Document>>(bytes)
            .map_err(|_| "its payload is not a simple signing document".to_owned())?;
        let Critical {
            identity: ObjectOnly(identity),
            image: ObjectOnly(image),
            kind: stated,
        } = document.critical.0;
        if stated != kind.stated() {
            return Err(format!("its payload is no {:?}", kind.stated()));
        }
        if document.optional.is_none() && kind == PayloadKind::Simple {
            return Err("its payload is not a simple signing document".to_owned());
        }
        Ok(Self {
            digest: image.docker_manifest_digest,
            name: identity.docker_reference,
        })
    }

    /// Writes a document of sigstore, byte for byte as cosign does.
    pub(crate) fn document(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&NewDocument {
            critical: Critical {
                identity: ObjectOnly(Identity {
                    docker_reference: self.name.clone(),
                }),
                image: ObjectOnly(Image {
                    docker_manifest_digest: self.digest,
                }),
                kind: PayloadKind::Sigstore.stated().to_owned(),
            },
            optional: (),
        })
    }

    /// Checks that the document is about this digest, under a name that the
    /// rule accepts.
    pub(crate) fn check(
        &self,
        identity: &SignedIdentity,
        image: &Reference,
        digest: &Digest,
    ) -> Result<(), String> {
        if self.digest != *digest {
            return Err(format!("it signs {}", self.digest));
        }
        identity.check(image, &self.name)
    }
}

impl PayloadKind {
    /// The `type` of its documents.
    fn stated(self) -> &'static str {
        match self {
            Self::Simple => "atomic container signature",
            Self::Sigstore => "cosign container image signature",
        }
    }
}

/// Unknown fields are allowed in `optional` only, which must be there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    critical: ObjectOnly<Critical>,
    #[serde(deserialize_with = "Option::deserialize")]
    optional: Option<Optional>,
}

/// A document without remarks: `optional` is `null`.
#[derive(Serialize)]
struct NewDocument {
    critical: Critical,
    optional: (),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: ObjectOnly<Identity>,
    image: ObjectOnly<Image>,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    docker_reference: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    docker_manifest_digest: Digest,
}

/// The signer's remarks, of which two have a fixed type.
struct Optional;

impl<'de> Deserialize<'de> for Optional {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OptionalVisitor)
    }
}

struct OptionalVisitor;

impl<'de> Visitor<'de> for OptionalVisitor {
    type Value = Optional;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Optional, A::Error> {
        use serde::de::Error;

        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "creator" => {
                    map.next_value::<String>()?;
                }
                // An integer, which may be written as a decimal.
                "timestamp" => {
                    let stated: f64 = map.next_value()?;
                    if stated.fract() != 0.0 || stated.abs() >= MAX_TIMESTAMP {
                        return Err(A::Error::custom("timestamp is not an integer"));
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if !seen.insert(key) {
                return Err(A::Error::custom("a key is repeated"));
            }
        }
        Ok(Optional)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document(kind: PayloadKind) -> Value {
        json!({
            "critical": {
                "identity": {"docker-reference": "quay.io/a/b"},
                "image": {"docker-manifest-digest": Digest::of(b"image").to_string()},
                "type": kind.stated(),
            },
            "optional": {"creator": "me", "timestamp": 1_700_000_000, "more": [null]},
        })
    }

    #[test]
    fn a_document_has_exactly_its_members() {
        for kind in [PayloadKind::Simple, PayloadKind::Sigstore] {
            let good = document(kind);
            let parse = |document: &Value| Payload::parse(document.to_string().as_bytes(), kind);
            let payload = parse(&good).unwrap();
            assert_eq!(payload.digest, Digest::of(b"image"));
            assert_eq!(payload.name, "quay.io/a/b");
            let with = |change: &dyn Fn(&mut Value)| {
                let mut document = good.clone();
                change(&mut document);
                parse(&document)
            };
            assert!(with(&|d| d["optional"] = json!({})).is_ok());
            assert!(with(&|d| d["optional"]["timestamp"] = json!(2.0)).is_ok());
            let null = with(&|d| d["optional"] = json!(null));
            assert_eq!(null.is_ok(), kind == PayloadKind::Sigstore);
            assert!(with(&|d| d["optional"] = json!([])).is_err());
            assert!(with(&|d| drop(d.as_object_mut().unwrap().remove("optional"))).is_err());
            assert!(with(&|d| d["optional"]["creator"] = json!(1)).is_err());
            assert!(with(&|d| d["optional"]["timestamp"] = json!(1.5)).is_err());
            assert!(with(&|d| d["optional"]["timestamp"] = json!("1")).is_err());
            assert!(with(&|d| d["optional"]["timestamp"] = json!(1e300)).is_err());
            assert!(with(&|d| d["critical"]["type"] = json!("atomic")).is_err());
            assert!(with(&|d| d["critical"]["until"] = json!("2020")).is_err());
            assert!(with(&|d| d["critical"] = json!(null)).is_err());
            let digest = "docker-manifest-digest";
            assert!(with(&|d| d["critical"]["image"][digest] = json!("x")).is_err());
            assert!(with(&|d| d["more"] = json!(1)).is_err());
        }
        assert!(Payload::parse(b"", PayloadKind::Simple).is_err());
    }

    #[test]
    fn a_list_of_the_values_of_an_object_is_no_object() {
        let good = document(PayloadKind::Sigstore);
        let parse = |document: &Value| {
            Payload::parse(document.to_string().as_bytes(), PayloadKind::Sigstore)
        };
        let Value::Object(critical) = &good["critical"] else {
            panic!("{good}");
        };
        let values = ["identity", "image", "type"].map(|key| critical[key].clone());
        let mut listed = good.clone();
        listed["critical"] = json!(values);
        assert!(parse(&listed).is_err());
        assert!(parse(&json!([good["critical"], good["optional"]])).is_err());
        for key in ["identity", "image"] {
            let mut listed = good.clone();
            let values: Vec<Value> = good["critical"][key]
                .as_object()
                .unwrap()
                .values()
                .cloned()
                .collect();
            listed["critical"][key] = json!(values);
            assert!(parse(&listed).is_err(), "{key}");
        }
    }

    #[test]
    fn a_document_is_written_as_cosign_writes_it() {
        let payload = Payload {
            digest: Digest::of(b""),
            name: "h.example/a:v1".into(),
        };
        let written = payload.document().unwrap();
        let expected = concat!(
            r#"{"critical":{"identity":{"docker-reference":"h.example/a:v1"},"#,
            r#""image":{"docker-manifest-digest":"#,
            r#""sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"#,
            r#""type":"cosign container image signature"},"optional":null}"#,
        );
        assert_eq!(String::from_utf8(written.clone()).unwrap(), expected);
        assert_eq!(Payload::parse(&written, PayloadKind::Sigstore), Ok(payload));
    }

    #[test]
    fn a_document_of_the_other_kind_is_rejected() {
        let text = document(PayloadKind::Simple).to_string();
        let error = Payload::parse(text.as_bytes(), PayloadKind::Sigstore).unwrap_err();
        assert!(
            error.contains("cosign container image signature"),
            "{error}"
        );
        let text = document(PayloadKind::Sigstore).to_string();
        assert!(Payload::parse(text.as_bytes(), PayloadKind::Simple).is_err());
    }

    #[test]
    fn repeated_keys_and_trailing_bytes_are_rejected() {
        let good = document(PayloadKind::Simple).to_string();
        let parse = |text: &str| Payload::parse(text.as_bytes(), PayloadKind::Simple);
        assert!(parse(&good).is_ok());
        assert!(parse(&good.replace("\"optional\":{", "\"optional\":{\"more\":1,")).is_err());
        assert!(parse(&good.replace("\"type\":", "\"type\":\"x\",\"type\":")).is_err());
        assert!(parse(&format!("{good} {good}")).is_err());
    }
}
