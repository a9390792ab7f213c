//! Image configurations. Only their labels are read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::descriptor::MAX_DOCUMENT;
use crate::manifest::error::ManifestError;
use crate::manifest::json::{object, texts};

/// The labels of an image configuration. OCI's and Docker's formats agree on
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The labels, by name.
    pub labels: BTreeMap<String, String>,
}

impl ImageConfig {
    /// Parses an image configuration of at most 4 MiB. It need not have labels.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(ManifestError::TooLarge {
                size: bytes.len() as u64,
            });
        }
        let document: Value = object(bytes).map_err(ManifestError::Config)?;
        let labels = texts(&document["config"]["Labels"]);
        Ok(Self {
            labels: labels.map_err(ManifestError::Config)?,
        })
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_among_unread_fields() {
        let config = ImageConfig::parse(
            br#"{"architecture":7,"history":"none","config":{"Cmd":null,"Labels":{
                "com.example.folder":"/configs"}}}"#,
        )
        .unwrap();
        assert_eq!(config.label("com.example.folder"), Some("/configs"));
    }

    #[test]
    fn a_label_that_is_null_is_empty() {
        let config = br#"{"config":{"Labels":{"a":null,"com.example.folder":"/configs"}}}"#;
        let config = ImageConfig::parse(config).unwrap();
        assert_eq!(config.label("a"), Some(""));
        assert_eq!(config.label("com.example.folder"), Some("/configs"));
    }

    #[test]
    fn an_image_needs_no_labels() {
        for text in ["{}", r#"{"config":null}"#, r#"{"config":{"Labels":null}}"#] {
            assert_eq!(
                ImageConfig::parse(text.as_bytes()).unwrap().label("a"),
                None
            );
        }
    }

    #[test]
    fn other_documents_are_rejected() {
        for text in ["", "[]", r#"{"config":{"Labels":{"a":1}}}"#] {
            assert!(ImageConfig::parse(text.as_bytes()).is_err(), "{text}");
        }
        let large = vec![b' '; MAX_DOCUMENT + 1];
        assert!(matches!(
            ImageConfig::parse(&large),
            Err(ManifestError::TooLarge { .. })
        ));
    }
}
