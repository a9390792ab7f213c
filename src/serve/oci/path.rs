//! What a path of the API asks for.

use crate::serve::oci::listing::unescape;
use crate::serve::oci::refusal::Refusal;
use ::images::digest::Digest;
use ::images::reference::{is_repository, is_tag};

/// How much of a text from outside an answer repeats, in characters.
const MAX_SHOWN: usize = 200;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Whether this is a registry.
    Ping,
    /// The names of all repositories.
    Repositories,
    /// A token.
    Token,
    /// A manifest.
    Manifest(String, Version),
    /// A blob; a digest of another kind than ours is kept as text.
    Blob(String, Result<Digest, String>),
    /// The tags of a repository.
    Tags(String),
    /// What refers to a manifest.
    Referrers(String, Result<Digest, String>),
}

/// How a manifest is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Tag(String),
    Digest(Digest),
    /// A digest of an algorithm that nothing is kept under.
    Other(String),
}

impl Asked {
    /// Reads what stands behind `/v2/`.
    pub(super) fn read(path: &str) -> Result<Self, Refusal> {
        let path = &*unescape(path);
        match path {
            "" => return Ok(Self::Ping),
            "_catalog" => return Ok(Self::Repositories),
            "token" => return Ok(Self::Token),
            _ => {}
        }
        if let Some(name) = path.strip_suffix("/tags/list") {
            return Ok(Self::Tags(repository(name)?));
        }
        // The last one counts: a repository may have such words in its name.
        let kinds = ["/manifests/", "/blobs/", "/referrers/"];
        let last = kinds
            .iter()
            .filter_map(|kind| Some((path.rfind(kind)?, *kind)))
            .max();
        let (at, kind) = last.ok_or(Refusal::Path)?;
        let name = repository(&path[..at])?;
        let text = &path[at + kind.len()..];
        Ok(match kind {
            "/manifests/" => Self::Manifest(name, Version::read(text)?),
            "/blobs/" => Self::Blob(name, digest(text)?),
            _ => Self::Referrers(name, digest(text)?),
        })
    }
}

impl Version {
    fn read(text: &str) -> Result<Self, Refusal> {
        if text.contains(':') {
            return Ok(match digest(text)? {
                Ok(digest) => Self::Digest(digest),
                Err(other) => Self::Other(other),
            });
        }
        if is_tag(text) {
            return Ok(Self::Tag(text.to_owned()));
        }
        Err(Refusal::UnknownManifest(shown(text)))
    }
}

fn repository(name: &str) -> Result<String, Refusal> {
    if is_repository(name) {
        return Ok(name.to_owned());
    }
    Err(Refusal::Name)
}

/// A digest, or the text of one of another algorithm (image specification,
/// "Digests").
fn digest(text: &str) -> Result<Result<Digest, String>, Refusal> {
    if let Ok(digest) = text.parse() {
        return Ok(Ok(digest));
    }
    let other = text.split_once(':').is_some_and(|(algorithm, encoded)| {
        let name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let between = |byte: u8| name(byte) || b"+._-".contains(&byte);
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"=_-".contains(&byte);
        let ends = [algorithm.bytes().next(), algorithm.bytes().last()];
        algorithm != "sha256"
            && ends.into_iter().all(|end| end.is_some_and(name))
            && algorithm.bytes().all(between)
            && !encoded.is_empty()
            && encoded.bytes().all(good)
            && (algorithm != "sha512" || encoded.len() == 128)
    });
    if other {
        return Ok(Err(shown(text)));
    }
    Err(Refusal::Digest(shown(text)))
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked_for() {
        let a = Digest::of(b"a");
        for (path, wanted) in [
            (String::new(), Asked::Ping),
            ("a/tags/list".into(), Asked::Tags("a".into())),
            (
                "a/b/manifests/v4.20".into(),
                Asked::Manifest("a/b".into(), Version::Tag("v4.20".into())),
            ),
            (
                format!("blobs/manifests/{a}"),
                Asked::Manifest("blobs".into(), Version::Digest(a)),
            ),
            (
                format!("a/manifests/b/blobs/{a}"),
                Asked::Blob("a/manifests/b".into(), Ok(a)),
            ),
            (
                format!("a/manifests/{a}").replace(':', "%3A"),
                Asked::Manifest("a".into(), Version::Digest(a)),
            ),
            (
                "a%2fb/manifests/v4%2E20".into(),
                Asked::Manifest("a/b".into(), Version::Tag("v4.20".into())),
            ),
            (
                format!("a/referrers/{a}"),
                Asked::Referrers("a".into(), Ok(a)),
            ),
            (
                "a/blobs/md5:d41d8cd98f00b204e9800998ecf8427e".into(),
                Asked::Blob(
                    "a".into(),
                    Err("md5:d41d8cd98f00b204e9800998ecf8427e".into()),
                ),
            ),
        ] {
            assert_eq!(Asked::read(&path).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn what_is_malformed_is_told_apart() {
        let refusal = |path: &str| format!("{:?}", Asked::read(path).unwrap_err());
        for (path, begin) in [
            ("a", "Path"),
            ("A/tags/list", "Name"),
            ("a//b/tags/list", "Name"),
            ("../manifests/b", "Name"),
            ("/manifests/b", "Name"),
            ("a/manifests/sha256:bad", "Digest"),
            ("a/manifests/:", "Digest"),
            ("a/blobs/latest", "Digest"),
            ("a/blobs/uploads/", "Digest"),
            ("a/referrers/sha512:00", "Digest"),
            ("a/manifests/%2e%2e", "UnknownManifest"),
            ("a%00/manifests/b", "Name"),
            ("a%252fb/manifests/b", "Name"),
            ("a/manifests/-b", "UnknownManifest"),
            ("a/manifests/", "UnknownManifest"),
        ] {
            assert!(
                refusal(path).starts_with(begin),
                "{path}: {}",
                refusal(path)
            );
        }
    }
}
