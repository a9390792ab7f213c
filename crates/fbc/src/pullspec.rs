//! Pull specs: the grammar of image references in the container tools, with their
//! short names (`busybox` is `docker.io/library/busybox`). Nothing is resolved.

use std::borrow::Cow;

/// The longest pull spec that is read, in bytes.
pub const MAX_PULL_SPEC: usize = 1_024;

/// The longest path of a repository, in bytes, with the `library/` that short
/// names stand for.
const MAX_REPOSITORY: usize = 255;

/// The longest tag, in bytes.
const MAX_TAG: usize = 128;

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
const SHORT_PREFIX: &str = "library/";

/// The reason why a text is not a pull spec, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullSpecError {
    /// An empty text.
    #[error("it is empty; write REGISTRY/REPOSITORY:TAG")]
    Empty,
    /// More than [`MAX_PULL_SPEC`] bytes.
    #[error("it has {0} bytes, more than {MAX_PULL_SPEC}; shorten it")]
    TooLong(usize),
    /// 64 hexadecimal digits and nothing else.
    #[error("it is only the digits of a digest; write the repository, '@sha256:' and the digits")]
    OnlyDigits,
    /// A registry that is no host with an optional port, and the remedy.
    #[error("its registry {0:?} is not a host[:port]; {1}")]
    Registry(String, String),
    /// A repository with upper-case letters.
    #[error("its repository {0:?} has upper-case letters; write it in lower case")]
    UpperCase(String),
    /// A repository that does not consist of names with slashes between them.
    #[error(
        "its repository {0:?} is not valid; write names of lower-case letters and digits with \
         slashes between"
    )]
    Repository(String),
    /// A repository of more than 255 bytes.
    #[error("its repository has more than {MAX_REPOSITORY} bytes; shorten it")]
    RepositoryTooLong,
    /// An invalid tag.
    #[error(
        "{0:?} behind ':' is not a tag; write at most {MAX_TAG} letters, digits, '_', '.' and '-'"
    )]
    Tag(String),
    /// An invalid digest.
    #[error("{0:?} behind '@' is not a digest; write 'sha256:' and 64 hexadecimal digits")]
    Digest(String),
}

/// The remedy for an invalid registry: mostly it is a transport or the scheme of a
/// URL.
fn registry_advice(spec: &str) -> String {
    match spec.split_once("://") {
        Some((scheme, _)) => format!("leave out \"{scheme}://\""),
        None => "write REGISTRY/REPOSITORY:TAG".to_owned(),
    }
}

/// Checks a pull spec: `[registry/]repository[:tag][@digest]`.
///
/// ```
/// use fbc::pullspec::check;
///
/// assert!(check("quay.io/x/y:v1").is_ok());
/// assert!(check("busybox").is_ok());
/// assert!(check("quay.io/X/y:v1").is_err());
/// ```
pub fn check(spec: &str) -> Result<(), PullSpecError> {
    if spec.is_empty() {
        return Err(PullSpecError::Empty);
    }
    if spec.len() > MAX_PULL_SPEC {
        return Err(PullSpecError::TooLong(spec.len()));
    }
    if spec.len() == 64 && spec.bytes().all(is_lower_hex) {
        return Err(PullSpecError::OnlyDigits);
    }
    let (registry, repository, tag, digest) = parts(spec);
    check_repository(spec, registry, repository)?;
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(PullSpecError::Tag(tag.to_owned()));
    }
    match digest.filter(|digest| !is_digest(digest)) {
        Some(digest) => Err(PullSpecError::Digest(digest.to_owned())),
        None => Ok(()),
    }
}

/// The parts of a pull spec, with shortcuts replaced by their meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullSpec<'a> {
    /// The registry; `docker.io` if the text has none.
    pub registry: &'a str,
    /// The repository in it.
    pub repository: Cow<'a, str>,
    /// The tag, or nothing.
    pub tag: Option<&'a str>,
    /// The digest, or nothing.
    pub digest: Option<&'a str>,
}

