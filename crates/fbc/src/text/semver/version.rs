//! Versions.

use std::cmp::Ordering;
use std::fmt;

/// The longest version that is read, in bytes.
pub const MAX_VERSION: usize = 1_024;

/// The longest release that is read, in bytes, as OLM's CSV has it.
pub const MAX_RELEASE: usize = 20;

/// A semantic version. Compares by precedence, so two versions that differ
/// only in their build are equal; compare their texts to tell them apart.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// The identifiers behind `-`, or none.
    pub pre: Vec<Identifier>,
    /// The identifiers behind `+`, or none. They have no precedence.
    pub build: Vec<String>,
}

/// One identifier of a pre-release. Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifier {
    /// Digits only.
    Number(u64),
    /// Letters, digits and `-`, with at least one that is no digit.
    Text(String),
}

/// The reason why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// An empty text.
    #[error("the version is empty")]
    Empty,
    /// More than [`MAX_VERSION`] bytes.
    #[error("a version of {0} bytes is longer than {MAX_VERSION}")]
    TooLong(usize),
    /// Fewer than three parts.
    #[error("version {0:?} does not have the three parts major.minor.patch")]
    Parts(String),
    /// A part (named first) that is no number.
    #[error("the {0} number {1:?} of the version does not consist of digits")]
    NotANumber(&'static str, String),
    /// A number (its part named first) that starts with a needless zero.
    #[error("the {0} number {1:?} of the version has a leading zero")]
    LeadingZero(&'static str, String),
    /// A number (its part named first) that 64 bits do not hold.
    #[error("the {0} number {1:?} of the version is too large")]
    TooLarge(&'static str, String),
    /// An empty identifier (of the part named).
    #[error("the {0} has an empty identifier")]
    EmptyIdentifier(&'static str),
    /// An identifier (its part named first) with other characters than
    /// letters, digits and `-`.
    #[error("the {0} identifier {1:?} has other characters than letters, digits and '-'")]
    Identifier(&'static str, String),
    /// A release of more than [`MAX_RELEASE`] bytes.
    #[error("a release of {0} bytes is longer than {MAX_RELEASE}")]
    ReleaseTooLong(usize),
}

impl Version {
    /// Reads a version. Nothing is trimmed: no `v` before, no space around.
    ///
    /// ```
    /// use fbc::text::semver::Version;
    ///
    /// let version = Version::parse("1.2.3-rc.1+build").unwrap();
    /// assert!(version < Version::parse("1.2.3").unwrap());
    /// assert!(Version::parse("v1.2.3").is_err());
    /// assert!(Version::parse("1.2").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        if text.len() > MAX_VERSION {
            return Err(VersionError::TooLong(text.len()));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VersionError::Parts(text.to_owned()));
        };
        let major = number("major", major)?;
        let minor = number("minor", minor)?;
        let (patch, suffixes) = Self::suffixes(rest)?;
        Ok(Self {
            major,
            minor,
            patch: number("patch", patch)?,
            ..suffixes
        })
    }

    /// The text before the pre-release and the build, and a version with only these.
    pub(super) fn suffixes(text: &str) -> Result<(&str, Self), VersionError> {
        let (text, build) = split(text, '+');
        let (numbers, pre) = split(text, '-');
        let suffixes = Self {
            pre: pre.map_or(Ok(Vec::new()), |pre| identifiers("pre-release", pre))?,
            build: build.map_or(Ok(Vec::new()), builds)?,
            ..Self::default()
        };
        Ok((numbers, suffixes))
    }
}

/// Checks the release of a version: identifiers as in a pre-release, at most
/// [`MAX_RELEASE`] bytes. An empty text means no release and is valid.
pub fn check_release(text: &str) -> Result<(), VersionError> {
    if text.is_empty() {
        return Ok(());
    }
    if text.len() > MAX_RELEASE {
        return Err(VersionError::ReleaseTooLong(text.len()));
    }
    identifiers("release", text).map(|_| ())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (number, identifier) in self.pre.iter().enumerate() {
            write!(f, "{}{identifier}", if number == 0 { '-' } else { '.' })?;
        }
        for (number, identifier) in self.build.iter().enumerate() {
            write!(f, "{}{identifier}", if number == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            // A version without a pre-release comes after all its pre-releases.
            .then_with(|| self.pre.is_empty().cmp(&other.pre.is_empty()))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    let found = text.split_once(at);
    found.map_or((text, None), |(before, behind)| (before, Some(behind)))
}

pub(super) fn number(part: &'static str, text: &str) -> Result<u64, VersionError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::NotANumber(part, text.to_owned()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZero(part, text.to_owned()));
    }
    text.parse()
        .map_err(|_| VersionError::TooLarge(part, text.to_owned()))
}

fn identifiers(part: &'static str, text: &str) -> Result<Vec<Identifier>, VersionError> {
    text.split('.')
        .map(|identifier| {
            check_identifier(part, identifier)?;
            if identifier.bytes().all(|byte| byte.is_ascii_digit()) {
                number(part, identifier).map(Identifier::Number)
            } else {
                Ok(Identifier::Text(identifier.to_owned()))
            }
        })
        .collect()
}

fn builds(text: &str) -> Result<Vec<String>, VersionError> {
    text.split('.')
        .map(|identifier| {
            check_identifier("build", identifier)?;
            Ok(identifier.to_owned())
        })
        .collect()
}

fn check_identifier(part: &'static str, text: &str) -> Result<(), VersionError> {
    if text.is_empty() {
        return Err(VersionError::EmptyIdentifier(part));
    }
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Err(VersionError::Identifier(part, text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_read_and_written_back() {
        for text in [
            "0.0.0",
            "1.2.3",
            "0.2.0-rc.1",
            "0.2.0+build.1",
            "1.0.0-alpha-1.0.x+001.-",
            "18446744073709551615.0.0",
            "1.2.3----",
        ] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        let long = format!("1.0.0-{}", "a".repeat(MAX_VERSION));
        for text in [
            "",
            "0.2",
            "1",
            "v1.2.3",
            "0.2.0 ",
            " 0.2.0",
            "01.2.3",
            "1.02.3",
            "1.2.03",
            "1..3",
            "1.2.",
            "1.2.3.4",
            "1.2.3-",
            "1.2.3+",
            "1.2.3-01",
            "1.2.3-a..b",
            "1.2.3-a_b",
            "1.2.3+a_b",
            "1.2.3+a+b",
            "1.2.-3",
            "99999999999999999999.0.0",
            "1.2.3-99999999999999999999",
            "1.2.٣",
            &long,
        ] {
            assert!(Version::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn versions_sort_by_precedence() {
        let sorted = [
            "0.9.9",
            "1.0.0-0",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-Z",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0",
            "1.0.1-a",
            "1.0.10",
            "1.1.0",
            "2.0.0",
        ];
        for pair in sorted.windows(2) {
            let [low, high] = [pair[0], pair[1]].map(|text| Version::parse(text).unwrap());
            assert!(low < high, "{low} < {high}");
        }
    }

    #[test]
    fn a_build_has_no_precedence() {
        let [one, two] = ["1.0.0+1", "1.0.0+2"].map(|text| Version::parse(text).unwrap());
        assert_eq!(one, two);
        assert_ne!(one.to_string(), two.to_string());
    }

    #[test]
    fn a_release_is_a_short_list_of_identifiers() {
        for good in ["", "1", "alpha.1", "a-b.0", "12345678901234567890"] {
            assert_eq!(check_release(good), Ok(()), "{good:?}");
        }
        for bad in [
            "01",
            "a..b",
            "a b",
            "a+b",
            "99999999999999999999",
            "aaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert!(check_release(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_a_version_never_panics(text in "[0-9a-zA-Z.+-]{0,20}|\\PC{0,20}") {
            if let Ok(version) = Version::parse(&text) {
                prop_assert_eq!(version.to_string(), text);
            }
        }
    }
}
