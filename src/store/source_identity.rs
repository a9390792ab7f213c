//! The source of a revision, as it is stored.

use std::fmt;

/// What a revision is of, besides the digest of its source.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SourceIdentity {
    /// The source as it was configured.
    pub source: String,
    /// The platform of an image, or the digest of a curated catalog's
    /// selection: with another one, the same digest is another catalog.
    pub variant: Option<String>,
}

impl SourceIdentity {
    /// Reads the form of `Display`. A folder has no variant, and spaces in its
    /// path are its own.
    pub fn from_text(text: &str) -> Self {
        match text.rsplit_once(' ') {
            Some((source, variant)) if !text.starts_with("file:") => Self {
                source: source.to_owned(),
                variant: Some(variant.to_owned()),
            },
            _ => Self {
                source: text.to_owned(),
                variant: None,
            },
        }
    }
}

impl From<String> for SourceIdentity {
    fn from(text: String) -> Self {
        Self::from_text(&text)
    }
}

impl From<SourceIdentity> for String {
    fn from(identity: SourceIdentity) -> Self {
        identity.to_string()
    }
}

/// The source, then a space and the variant: the form in archives and on the
/// admin port.
impl fmt::Display for SourceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        match &self.variant {
            Some(variant) => write!(f, " {variant}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_shown() {
        for (text, source, variant) in [
            (
                "quay.io/a/b:v1 linux/amd64",
                "quay.io/a/b:v1",
                Some("linux/amd64"),
            ),
            (
                "oci:/a b:v1 linux/arm/v7",
                "oci:/a b:v1",
                Some("linux/arm/v7"),
            ),
            ("curated:a,b sha256:0", "curated:a,b", Some("sha256:0")),
            ("file:/a b linux/amd64", "file:/a b linux/amd64", None),
            ("file:a", "file:a", None),
        ] {
            let identity = SourceIdentity::from_text(text);
            assert_eq!(identity.source, source);
            assert_eq!(identity.variant.as_deref(), variant);
            assert_eq!(identity.to_string(), text);
        }
    }
}
