//! Objects: their names in the bucket, and how their bytes lie there.

use ::images::digest::Digest;

/// The outline of a revision's content, beside its files.
pub(super) const OUTLINE: &str = "outline.zst";
/// The beginning of the names of all objects.
pub(super) const OBJECTS: &str = "sha256/";

/// An object of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The name of a file, or the digest of a part of an image.
    pub(super) name: String,
    pub(super) digest: Digest,
    /// Decoded bytes.
    pub(super) size: i64,
    pub(super) coding: Coding,
}

/// How the bytes of an object lie in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Coding {
    Identity,
    Zstd,
}

impl Coding {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Identity, Self::Zstd]
            .into_iter()
            .find(|coding| coding.as_str() == text)
    }
}

/// The name of an object in the bucket.
pub(super) fn key(digest: &Digest, coding: Coding) -> String {
    let hex = digest.hex();
    let start = hex.get(..2).unwrap_or_default();
    let end = match coding {
        Coding::Identity => "",
        Coding::Zstd => ".zst",
    };
    format!("{OBJECTS}{start}/{hex}{end}")
}

/// The digest of a name that [`key`] makes.
pub(super) fn parse_key(name: &str) -> Option<Digest> {
    let (_, file) = name.strip_prefix(OBJECTS)?.split_once('/')?;
    let (hex, coding) = match file.strip_suffix(".zst") {
        Some(hex) => (hex, Coding::Zstd),
        None => (file, Coding::Identity),
    };
    let digest = format!("sha256:{hex}").parse().ok()?;
    (key(&digest, coding) == name).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_are_taken_for_such() {
        let digest = Digest::of(b"a");
        for coding in [Coding::Identity, Coding::Zstd] {
            let name = key(&digest, coding);
            assert_eq!(parse_key(&name), Some(digest));
            let other = name.replace("/ca/", "/cb/");
            for wrong in [
                "fleet",
                "sha256/",
                "sha256/ab",
                &name[..name.len() - 1],
                &other,
            ] {
                assert_eq!(parse_key(wrong), None, "{wrong}");
            }
        }
    }
}
