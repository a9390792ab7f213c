//! The platform of an image.

use std::fmt;
use std::str::FromStr;

use crate::display::clip;

/// The longest part of a platform.
const MAX_PART: usize = 64;

/// An operating system, an architecture and an optional variant, with Go's
/// names: `linux/amd64`, `linux/arm64/v8`. The names of other tools mean the same:
/// `Linux/x86_64`, `linux/aarch64`. The default is `linux/amd64`, on every machine:
/// results do not depend on where a program runs.
///
/// ```
/// use images::Platform;
///
/// let platform: Platform = "Linux/aarch64".parse()?;
/// assert_eq!(platform.to_string(), "linux/arm64");
/// # Ok::<(), images::platform::PlatformError>(())
/// ```
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

impl Platform {
    /// The same with Go's names, as containerd writes it. A variant that its
    /// architecture implies stays: an index may name it.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let os = self.os.to_ascii_lowercase();
        let os = match os.as_str() {
            "macos" => "darwin".to_owned(),
            _ => os,
        };
        let variant = self.variant.as_deref().map(str::to_ascii_lowercase);
        let architecture = self.architecture.to_ascii_lowercase();
        let (architecture, implied) = match architecture.as_str() {
            "i386" => ("386", None),
            "x86_64" | "x86-64" => ("amd64", None),
            "aarch64" => ("arm64", None),
            "armhf" => ("arm", Some("v7")),
            "armel" => ("arm", Some("v6")),
            other => (other, None),
        };
        let variant = match (architecture, implied, variant) {
            (_, Some(implied), _) => Some(implied.to_owned()),
            ("arm" | "arm64", None, Some(number))
                if number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                Some(format!("v{number}"))
            }
            ("386", None, _) => None,
            (_, None, variant) => variant,
        };
        Self {
            os,
            architecture: architecture.to_owned(),
            variant,
        }
    }

    /// Its variant, unless it is the one that every machine of the architecture has.
    pub(crate) fn specific_variant(&self) -> Option<&str> {
        let variant = self.variant.as_deref()?;
        let is_usual = matches!(
            (self.architecture.as_str(), variant),
            ("amd64", "v1") | ("arm64", "v8")
        );
        (!is_usual).then_some(variant)
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
                let platform = Self {
                    os: (*os).into(),
                    architecture: (*architecture).into(),
                    variant: variant.first().map(|variant| (*variant).into()),
                };
                Ok(platform.normalized())
            }
            _ => Err(PlatformError(clip(text, 200))),
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
        for (text, normalized) in [
            ("linux/aarch64", "linux/arm64"),
            ("linux/x86_64", "linux/amd64"),
            ("linux/x86-64", "linux/amd64"),
            ("Linux/ARM64", "linux/arm64"),
            ("linux/arm64/8", "linux/arm64/v8"),
            ("linux/arm/7", "linux/arm/v7"),
            ("linux/arm/V6", "linux/arm/v6"),
            ("linux/armhf", "linux/arm/v7"),
            ("linux/armel", "linux/arm/v6"),
            ("linux/i386", "linux/386"),
            ("macOS/arm64", "darwin/arm64"),
            ("linux/s390x", "linux/s390x"),
        ] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), normalized);
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
