//! Sources of catalogs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::ingest::curation::Curation;
use ::images::digest::DigestError;
use ::images::reference::{
    Reference, ReferenceError, is_repository, is_tag, scheme_remedy, without_user,
};
use ::images::{Choice, Format};
use fbc::text::suggest;

/// The source of a catalog, as in the configuration and on the command line.
///
/// ```
/// use almanac::ingest::Source;
///
/// for good in ["quay.io/org/catalog:v4.20", "oci:layout:v1", "file:deploy/catalog"] {
///     assert_eq!(good.parse::<Source>().unwrap().to_string(), good);
/// }
/// assert!("catalog".parse::<Source>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image in a registry.
    Image(Reference),
    /// An image in an OCI layout, in a folder or an archive.
    Layout(LayoutSource),
    /// A catalog folder or file on disk.
    File(PathBuf),
    /// A selection from other catalogs that almanac serves. It has no text form:
    /// several keys of the configuration define it.
    Curated(Curation),
}

/// An image in an OCI layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSource {
    /// Its form on disk.
    pub format: Format,
    /// The folder or archive.
    pub path: PathBuf,
    /// The image; without a choice, the only one.
    pub choice: Option<Choice>,
}

/// The forms of a source, for messages.
const KINDS: &str = "an image reference, oci:FOLDER, oci-archive:FILE or docker-archive:FILE \
    (each with :TAG or @DIGEST behind it where there are several images), or file:PATH";

/// The prefixes of layouts.
const LAYOUTS: [(&str, Format); 3] = [
    ("oci", Format::Folder),
    ("oci-archive", Format::Archive),
    ("docker-archive", Format::DockerArchive),
];

/// Why a text is no source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A prefix without a path.
    #[error("{0:?} names no path, tag or digest; a source is {KINDS}")]
    Empty(String),
    /// A prefix that means something elsewhere: the text, and the remedy.
    #[error("{0:?} is not supported{1}; a source is {KINDS}")]
    Scheme(String, String),
    /// A digest that is none.
    #[error("{text:?} is not a source: {error}")]
    Digest {
        /// The text as written.
        text: String,
        /// Why it is no digest.
        error: DigestError,
    },
    /// A misspelt prefix: the text, and the proposal.
    #[error("{0:?} is not a source; did you mean {1:?}?")]
    Prefix(String, String),
    /// A path without its prefix: the text, and the proposal.
    #[error("{0:?} is not a source, but there is a file or folder of that name: write {1}")]
    Path(String, String),
    /// No image reference either.
    #[error("{text:?} is not a source: {error}; a source is {KINDS}")]
    Reference {
        /// The text as written.
        text: String,
        /// Why it is no reference.
        error: ReferenceError,
    },
}

impl Source {
    /// Parses a text of a command line. A look at the disk finds paths without their
    /// prefix.
    ///
    /// # Errors
    /// When the text is no source. The error of a path names the prefix.
    pub fn found(text: &str) -> Result<Self, SourceError> {
        text.parse().map_err(|error| of_path(text, error))
    }

    /// Whether its content cannot change, so that it is never polled.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Image(reference) => reference.digest().is_some(),
            Self::Layout(layout) => matches!(layout.choice, Some(Choice::Digest(_))),
            Self::File(_) | Self::Curated(_) => false,
        }
    }

    /// The source without its version (tag or digest). A revision of one source may
    /// be served for another with the same origin until that is read. A whole
    /// reference belongs to it: a layout may hold several repositories.
    pub fn without_version(&self) -> String {
        match self {
            Self::Image(reference) => repository(reference),
            Self::Layout(layout) => {
                let folder = format!("{}:{}", layout.prefix(), layout.path.display());
                match layout.repository() {
                    Some(repository) => format!("{folder}:{repository}"),
                    None => folder,
                }
            }
            Self::File(path) => format!("file:{}", path.display()),
            Self::Curated(_) => self.to_string(),
        }
    }

    /// The same with an absolute path. Nothing is read: links and `..` stay.
    #[must_use]
    pub fn absolute(mut self) -> Self {
        if let Self::File(path) | Self::Layout(LayoutSource { path, .. }) = &mut self
            && let Ok(absolute) = std::path::absolute(&*path)
        {
            *path = absolute;
        }
        self
    }

    /// Its path, if it is on disk.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Image(_) | Self::Curated(_) => None,
            Self::Layout(layout) => Some(&layout.path),
            Self::File(path) => Some(path),
        }
    }
}

impl LayoutSource {
    /// The tag that chooses the image, alone or in a whole reference.
    pub fn tag(&self) -> Option<&str> {
        match self.choice.as_ref()? {
            Choice::Name(name) => name.rsplit([':', '/']).next(),
            Choice::Digest(_) => None,
        }
    }

    /// Registry and repository, when the image is chosen by them.
    fn repository(&self) -> Option<String> {
        match &self.choice {
            Some(Choice::Name(name)) if name.contains('/') => {
                let whole = name.parse().ok().as_ref().map(repository);
                // A short name has no registry.
                whole.or_else(|| Some(split_tag(name).0.to_owned()))
            }
            _ => None,
        }
    }

