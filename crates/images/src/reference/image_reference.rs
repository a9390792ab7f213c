//! Fully qualified image references.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::digest::{Digest, DigestError};
use crate::reference::grammar::{
    MAX_HOST, MAX_REPOSITORY, MAX_TAG, is_registry, is_repository, is_tag, split_scheme,
    without_user,
};

/// The longest invalid text that an error repeats, in characters.
const MAX_SHOWN: usize = 300;

/// An image reference: `HOST[:PORT]/REPOSITORY`, then `:TAG` or `@DIGEST`.
///
/// The host is required, because a short name means another registry on every
/// machine. It is kept in lower case. Docker Hub is `docker.io` under each of
/// its names, and its images without a namespace are in `library`. Without a tag
/// and a digest the tag is `latest`. Both together are rejected: one of them
/// would be ignored. Cheap to clone.
///
/// ```
/// use images::{Digest, Reference};
///
/// let reference: Reference = "quay.io/team/app:latest".parse().unwrap();
/// assert_eq!(reference.registry(), "quay.io");
/// assert_eq!(reference.repository(), "team/app");
/// assert_eq!(reference.tag(), Some("latest"));
/// assert_eq!(reference.digest(), None);
///
/// let digest = Digest::of(b"");
/// let pinned = reference.with_digest(digest);
/// assert_eq!(pinned.to_string(), format!("quay.io/team/app@{digest}"));
/// assert_eq!(pinned.tag(), None);
///
/// let short = "team/app".parse::<Reference>().unwrap_err();
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

/// Why a text is not an image reference. Each variant carries the text, cut to
/// a bounded length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// No host before the repository.
    #[error(
        "image reference {0:?} has to be fully qualified: HOST[:PORT]/REPOSITORY, where the host \
         has a dot or a port or is localhost"
    )]
    NotQualified(String),
    /// An invalid host or port.
    #[error("image reference {0:?} has no valid registry host and port")]
    Registry(String),
    /// A repository outside the grammar of the distribution-spec.
    #[error(
        "image reference {0:?} has no valid repository: it takes at most 255 characters, lower-case \
         letters and digits in parts between '/', separated inside a part by one '.', one or two \
         '_' or any number of '-'"
    )]
    Repository(String),
    /// A tag outside the grammar of the distribution-spec.
    #[error(
        "image reference {0:?} has no valid tag: it takes at most 128 letters, digits, '_', '.' \
         and '-', and does not start with '.' or '-'"
    )]
    Tag(String),
    /// An invalid digest.
    #[error("image reference {text:?} has no valid digest")]
    Digest {
        /// The reference.
        text: String,
        /// The problem of its digest.
        source: DigestError,
    },
    /// A tag and a digest.
    #[error(
        "image reference {0:?} has both a tag and a digest; only one of them is allowed: drop the \
         tag and write {plain}",
        plain = without_tag(.0)
    )]
    TagAndDigest(String),
    /// A name of a transport, or a scheme, before the host.
    #[error("image reference {text:?} begins with {scheme}://: {remedy}")]
    Scheme {
        /// The reference.
        text: String,
        /// What stands before `://`.
        scheme: String,
        /// What to drop, and what to write.
        remedy: String,
    },
    /// Longer than any valid reference.
    #[error("image reference {0:?}... is too long")]
    TooLong(String),
}

impl Reference {
    /// The registry: the host in lower case, with its port if there is one.
    pub fn registry(&self) -> &str {
        &self.0.registry
    }

    /// The repository in the registry.
    pub fn repository(&self) -> &str {
        &self.0.repository
    }

    /// The registry and the repository: `HOST[:PORT]/REPOSITORY`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.0.registry, self.0.repository)
    }

    /// The tag, unless there is a digest.
    pub fn tag(&self) -> Option<&str> {
        match &self.0.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// The digest, unless there is a tag.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.0.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    /// The same repository with a tag; none if the tag is invalid.
    #[must_use]
    pub fn with_tag(&self, tag: &str) -> Option<Self> {
        is_tag(tag).then(|| self.with_version(Version::Tag(tag.into())))
    }

    /// The same repository with a digest: `HOST/REPOSITORY@sha256:...`.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        self.with_version(Version::Digest(digest))
    }

    fn with_version(&self, version: Version) -> Self {
        Self(Arc::new(Parts {
            registry: self.0.registry.clone(),
            repository: self.0.repository.clone(),
            version,
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
        // Host, port, repository, separators and the longest version.
        if text.len() > MAX_HOST + 6 + MAX_REPOSITORY + MAX_TAG + 2 {
            return Err(ReferenceError::TooLong(shown()));
        }
        if let Some((scheme, _)) = split_scheme(text) {
            return Err(ReferenceError::Scheme {
                text: shown(),
                scheme: scheme.to_owned(),
                remedy: scheme_remedy(text).unwrap_or_else(|| "drop that".to_owned()),
            });
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
        let mut parts = Parts {
            registry: registry.to_ascii_lowercase(),
            repository: repository.into(),
            version,
        };
        if parts.registry == "index.docker.io" {
            parts.registry = "docker.io".into();
        }
        if parts.registry == "docker.io" && !repository.contains('/') {
            parts.repository = format!("library/{repository}");
        }
        Ok(Self(Arc::new(parts)))
    }
}

/// The remedy for a reference that begins with a scheme or transport; none if the rest
/// is no reference.
pub fn scheme_remedy(text: &str) -> Option<String> {
    let (scheme, rest) = split_scheme(text)?;
    match rest.parse::<Reference>() {
        Ok(_) => Some(format!("drop {scheme}:// and write {rest}")),
        Err(ReferenceError::TagAndDigest(_)) => Some(format!(
            "drop {scheme}:// and the tag, and write {}",
            without_tag(rest)
        )),
        Err(_) => None,
    }
}

/// A reference with a tag and a digest, without the tag.
fn without_tag(text: &str) -> String {
    let (name, digest) = text.split_once('@').unwrap_or((text, ""));
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => format!("{name}@{digest}"),
        _ => text.to_owned(),
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
