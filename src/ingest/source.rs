//! Where a catalog comes from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::curate::Curation;
use crate::oci::reference::{Reference, ReferenceError};

/// A source of a catalog, as people write it.
///
/// ```
/// use almanac::ingest::Source;
///
/// for good in ["quay.io/org/catalog:v4.20", "oci:layout:v1", "file:deploy/catalog"] {
///     assert_eq!(good.parse::<Source>().unwrap().to_string(), good);
/// }
/// assert!("catalog".parse::<Source>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image in a registry.
    Image(Reference),
    /// An image in an OCI layout folder; without a tag, its only image.
    Layout {
        /// The folder with `oci-layout` and `index.json`.
        folder: PathBuf,
        /// The tag in the layout's index.
        tag: Option<String>,
    },
    /// A catalog folder or file on disk.
    File(PathBuf),
    /// A selection of other catalogs that almanac serves. No text stands for
    /// it: it is put together from several keys of the configuration.
    Curated(Curation),
}

/// Why a text is no source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A prefix without a path.
    #[error("{0:?} names no path; write file:PATH or oci:FOLDER[:TAG]")]
    Empty(String),
    /// A prefix that means something elsewhere.
    #[error("{0:?} is not supported; write an image reference, oci:FOLDER[:TAG] or file:PATH")]
    Scheme(String),
    /// No image reference either.
    #[error(
        "{text:?} is no source: {error}; \
         a source is an image reference, oci:FOLDER[:TAG] or file:PATH"
    )]
    Reference {
        /// What was written.
        text: String,
        /// Why it is no reference.
        error: ReferenceError,
    },
}

impl Source {
    /// Whether its content can never change, so that it is never polled.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Image(reference) if reference.digest().is_some())
    }

    /// Where it points, without what moves from version to version: what was
    /// stored from one source may be served for another with the same place
    /// until that one was read.
    pub fn place(&self) -> String {
        match self {
            Self::Image(reference) => {
                format!("{}/{}", reference.registry(), reference.repository())
            }
            Self::Layout { folder, .. } => format!("oci:{}", folder.display()),
            Self::File(path) => format!("file:{}", path.display()),
            Self::Curated(_) => self.to_string(),
        }
    }
}

/// Curated from nothing: what stands for a source until the keys are put
/// together.
impl Default for Source {
    fn default() -> Self {
        Self::Curated(Curation::default())
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if let Some(path) = text.strip_prefix("file:") {
            if path.is_empty() {
                return Err(SourceError::Empty(text.to_owned()));
            }
            return Ok(Self::File(path.into()));
        }
        if let Some(rest) = text.strip_prefix("oci:") {
            // A tag holds no '/', so a ':' before one belongs to the path.
            let (folder, tag) = match rest.rsplit_once(':') {
                Some((folder, tag)) if !tag.contains('/') => (folder, Some(tag.to_owned())),
                _ => (rest, None),
            };
            if folder.is_empty() || tag.as_deref() == Some("") {
                return Err(SourceError::Empty(text.to_owned()));
            }
            return Ok(Self::Layout {
                folder: folder.into(),
                tag,
            });
        }
        for scheme in [
            "oci-archive:",
            "docker-archive:",
            "docker:",
            "https:",
            "http:",
        ] {
            if text.starts_with(scheme) {
                return Err(SourceError::Scheme(text.to_owned()));
            }
        }
        text.parse()
            .map(Self::Image)
            .map_err(|error| SourceError::Reference {
                text: text.to_owned(),
                error,
            })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reference) => reference.fmt(f),
            Self::Layout { folder, tag: None } => write!(f, "oci:{}", folder.display()),
            Self::Layout {
                folder,
                tag: Some(tag),
            } => write!(f, "oci:{}:{tag}", folder.display()),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Curated(curation) => curation.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_and_shown_as_it_is_written() {
        for text in [
            "quay.io/org/catalog:v4.20",
            "localhost:5000/catalog:latest",
            "oci:a/b",
            "oci:/a:b/c",
            "oci:a:tag",
            "file:/a:b",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "file:",
            "oci:",
            "oci:a:",
            "oci::tag",
            "catalog",
            "docker://quay.io/a/b",
        ] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_digest_reference_is_fixed() {
        let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
        assert!(digest.parse::<Source>().unwrap().is_fixed());
        assert!(!"quay.io/a/b:v1".parse::<Source>().unwrap().is_fixed());
        assert!(!"file:a".parse::<Source>().unwrap().is_fixed());
    }
}