    fn prefix(&self) -> &'static str {
        let found = LAYOUTS.iter().find(|(_, format)| *format == self.format);
        found.map_or("oci", |(prefix, _)| prefix)
    }

    /// Parses the text after the prefix.
    fn parse(format: Format, text: &str) -> Result<Self, SourceError> {
        let source = |path: &str, choice| Self {
            format,
            path: path.into(),
            choice,
        };
        if let Some((path, digest)) = text.rsplit_once("@sha256:") {
            let digest = format!("sha256:{digest}").parse();
            let digest = digest.map_err(|error| SourceError::Digest {
                text: text.to_owned(),
                error,
            })?;
            return Ok(source(path, Some(Choice::Digest(digest))));
        }
        let name = |name: &str| Some(Choice::Name(name.to_owned()));
        // A whole reference, as in archives and other tools.
        if let Some((path, reference)) = text.split_once(':')
            && reference.contains('/')
            && reference.parse::<Reference>().is_ok()
        {
            return Ok(source(path, name(reference)));
        }
        // Everything after an archive's name, as in NAME:TAG.
        if let Some((path, reference)) = text.rsplit_once(".tar:")
            && (!reference.contains('/') || is_short_name(reference))
        {
            return Ok(source(&format!("{path}.tar"), name(reference)));
        }
        // A short name without a registry, as docker writes it into archives: TEAM/NAME,
        // TEAM/NAME:TAG or NAME:TAG. A path that exists may hold a ':', too.
        if let Some((path, reference)) = text.split_once(':')
            && reference.contains(['/', ':'])
            && is_short_name(reference)
        {
            let (longer, tag) = split_tag(text);
            let is_path = Path::new(longer).exists();
            if !is_path && (tag.is_some() || Path::new(path).exists()) {
                return Ok(source(path, name(reference)));
            }
        }
        // A tag holds no '/', so a ':' before one belongs to the path.
        let (path, tag) = split_tag(text);
        Ok(source(path, tag.and_then(name)))
    }
}

/// A text and the tag at its end, which has no `/`.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
        _ => (text, None),
    }
}

/// Whether a text is the name of an image without a registry: `TEAM/NAME[:TAG]`.
fn is_short_name(text: &str) -> bool {
    let (repository, tag) = split_tag(text);
    is_repository(repository) && tag.is_none_or(is_tag)
}

/// The error of a text that is no source, which may be a path.
pub fn of_path(text: &str, error: SourceError) -> SourceError {
    let path = Path::new(text);
    if !matches!(error, SourceError::Reference { .. }) || !path.exists() {
        return error;
    }
    let proposal = if path.join("oci-layout").is_file() {
        format!("oci:{text}")
    } else if path.is_dir() {
        format!("file:{text}")
    } else {
        format!("file:{text} for a catalog, oci-archive:{text} for an archive of an image")
    };
    SourceError::Path(text.to_owned(), proposal)
}

/// Registry and repository of an image.
fn repository(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}