/// Reads a pull spec. See [`check`].
pub fn read(spec: &str) -> Result<PullSpec<'_>, PullSpecError> {
    check(spec)?;
    let (registry, repository, tag, digest) = parts(spec);
    let registry = match registry {
        None | Some(LEGACY_DEFAULT_DOMAIN) => DEFAULT_DOMAIN,
        Some(registry) => registry,
    };
    let repository = if registry == DEFAULT_DOMAIN && !repository.contains('/') {
        Cow::Owned(format!("{SHORT_PREFIX}{repository}"))
    } else {
        Cow::Borrowed(repository)
    };
    Ok(PullSpec {
        registry,
        repository,
        tag,
        digest,
    })
}

/// The written parts: the registry, the repository, the tag and the digest.
fn parts(spec: &str) -> (Option<&str>, &str, Option<&str>, Option<&str>) {
    let (registry, rest) = split_registry(spec);
    let (rest, digest) = cut(rest, b'@');
    let (repository, tag) = cut(rest, b':');
    (registry, repository, tag, digest)
}

/// The text before and behind the first such (ASCII) byte.
fn cut(text: &str, byte: u8) -> (&str, Option<&str>) {
    match memchr::memchr(byte, text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn has_upper_case(text: &str) -> bool {
    if text.is_ascii() {
        text.bytes().any(|byte| byte.is_ascii_uppercase())
    } else {
        text.chars().any(char::is_uppercase)
    }
}

/// The text before the first slash is a registry if it cannot be part of a repository:
/// `localhost`, or a text with a dot, a colon or an upper-case letter.
fn split_registry(spec: &str) -> (Option<&str>, &str) {
    match cut(spec, b'/') {
        (first, Some(rest))
            if first == "localhost"
                || memchr::memchr2(b'.', b':', first.as_bytes()).is_some()
                || has_upper_case(first) =>
        {
            (Some(first), rest)
        }
        _ => (None, spec),
    }
}

fn check_repository(
    spec: &str,
    registry: Option<&str>,
    repository: &str,
) -> Result<(), PullSpecError> {
    // Splitting bytes is faster than splitting characters.
    let mut components = repository.as_bytes().split(|byte| *byte == b'/');
    let good = components.all(is_component);
    if !good && has_upper_case(repository) {
        return Err(PullSpecError::UpperCase(repository.to_owned()));
    }
    // The grammar lets a name such as `a_b.c` stand first, though it is no host.
    let allowed = |registry: &&str| is_registry(registry) || is_component(registry.as_bytes());
    if let Some(registry) = registry.filter(|registry| !allowed(registry)) {
        let advice = registry_advice(spec);
        return Err(PullSpecError::Registry(registry.to_owned(), advice));
    }
    if !good {
        return Err(PullSpecError::Repository(repository.to_owned()));
    }
    let docker = matches!(
        registry,
        None | Some(DEFAULT_DOMAIN | LEGACY_DEFAULT_DOMAIN)
    );
    let is_short = docker && !repository.contains('/');
    let prefix = if is_short { SHORT_PREFIX.len() } else { 0 };
    if prefix + repository.len() > MAX_REPOSITORY {
        return Err(PullSpecError::RepositoryTooLong);
    }
    Ok(())
}

/// A host name, or an IPv6 address in brackets, with an optional port.
fn is_registry(text: &str) -> bool {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, behind)) = rest.split_once(']') else {
            return false;
        };
        let good = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
        if address.is_empty() || !address.bytes().all(good) {
            return false;
        }
        match behind.strip_prefix(':') {
            None => return behind.is_empty(),
            port => (None, port),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        }
    };
    host.is_none_or(|host| host.split('.').all(is_host_label))
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Letters and digits, with `.`, `_`, `__` or any number of `-` between.
fn is_component(text: &[u8]) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_between =
        |run: &[u8]| matches!(run, b"." | b"_" | b"__") || run.iter().all(|byte| *byte == b'-');
    let mut rest = text;
    loop {
        let inner = rest.iter().take_while(|byte| is_inner(byte)).count();
        rest = &rest[inner..];
        if inner == 0 || rest.is_empty() {
            return inner > 0;
        }
        let between = rest.iter().take_while(|byte| !is_inner(byte)).count();
        if !is_between(&rest[..between]) {
            return false;
        }
        rest = &rest[between..];
    }
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= MAX_TAG
        && bytes.first().is_some_and(|first| is_word(*first))
        && bytes
            .iter()
            .all(|byte| is_word(*byte) || matches!(byte, b'.' | b'-'))
}

