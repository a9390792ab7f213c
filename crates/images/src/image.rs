//! The image configuration: of all that is in it, the labels.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::manifest::{MAX_DOCUMENT, ManifestError, object};

/// The label that names the folder (or file) of the catalog inside the image.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// The label that names the SQLite database of the catalog inside the image, as
/// catalogs had it before they were files.
pub const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// What almanac needs of an image configuration (OCI or Docker, which are the
/// same here).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The labels, by name.
    pub labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    config: Option<Runtime>,
}

#[derive(Deserialize)]
struct Runtime {
    #[serde(rename = "Labels", default)]
    labels: Option<BTreeMap<String, String>>,
}

impl ImageConfig {
    /// Reads an image configuration of at most 4 MiB. No labels at all is
    /// fine here; [`ImageConfig::configs_label`] tells.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(ManifestError::TooLarge {
                size: bytes.len() as u64,
            });
        }
        let document: Document = object(bytes).map_err(ManifestError::Config)?;
        Ok(Self {
            labels: document
                .config
                .and_then(|config| config.labels)
                .unwrap_or_default(),
        })
    }

    /// Where the catalog lies inside the image, when the image says so: as
    /// files, or else as a database.
    pub fn catalog_label(&self) -> Option<&str> {
        self.configs_label().or(self.database_label())
    }

    /// Where the catalog lies as files, when the image says so.
    pub fn configs_label(&self) -> Option<&str> {
        self.labels.get(CONFIGS_LABEL).map(String::as_str)
    }

    /// Where the catalog lies as a database, when the image says so.
    pub fn database_label(&self) -> Option<&str> {
        self.labels.get(DATABASE_LABEL).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_found_among_what_is_not_looked_at() {
        let config = ImageConfig::parse(
            br#"{"architecture":7,"history":"none","config":{"Cmd":null,"Labels":{
                "operators.operatorframework.io.index.configs.v1":"/configs"}}}"#,
        )
        .unwrap();
        assert_eq!(config.configs_label(), Some("/configs"));
    }

    #[test]
    fn an_image_without_labels_is_read() {
        for text in ["{}", r#"{"config":null}"#, r#"{"config":{"Labels":null}}"#] {
            assert_eq!(
                ImageConfig::parse(text.as_bytes()).unwrap().configs_label(),
                None
            );
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
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