/// A selection from nothing: the placeholder until the configuration is read.
impl Default for Source {
    fn default() -> Self {
        Self::Curated(Curation::default())
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if let Some(path) = text.strip_prefix("file:") {
            if path.is_empty() {
                return Err(SourceError::Empty(text.to_owned()));
            }
            return Ok(Self::File(path.into()));
        }
        for (prefix, format) in LAYOUTS {
            let rest = text.strip_prefix(prefix);
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix(':')) else {
                continue;
            };
            let layout = LayoutSource::parse(format, rest)?;
            let unnamed = matches!(&layout.choice, Some(Choice::Name(name)) if name.is_empty());
            if layout.path.as_os_str().is_empty() || unnamed {
                return Err(SourceError::Empty(text.to_owned()));
            }
            return Ok(Self::Layout(layout));
        }
        for scheme in ["docker:", "https:", "http:", "dir:", "containers-storage:"] {
            if text.starts_with(scheme) {
                let remedy = scheme_remedy(text);
                let remedy = remedy.map(|remedy| format!("; for an image, {remedy}"));
                let shown = without_user(text).to_owned();
                return Err(SourceError::Scheme(shown, remedy.unwrap_or_default()));
            }
        }
        text.parse().map(Self::Image).map_err(|error| {
            let prefix = text.split_once(':');
            let similar = prefix.and_then(|(prefix, rest)| {
                let known = LAYOUTS.iter().map(|(prefix, _)| *prefix).chain(["file"]);
                let known = suggest::similar(prefix, known).into_iter().next()?;
                Some(format!("{known}:{rest}"))
            });
            let text = text.to_owned();
            match similar {
                Some(proposal) => SourceError::Prefix(text, proposal),
                None => SourceError::Reference { text, error },
            }
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reference) => reference.fmt(f),
            Self::Layout(layout) => {
                write!(f, "{}:{}", layout.prefix(), layout.path.display())?;
                layout
                    .choice
                    .as_ref()
                    .map_or(Ok(()), |choice| choice.fmt(f))
            }
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Curated(curation) => curation.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_and_shown_as_it_is_written() {
        for text in [
            "quay.io/org/catalog:v4.20",
            "localhost:5000/catalog:latest",
            "oci:a/b",
            "oci:/a:b/c",
            "oci:a:tag",
            "oci:a:quay.io/b/c:v1",
            "oci:a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "oci-archive:/a/b.tar",
            "oci-archive:b.tar:v1",
            "oci-archive:b.tar:ours:latest",
            "docker-archive:b.tar:quay.io/b/c:v1",
            "docker-archive:b.tar:localhost:5000/b/c:v1",
            "docker-archive:b.tar:team/aa:latest",
            "oci:a:team/aa:latest",
            "oci:a:aa:latest",
            "file:/a:b",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "file:",
            "oci:",
            "oci:a:",
            "oci::tag",
            "oci:a@sha256:0",
            "oci-archive:",
            "docker-archive::v1",
            "dir:a",
            "catalog",
            "docker://quay.io/a/b",
        ] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
        let misspelt = "fiel:a".parse::<Source>().unwrap_err().to_string();
        assert!(misspelt.ends_with("did you mean \"file:a\"?"), "{misspelt}");
    }

    #[test]
    fn an_image_of_an_archive_is_named_by_all_that_follows_it() {
        for (text, path, chosen) in [
            ("a.tar:v1", "a.tar", "v1"),
            ("/a:b/c.tar:ours:latest", "/a:b/c.tar", "ours:latest"),
            ("a.tar:b.tar:ours:latest", "a.tar:b.tar", "ours:latest"),
            ("a:b:c:v1", "a:b:c", "v1"),
            ("a.ociarchive:aa:latest", "a.ociarchive", "aa:latest"),
            ("b/a.img:aa:latest", "b/a.img", "aa:latest"),
            ("a.img:v1", "a.img", "v1"),
            // Docker writes names without a registry.
            ("f.tar:team/aa:latest", "f.tar", "team/aa:latest"),
            ("f.tar:team/aa", "f.tar", "team/aa"),
            ("/a:b/f.tar:team/aa:latest", "/a:b/f.tar", "team/aa:latest"),
            ("f:team/aa:latest", "f", "team/aa:latest"),
            ("/nowhere/a:b/c", "/nowhere/a:b/c", ""),
        ] {
            let source = format!("oci-archive:{text}").parse().unwrap();
            let Source::Layout(layout) = source else {
                panic!("{text}")
            };
            assert_eq!(layout.path, Path::new(path));
            let chosen = Some(chosen).filter(|chosen| !chosen.is_empty());
            assert_eq!(
                layout.choice,
                chosen.map(|chosen| Choice::Name(chosen.to_owned()))
            );
        }
    }

    #[test]
    fn a_path_that_exists_may_hold_a_colon() {
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("12:30/layout");
        std::fs::create_dir_all(&layout).unwrap();
        let text = format!("oci:{}:v1", layout.display());
        let Source::Layout(found) = text.parse().unwrap() else {
            panic!("{text}");
        };
        assert_eq!(found.path, layout);
        assert_eq!(found.tag(), Some("v1"));
        std::fs::create_dir(folder.path().join("a:b")).unwrap();
        let text = format!("oci:{}:v1", folder.path().join("a:b").display());
        let Source::Layout(found) = text.parse().unwrap() else {
            panic!("{text}");
        };
        assert_eq!(
            (found.path, found.choice),
            (folder.path().join("a:b"), Some(Choice::Name("v1".into())))
        );
        assert_eq!(
            "docker-archive:f.tar:team/aa:v1"
                .parse::<Source>()
                .unwrap()
                .without_version(),
            "docker-archive:f.tar:team/aa"
        );
    }

    #[test]
    fn a_transport_of_other_tools_is_named_as_what_to_drop() {
        let error = "docker://quay.io/a/b".parse::<Source>().unwrap_err();
        let said = "drop docker:// and write quay.io/a/b";
        assert!(error.to_string().contains(said), "{error}");
        let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
        let both = digest.replace('@', ":v1@");
        let error = format!("docker://{both}").parse::<Source>().unwrap_err();
        let said = format!("drop docker:// and the tag, and write {digest}; a source is");
        assert!(error.to_string().contains(&said), "{error}");
        // Nothing is proposed that would be refused.
        for text in ["docker://", "docker://busybox", "dir://folder"] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains("is not supported; a source is"), "{error}");
        }
        let error = "https://me:s3cret@quay.io/a".parse::<Source>().unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn only_a_digest_reference_is_fixed() {
        let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
        assert!(digest.parse::<Source>().unwrap().is_fixed());
        assert!(!"quay.io/a/b:v1".parse::<Source>().unwrap().is_fixed());
        assert!(!"file:a".parse::<Source>().unwrap().is_fixed());
        assert!(!"oci:a:v1".parse::<Source>().unwrap().is_fixed());
        let digest = format!("oci-archive:a@sha256:{}", "0".repeat(64));
        assert!(digest.parse::<Source>().unwrap().is_fixed());
    }
}