/// An algorithm that the tools know, and as many digits as it has.
fn is_digest(text: &str) -> bool {
    let (algorithm, Some(digits)) = cut(text, b':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    // A loop without an early exit checks many digits at once.
    let all = |good, byte| good & is_lower_hex(byte);
    digits.len() == length && digits.bytes().fold(true, all)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digits(count: usize) -> String {
        "a".repeat(count)
    }

    #[test]
    fn pull_specs_with_and_without_shortcuts_are_accepted() {
        for good in [
            "busybox",
            "busybox:1",
            "x/y",
            "localhost/x",
            "localhost:5000/x:1",
            "quay.io/x/y",
            "quay.io/x/y:v1",
            &format!("quay.io/x/y@sha256:{}", digits(64)),
            &format!("quay.io/x/y:v1@sha256:{}", digits(64)),
            &format!("quay.io/x/y@sha512:{}", digits(128)),
            "Quay.io/x/y",
            "REGISTRY/x/y",
            "[::1]:5000/x",
            "[fe80::1]/x",
            "quay.io/a.b/c_d/e__f/g---h",
            "a_b.c/x:tag",
            "x:Tag_1.2-3",
            "127.0.0.1/x",
            "docker.io/x",
            &format!("quay.io/{}", digits(255)),
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_is_no_pull_spec_is_refused() {
        for bad in [
            "",
            " ",
            "oci://quay.io/x/y:v1",
            "quay.io/x y",
            "quay.io/x/y@",
            "quay.io/x/y:",
            "quay.io/x/y:v1+1",
            "quay.io/",
            "quay.io//x",
            "/x",
            "x/",
            "-x/y",
            "quay.io/-x",
            "quay.io/x-",
            "quay.io/x..y",
            "quay.io/x___y",
            "quay.io/x._y",
            "quay.io:/x",
            "quay.io:a/x",
            "-quay.io/x",
            "[::1/x",
            "[]/x",
            "[::1]x/y",
            "x:.tag",
            "é",
            &format!("x:{}", digits(129)),
            &format!("x@sha256:{}", digits(63)),
            &format!("x@sha256:{}", "A".repeat(64)),
            &format!("x@md5:{}", digits(32)),
            &format!("x@sha256:{}@sha256:{}", digits(64), digits(64)),
            &format!("quay.io/{}", digits(256)),
            &digits(64),
            &digits(255),
            &"a/".repeat(1_000),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn upper_case_in_the_repository_has_its_own_text() {
        for bad in ["quay.io/X/y:v1", "Quay.io/X/y:v1", "Busybox"] {
            assert!(
                matches!(check(bad), Err(PullSpecError::UpperCase(_))),
                "{bad}"
            );
        }
        assert_eq!(
            check("quay.io/X/y:v1").unwrap_err().to_string(),
            "its repository \"X/y\" has upper-case letters; write it in lower case"
        );
    }

    #[test]
    fn digits_alone_have_their_own_text() {
        assert_eq!(check(&digits(64)), Err(PullSpecError::OnlyDigits));
        assert!(check(&digits(63)).is_ok());
    }

    proptest! {
        #[test]
        fn checking_never_panics(text in "[a-zA-Z0-9.:/@_\\[\\]-]{0,40}|\\PC{0,40}") {
            let _ = check(&text);
        }
    }
}
