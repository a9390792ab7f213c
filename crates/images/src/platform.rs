//! The platform of an image.

use std::fmt;
use std::str::FromStr;

/// The longest part of a platform.
const MAX_PART: usize = 64;

/// An operating system, an architecture and an optional variant, with Go's
/// names: `linux/amd64`, `linux/arm64/v8`. The default is `linux/amd64`, on
/// every machine: results do not depend on where a program runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform {
    /// Such as `linux`.
    pub os: String,
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `v8`.
    pub variant: Option<String>,
}

/// A text that is not a platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a platform: it is written OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT")]
pub struct PlatformError(String);

impl Default for Platform {
    fn default() -> Self {
        Self {
            os: "linux".into(),
            architecture: "amd64".into(),
            variant: None,
        }
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let good = |part: &&str| {
            !part.is_empty()
                && part.len() <= MAX_PART
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        };
        let parts = text.split('/').take(4).collect::<Vec<_>>();
        match parts.as_slice() {
            [os, architecture, variant @ ..] if variant.len() <= 1 && parts.iter().all(good) => {
                Ok(Self {
                    os: (*os).into(),
                    architecture: (*architecture).into(),
                    variant: variant.first().map(|variant| (*variant).into()),
                })
            }
            _ => Err(PlatformError(text.chars().take(200).collect())),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_written_as_go_writes_it() {
        for text in ["linux/amd64", "linux/arm64/v8"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "linux",
            "linux/",
            "/amd64",
            "linux/arm/v7/x",
            "linux/a b",
            "a/b/",
        ] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
        assert_eq!(Platform::default().to_string(), "linux/amd64");
    }
}
