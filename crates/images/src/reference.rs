//! Fully qualified image references.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Digest, DigestError};

/// The longest host name, as DNS has it.
const MAX_HOST: usize = 253;
/// The longest repository, as most registries have it.
const MAX_REPOSITORY: usize = 255;
/// The longest tag (distribution specification).
const MAX_TAG: usize = 128;
/// How much of a refused text an error repeats.
const MAX_SHOWN: usize = 300;

/// Where an image is: `HOST[:PORT]/REPOSITORY`, then `:TAG` or `@DIGEST`.
///
/// The host is always written out, since a short name means something else on
/// every machine; it is kept in lower case. With neither tag nor digest the
/// tag is `latest`; both together are refused, as the one would silently win
/// over the other. Cheap to clone.
///
/// ```
/// use almanac::oci::Reference;
///
/// let reference: Reference = "quay.io/operatorhubio/catalog:latest".parse().unwrap();
/// assert_eq!(reference.registry(), "quay.io");
/// assert_eq!(reference.repository(), "operatorhubio/catalog");
/// assert_eq!(reference.tag(), Some("latest"));
/// assert_eq!(reference.digest(), None);
///
/// let digest = almanac::digest::Digest::of(b"");
/// let pinned = reference.with_digest(digest);
/// assert_eq!(pinned.to_string(), format!("quay.io/operatorhubio/catalog@{digest}"));
/// assert_eq!(pinned.tag(), None);
///
/// let short = "operatorhubio/catalog".parse::<Reference>().unwrap_err();
/// assert!(short.to_string().contains("fully qualified"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(Arc<Parts>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    registry: String,
    repository: String,
    version: Version,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Version {
    Tag(String),
    Digest(Digest),
}

/// Why a text is no image reference. Each variant carries the text, cut to a
/// bounded length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// No host in front of the repository.
    #[error(
        "image reference {0:?} has to be fully qualified: HOST[:PORT]/REPOSITORY, where the host \
         has a dot or a port or is localhost"
    )]
    NotQualified(String),
    /// A host or port that cannot be one.
    #[error("image reference {0:?} has no valid registry host and port")]
    Registry(String),
    /// A repository outside the grammar of the distribution specification.
    #[error(
        "image reference {0:?} has no valid repository: it takes at most 255 characters, lower-case \
         letters and digits in parts between '/', separated inside a part by one '.', one or two \
         '_' or any number of '-'"
    )]
    Repository(String),
    /// A repository of Docker Hub without its namespace.
    #[error("image reference {0:?} has to name its namespace, such as docker.io/library/NAME")]
    Namespace(String),
    /// A tag outside the grammar of the distribution specification.
    #[error(
        "image reference {0:?} has no valid tag: it takes at most 128 letters, digits, '_', '.' \
         and '-', and does not start with '.' or '-'"
    )]
    Tag(String),
    /// A digest that is none.
    #[error("image reference {text:?} has no valid digest")]
    Digest {
        /// The reference.
        text: String,
        /// What is wrong with its digest.
        source: DigestError,
    },
    /// A tag and a digest.
    #[error("image reference {0:?} has both a tag and a digest; only one of them is allowed")]
    TagAndDigest(String),
    /// Longer than any valid reference.
    #[error("image reference {0:?}... is too long")]
    TooLong(String),
}

impl Reference {
    /// The registry: a host in lower case, with its port when one is written.
    pub fn registry(&self) -> &str {
        &self.0.registry
    }

    /// The repository inside the registry.
    pub fn repository(&self) -> &str {
        &self.0.repository
    }

