//! The requests of the API, by their paths.

use crate::serve::oci::listing::unescape;
use crate::serve::oci::rejection::OciRejection;
use ::images::digest::Digest;
use ::images::reference::{is_repository, is_tag};

/// How much text of a client a response repeats, in characters.
const MAX_SHOWN: usize = 200;

/// A request, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OciRequest {
    /// The check whether this is a registry.
    Ping,
    /// The names of all repositories.
    Repositories,
    /// A token.
    Token,
    /// A manifest.
    Manifest(String, ManifestReference),
    /// A blob; a digest of another algorithm than sha256 is kept as text.
    Blob(String, Result<Digest, String>),
    /// The tags of a repository.
    Tags(String),
    /// The referrers of a manifest.
    Referrers(String, Result<Digest, String>),
}

/// The reference of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManifestReference {
    Tag(String),
    Digest(Digest),
    /// A digest of another algorithm.
    Other(String),
}

impl OciRequest {
    /// The label of its route in metrics.
    pub(super) fn route(&self) -> &'static str {
        match self {
            Self::Ping => "/v2/",
            Self::Repositories => "/v2/_catalog",
            Self::Token => "/v2/token",
            Self::Manifest(..) => "/v2/{name}/manifests/{reference}",
            Self::Blob(..) => "/v2/{name}/blobs/{digest}",
            Self::Tags(_) => "/v2/{name}/tags/list",
            Self::Referrers(..) => "/v2/{name}/referrers/{digest}",
        }
    }

    /// Parses the path after `/v2/`.
    pub(super) fn read(path: &str) -> Result<Self, OciRejection> {
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
        // The last one separates: repositories may have such words in their names.
        let kinds = ["/manifests/", "/blobs/", "/referrers/"];
        let last = kinds
            .iter()
            .filter_map(|kind| Some((path.rfind(kind)?, *kind)))
            .max();
        let (at, kind) = last.ok_or(OciRejection::Path)?;
        let name = repository(&path[..at])?;
        let text = &path[at + kind.len()..];
        Ok(match kind {
            "/manifests/" => Self::Manifest(name, ManifestReference::read(text)?),
            "/blobs/" => Self::Blob(name, digest(text)?),
            _ => Self::Referrers(name, digest(text)?),
        })
    }
}

impl ManifestReference {
    fn read(text: &str) -> Result<Self, OciRejection> {
        if text.contains(':') {
            return Ok(match digest(text)? {
                Ok(digest) => Self::Digest(digest),
                Err(other) => Self::Other(other),
            });
        }
        if is_tag(text) {
            return Ok(Self::Tag(text.to_owned()));
        }
        Err(OciRejection::UnknownManifest(shown(text)))
    }
}

fn repository(name: &str) -> Result<String, OciRejection> {
    if is_repository(name) {
        return Ok(name.to_owned());
    }
    Err(OciRejection::Name)
}

/// A digest, or the text of one of another algorithm (image specification,
/// "Digests").
fn digest(text: &str) -> Result<Result<Digest, String>, OciRejection> {
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
    Err(OciRejection::Digest(shown(text)))
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let a = Digest::of(b"a");
        for (path, wanted) in [
            (String::new(), OciRequest::Ping),
            ("a/tags/list".into(), OciRequest::Tags("a".into())),
            (
                "a/b/manifests/v4.20".into(),
                OciRequest::Manifest("a/b".into(), ManifestReference::Tag("v4.20".into())),
            ),
            (
                format!("blobs/manifests/{a}"),
                OciRequest::Manifest("blobs".into(), ManifestReference::Digest(a)),
            ),
            (
                format!("a/manifests/b/blobs/{a}"),
                OciRequest::Blob("a/manifests/b".into(), Ok(a)),
            ),
            (
                format!("a/manifests/{a}").replace(':', "%3A"),
                OciRequest::Manifest("a".into(), ManifestReference::Digest(a)),
            ),
            (
                "a%2fb/manifests/v4%2E20".into(),
                OciRequest::Manifest("a/b".into(), ManifestReference::Tag("v4.20".into())),
            ),
            (
                format!("a/referrers/{a}"),
                OciRequest::Referrers("a".into(), Ok(a)),
            ),
            (
                "a/blobs/md5:d41d8cd98f00b204e9800998ecf8427e".into(),
                OciRequest::Blob(
                    "a".into(),
                    Err("md5:d41d8cd98f00b204e9800998ecf8427e".into()),
                ),
            ),
        ] {
            assert_eq!(OciRequest::read(&path).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn malformed_parts_are_told_apart() {
        let refusal = |path: &str| format!("{:?}", OciRequest::read(path).unwrap_err());
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
