//! The image of a `ClusterCatalog`, by the rules of catalogd. They are narrower than
//! those of the definition, so the API server takes references that catalogd blocks.

use std::time::Duration;

use kube::core::DynamicObject;

use images::{Reference, ReferenceError};

/// The image to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its reference.
    pub(crate) reference: Reference,
    /// The time between two polls; `None` is never.
    pub(crate) poll: Option<Duration>,
}

/// The image in the specification of an object, or the message why none can be
/// followed until the object changes, in catalogd's words.
pub(crate) fn image(object: &DynamicObject) -> Result<Image, String> {
    let source = &object.data["spec"]["source"];
    let kind = source["type"].as_str().unwrap_or_default();
    if kind != "Image" {
        return Err(format!("terminal error: unknown source type {kind:?}"));
    }
    let image = &source["image"];
    let Some(text) = image["ref"].as_str() else {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        return Err(format!(
            "terminal error: error parsing ClusterCatalog {name:?}, image source is nil"
        ));
    };
    let minutes = image["pollIntervalMinutes"].as_u64();
    let poll = minutes.and_then(|minutes| minutes.checked_mul(60));
    Ok(Image {
        reference: parse(text)
            .map_err(|problem| format!("source catalog content: terminal error: {problem}"))?,
        poll: poll.map(Duration::from_secs),
    })
}

fn parse(text: &str) -> Result<Reference, String> {
    let unparsable = |problem: &str| format!("error parsing image reference {text:?}: {problem}");
    let unusable = |problem: &str| format!("error creating reference: {problem}");
    let reference: Reference = text.parse().map_err(|error| match error {
        ReferenceError::NotQualified(_) => unparsable("repository name must be canonical"),
        ReferenceError::Repository(_) if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            unparsable("invalid reference format: repository name must be lowercase")
        }
        ReferenceError::Digest { .. } => unparsable("invalid checksum digest length"),
        ReferenceError::TagAndDigest(_) => {
            unusable("Docker references with both a tag and digest are currently not supported")
        }
        _ => unparsable("invalid reference format"),
    })?;
    let full = reference.to_string();
    if full.eq_ignore_ascii_case(text) {
        return Ok(reference);
    }
    if full == format!("{text}:latest") {
        let problem = format!("Docker reference {text} has neither a tag nor a digest");
        return Err(unusable(&problem));
    }
    Err(unparsable("repository name must be canonical"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(image: &Value) -> Result<Image, String> {
        of_source(&json!({"type": "Image", "image": image}))
    }

    fn of_source(source: &Value) -> Result<Image, String> {
        let object = json!({"metadata": {"name": "a"}, "spec": {"source": source}});
        image(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_tag_and_a_digest_are_followed() {
        let found = of(&json!({"ref": "quay.io/a/b:v1", "pollIntervalMinutes": 10})).unwrap();
        assert_eq!(found.poll, Some(Duration::from_mins(10)));
        assert_eq!(found.reference.tag(), Some("v1"));
        let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
        let found = of(&json!({"ref": digest})).unwrap();
        assert_eq!((found.poll, found.reference.to_string()), (None, digest));
        assert!(of(&json!({"ref": "localhost:5000/a:v1"})).is_ok());
    }

    /// The API server takes all of these.
    #[test]
    fn a_reference_that_catalogd_cannot_use_has_its_sentence() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, sentence) in [
            (
                "org/catalog:v1".to_owned(),
                "repository name must be canonical",
            ),
            (
                "docker.io/catalog:v1".to_owned(),
                "repository name must be canonical",
            ),
            (
                "quay.io/Org/catalog:v1".to_owned(),
                "error parsing image reference \"quay.io/Org/catalog:v1\": invalid reference format: \
                 repository name must be lowercase",
            ),
            (
                format!("quay.io/a/b@sha256:{}", "0".repeat(63)),
                "invalid checksum digest length",
            ),
            (
                format!("quay.io/a/b:v1@{digest}"),
                "Docker references with both a tag and digest are currently not supported",
            ),
            ("quay.io/a/b".to_owned(), "has neither a tag nor a digest"),
        ] {
            let problem = of(&json!({"ref": text})).unwrap_err();
            assert!(problem.ends_with(sentence), "{problem}");
            let prefix = "source catalog content: terminal error: ";
            assert!(problem.starts_with(prefix), "{problem}");
        }
    }

    #[test]
    fn an_object_without_an_image_has_the_sentence_of_catalogd() {
        let problem = of(&Value::Null).unwrap_err();
        assert_eq!(
            problem,
            "terminal error: error parsing ClusterCatalog \"a\", image source is nil"
        );
        let problem = of_source(&json!({"type": "Git", "image": {"ref": "quay.io/a/b:v1"}}));
        assert_eq!(
            problem.unwrap_err(),
            "terminal error: unknown source type \"Git\""
        );
    }
}