    /// The tag; absent exactly when there is a digest.
    pub fn tag(&self) -> Option<&str> {
        match &self.0.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// The digest; absent exactly when there is a tag.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.0.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    /// The same repository, by tag; none when that cannot be one.
    #[must_use]
    pub fn with_tag(&self, tag: &str) -> Option<Self> {
        let parts = || Parts {
            registry: self.0.registry.clone(),
            repository: self.0.repository.clone(),
            version: Version::Tag(tag.into()),
        };
        is_tag(tag).then(|| Self(Arc::new(parts())))
    }

    /// The same repository, by digest: `HOST/REPOSITORY@sha256:...`.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self(Arc::new(Parts {
            registry: self.0.registry.clone(),
            repository: self.0.repository.clone(),
            version: Version::Digest(digest),
        }))
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let shown = || {
            without_user(text)
                .chars()
                .take(MAX_SHOWN)
                .collect::<String>()
        };
        // Host, port, repository, separators and the longest version there is.
        if text.len() > MAX_HOST + 6 + MAX_REPOSITORY + MAX_TAG + 2 {
            return Err(ReferenceError::TooLong(shown()));
        }
        let (registry, rest) = text
            .split_once('/')
            .filter(|(registry, _)| {
                registry.contains(['.', ':']) || registry.eq_ignore_ascii_case("localhost")
            })
            .ok_or_else(|| ReferenceError::NotQualified(shown()))?;
        if !is_registry(registry) {
            return Err(ReferenceError::Registry(shown()));
        }
        let (name, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((name, digest)) => match digest.parse() {
                Ok(digest) => (name, Some(digest)),
                Err(source) => {
                    let text = shown();
                    return Err(ReferenceError::Digest { text, source });
                }
            },
        };
        let (repository, tag) = match name.split_once(':') {
            None => (name, None),
            Some((repository, tag)) => (repository, Some(tag)),
        };
        if !is_repository(repository) {
            return Err(ReferenceError::Repository(shown()));
        }
        let version = match (tag, digest) {
            (Some(_), Some(_)) => return Err(ReferenceError::TagAndDigest(shown())),
            (None, Some(digest)) => Version::Digest(digest),
            (None, None) => Version::Tag("latest".into()),
            (Some(tag), None) if is_tag(tag) => Version::Tag(tag.into()),
            (Some(_), None) => return Err(ReferenceError::Tag(shown())),
        };
        let registry = registry.to_ascii_lowercase();
        if registry == "docker.io" && !repository.contains('/') {
            return Err(ReferenceError::Namespace(shown()));
        }
        Ok(Self(Arc::new(Parts {
            registry,
            repository: repository.into(),
            version,
        })))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts {
            registry,
            repository,
            version,
        } = &*self.0;
        match version {
            Version::Tag(tag) => write!(f, "{registry}/{repository}:{tag}"),
            Version::Digest(digest) => write!(f, "{registry}/{repository}@{digest}"),
        }
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Whether `text` is `HOST[:PORT]`, with an IPv6 address in brackets.
fn is_registry(text: &str) -> bool {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else {
            return false;
        };
        if address.parse::<Ipv6Addr>().is_err() {
            return false;
        }
        match rest.strip_prefix(':') {
            None if rest.is_empty() => return true,
            None => return false,
            Some(port) => ("ipv6", Some(port)),
        }
    } else {
        match text.split_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(port)),
        }
    };
    let host_is_good = host.len() <= MAX_HOST
        && host.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
                && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
                && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        });
    let port_is_good = port.is_none_or(|port| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host_is_good && port_is_good
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/...)*` (distribution specification).
/// Whether the text is a repository, as the distribution specification has it.
pub fn is_repository(text: &str) -> bool {
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_path_component)
}

fn is_path_component(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let word = rest.iter().take_while(|b| alphanumeric(**b)).count();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        if rest.is_empty() {
            return true;
        }
        let separator = rest.iter().take_while(|b| !alphanumeric(**b)).count();
        let good = matches!(&rest[..separator], b"." | b"_" | b"__")
            || rest[..separator].iter().all(|b| *b == b'-');
        if !good {
            return false;
        }
        rest = &rest[separator..];
    }
}

/// `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}` (distribution specification).
/// Whether the text is a tag, as the distribution specification has it.
pub fn is_tag(text: &str) -> bool {
    text.len() <= MAX_TAG
        && text.bytes().enumerate().all(|(at, b)| {
            b.is_ascii_alphanumeric() || b == b'_' || (at > 0 && (b == b'.' || b == b'-'))
        })
        && !text.is_empty()
}

/// A text without the user and password that somebody wrote before a host.
pub(crate) fn without_user(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if !rest[at + 1..].starts_with("sha256:") => &rest[at + 1..],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, ReferenceError> {
        text.parse()
    }

    #[test]
    fn the_parts_are_told_apart() {
        let hex = "ab".repeat(32);
        for (text, registry, repository, version) in [
            ("quay.io/a/b:v1", "quay.io", "a/b", ":v1"),
            ("quay.io/a", "quay.io", "a", ":latest"),
            ("Quay.IO/a", "quay.io", "a", ":latest"),
            ("localhost/a:1", "localhost", "a", ":1"),
            (
                "registry:5000/a/b__c/d--e",
                "registry:5000",
                "a/b__c/d--e",
                ":latest",
            ),
            ("127.0.0.1:80/x:_y.z-", "127.0.0.1:80", "x", ":_y.z-"),
            ("[::1]:5000/x", "[::1]:5000", "x", ":latest"),
            ("[2001:db8::1]/x", "[2001:db8::1]", "x", ":latest"),
            ("docker.io/library/x", "docker.io", "library/x", ":latest"),
        ] {
            let reference = parse(text).unwrap();
            assert_eq!(reference.registry(), registry, "{text}");
            assert_eq!(reference.repository(), repository, "{text}");
            assert_eq!(
                reference.to_string(),
                format!("{registry}/{repository}{version}")
            );
        }
        let pinned = parse(&format!("quay.io/a@sha256:{hex}")).unwrap();
        assert_eq!(pinned.tag(), None);
        assert_eq!(pinned.digest().unwrap().hex(), hex);
    }

    #[test]
    fn a_refusal_shows_no_password() {
        for text in ["me:s3cret@host.example/a/b:v1", "https://me:s3cret@a.b/c"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_short_name_is_refused_with_the_reason() {
        for text in [
            "foo",
            "library/foo",
            "foo:latest",
            "",
            "operatorhubio/catalog:latest",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, ReferenceError::NotQualified(_)),
                "{text}: {error}"
            );
        }
        assert!(matches!(
            parse("docker.io/foo"),
            Err(ReferenceError::Namespace(_))
        ));
    }

    #[test]
    fn a_tag_and_a_digest_are_too_much() {
        let text = format!("quay.io/a:b@sha256:{}", "0".repeat(64));
        assert!(matches!(parse(&text), Err(ReferenceError::TagAndDigest(_))));
    }

    #[test]
    fn what_is_outside_the_grammar_is_refused() {
        let long_tag = format!("quay.io/a:{}", "t".repeat(129));
        let long_repository = format!("quay.io/{}", "r".repeat(256));
        let very_long = format!("quay.io/{}", "r".repeat(100_000));
        for text in [
            "quay.io/",
            "quay.io/A",
            "quay.io/a//b",
            "quay.io/a/../b",
            "quay.io/a..b",
            "quay.io/a___b",
            "quay.io/-a",
            "quay.io/a-",
            "quay.io/a:",
            "quay.io/a:.b",
            "quay.io/a:b:c",
            "quay.io/a:b/c",
            "quay.io/a@",
            "quay.io/a@sha256:abc",
            "quay.io/a?b=c",
            "quay.io/a#b",
            "quay.io/a b",
            "quay.io/é",
            "quay..io/a",
            ".quay.io/a",
            "quay.io:0/a",
            "quay.io:99999/a",
            "quay.io:+80/a",
            "quay.io:/a",
            "user@quay.io/a",
            "https://quay.io/a",
            "[::1/a",
            "[::1]x/a",
            "[::zz]:1/a",
            &long_tag,
            &long_repository,
            &very_long,
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().len() < 1000, "{error}");
        }
    }

    #[test]
    fn a_reference_is_a_string_to_serde() {
        let reference = parse("quay.io/a:b").unwrap();
        let json = serde_json::to_string(&reference).unwrap();
        assert_eq!(json, r#""quay.io/a:b""#);
        assert_eq!(serde_json::from_str::<Reference>(&json).unwrap(), reference);
        assert!(serde_json::from_str::<Reference>(r#""a""#).is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_parses_prints_as_something_that_parses_to_the_same(
            text in "[a-zA-Z0-9.:-]{1,12}/[a-z0-9._/-]{1,20}(:[a-zA-Z0-9._-]{1,10})?"
        ) {
            if let Ok(reference) = parse(&text) {
                proptest::prop_assert_eq!(parse(&reference.to_string()).unwrap(), reference);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            let _ = parse(&text);
        }
    }
}
