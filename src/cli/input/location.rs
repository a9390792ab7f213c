//! The location of a catalog, as users write it.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cli::input::configured::ConfiguredCatalog;
use crate::cli::output::Shown;
use crate::fetch::{CatalogUrl, CatalogUrlError};
use crate::ingest::{LayoutSource, Source, SourceError};
use crate::name::CatalogName;
use ::images::{Format, Layout};
use fbc::problem::DocumentPosition;
use fbc::text::suggest;

/// The file that excludes files of a folder from its catalog.
const IGNORED: &str = ".indexignore";
/// The most entries of a folder that are compared with a name.
const MAX_ENTRIES: usize = 10_000;
/// The beginnings of sources that only commands take.
const PREFIXES: [&str; 3] = ["curated", "http", "https"];
/// The mark of a tar file, and its place.
const MAGIC: &[u8] = b"ustar";
const MAGIC_AT: usize = 257;
/// The name of standard input in messages.
pub(super) const STDIN: &str = "<stdin>";

/// The location of a catalog.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A source that almanac could follow.
    Source(Source),
    /// One file on standard input.
    Stdin,
    /// A catalog that a server offers over HTTP.
    Server(CatalogUrl),
    /// The selection of an `ImageSetConfiguration`.
    Curated(PathBuf),
    /// A catalog of a configuration file.
    Configured(ConfiguredCatalog),
}

/// A text that is not a location.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(transparent)]
    Url(#[from] CatalogUrlError),
    #[error(
        "{0}; a path may also be written with ./ before it, \
         a served catalog as http://HOST:PORT/catalogs/NAME, standard input as -"
    )]
    Source(#[from] SourceError),
    /// Nothing that this text could mean exists: the text, why it is no image
    /// reference, and similar paths.
    #[error(
        "{0:?} is not a source: there is no folder or file of that name; {1}; a catalog of a running \
         almanac is http://HOST:PORT/catalogs/NAME, and standard input is -{2}"
    )]
    Unknown(String, String, String),
    /// Nothing but the name of a catalog, with similar paths.
    #[error(
        "\"{0}\" is not a source: there is no folder or file of that name; if it is a catalog of a \
         running almanac, write http://localhost:8080/catalogs/{0} (with HOST:PORT of its HTTP port); \
         if it is one of a configuration file, add --config FILE{1}"
    )]
    Name(CatalogName, String),
    /// `NAME=SOURCE`: the whole, and the source.
    #[error("{0:?} gives a catalog a name, which only serve and manifests take: write {1}")]
    Named(String, String),
    /// A misspelt prefix: the whole, and the proposal.
    #[error("{0:?} is not a source; did you mean {1:?}?")]
    Prefix(String, String),
    #[error(
        "{0:?} is not an image reference, but there is a file or folder of that name: write ./{0}"
    )]
    Path(String),
    #[error("{path} is an OCI layout: write oci:{path}", path = .0.display())]
    Layout(PathBuf),
    #[error("{path} is an archive of images: write {1}", path = .0.display())]
    Archive(PathBuf, Box<Source>),
}

impl Input {
    /// Parses a location. A look at the disk finds paths without their prefix.
    pub(crate) fn found(text: &str) -> Result<Self, InputError> {
        let input = match text.parse() {
            Err(InputError::Source(_)) if Path::new(text).exists() => {
                return Err(match archive(Path::new(text)) {
                    Some(source) => InputError::Archive(text.into(), Box::new(source)),
                    None => InputError::Path(text.to_owned()),
                });
            }
            Err(InputError::Source(SourceError::Prefix(text, proposal))) => {
                return Err(InputError::Prefix(text, proposal));
            }
            Err(InputError::Source(SourceError::Reference { text, error })) => {
                return Err(unknown(text, &error.to_string()));
            }
            read => read?,
        };
        match input {
            // A layout with ignored files may be meant as a catalog folder.
            Self::Source(Source::File(path))
                if path.join("oci-layout").is_file() && !path.join(IGNORED).exists() =>
            {
                Err(InputError::Layout(path))
            }
            Self::Source(Source::File(path)) => match archive(&path) {
                Some(source) => Err(InputError::Archive(path, Box::new(source))),
                None => Ok(Self::Source(Source::File(path))),
            },
            input => Ok(input),
        }
    }

    /// The configuration file of the catalog.
    pub(super) fn config_file(&self) -> Option<&Path> {
        match self {
            Self::Configured(catalog) => Some(catalog.file()),
            _ => None,
        }
    }

    /// The source that is read, if it is one that almanac could follow.
    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::Source(source) => Some(source),
            Self::Configured(catalog) => catalog.plain_source(),
            Self::Stdin | Self::Server(_) | Self::Curated(_) => None,
        }
    }

    /// The end of a message about an image whose reference looks like the URL of a
    /// catalog without its scheme.
    pub(super) fn url_without_scheme(&self) -> Option<String> {
        let Some(Source::Image(reference)) = self.source() else {
            return None;
        };
        let text = reference.to_string();
        let (host, path) = text.split_once('/')?;
        let name = path.strip_prefix("catalogs/")?.strip_suffix(":latest")?;
        let name: CatalogName = name.parse().ok()?;
        Some(format!(
            "; for a catalog of a running almanac write http://{host}/catalogs/{name}"
        ))
    }

    /// The file of a position, as a path that the user can open.
    pub(crate) fn path(&self, position: &DocumentPosition) -> PathBuf {
        match self.source() {
            Some(Source::File(root)) if !root.is_dir() => root.clone(),
            Some(Source::File(root)) => {
                root.strip_prefix("./").unwrap_or(root).join(&position.file)
            }
            _ => PathBuf::from(&position.file),
        }
    }
}

impl FromStr for Input {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        if let Some(path) = text.strip_prefix("curated:") {
            return match path {
                "" => Err(SourceError::Empty(text.to_owned()).into()),
                _ => Ok(Self::Curated(path.into())),
            };
        }
        if text.starts_with("http:") || text.starts_with("https:") {
            return Ok(Self::Server(text.parse()?));
        }
        // No image reference starts like this.
        if text.starts_with(['/', '.']) {
            return Ok(Self::Source(Source::File(Path::new(text).to_owned())));
        }
        Ok(Self::Source(text.parse()?))
    }
}

/// The right source for a file that is an archive of images.
fn archive(path: &Path) -> Option<Source> {
    let mut start = [0; MAGIC_AT + MAGIC.len()];
    let mut file = File::open(path).ok().filter(|_| path.is_file())?;
    file.read_exact(&mut start).ok()?;
    if !start.ends_with(MAGIC) {
        return None;
    }
    let formats = [Format::Archive, Format::DockerArchive];
    let mut formats = formats.into_iter();
    let format = formats.find(|format| Layout::open(*format, path).is_ok())?;
    Some(Source::Layout(LayoutSource {
        format,
        path: path.to_owned(),
        choice: None,
    }))
}

/// The error for a text that is no source, with what it may mean.
fn unknown(text: String, why: &str) -> InputError {
    if let Some((name, source)) = text.split_once('=')
        && name.parse::<CatalogName>().is_ok()
    {
        match Input::found(source) {
            Ok(_) => {
                let source = source.to_owned();
                return InputError::Named(text, source);
            }
            Err(InputError::Path(path)) => {
                let source = format!("./{path}");
                return InputError::Named(text, source);
            }
            // Such as docker://, which is to be dropped.
            Err(error @ InputError::Source(SourceError::Scheme(..))) => return error,
            Err(_) => {}
        }
    }
    if let Some((prefix, rest)) = text.split_once(':')
        && let Some(known) = suggest::similar(prefix, PREFIXES).first()
    {
        let proposal = format!("{known}:{rest}");
        return InputError::Prefix(text, proposal);
    }
    let proposal = similar_path(Path::new(&text));
    match text.parse() {
        Ok(name) => InputError::Name(name, proposal),
        Err(_) => InputError::Unknown(text, why.to_owned(), proposal),
    }
}

/// A question at the end of a message, if there is a path like this one, which does
/// not exist. Only one part of it may differ.
pub(super) fn similar_path(path: &Path) -> String {
    let parts: Vec<&Path> = path.ancestors().collect();
    // The last that exists is the folder to look in. The empty path is this folder.
    let there = |part: &&Path| part.as_os_str().is_empty() || part.is_dir();
    let Some(at) = parts.iter().position(there).filter(|at| *at > 0) else {
        return String::new();
    };
    let (folder, missing) = (parts[at], parts[at - 1]);
    let rest = path.strip_prefix(missing).unwrap_or(Path::new(""));
    let opened = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let Ok(entries) = opened.read_dir() else {
        return String::new();
    };
    let names = entries.flatten().take(MAX_ENTRIES);
    let names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let wanted = missing.file_name().and_then(|name| name.to_str());
    let similar = suggest::similar(wanted.unwrap_or_default(), names.iter().map(String::as_str));
    let mut found = similar.into_iter().map(|name| folder.join(name).join(rest));
    let found = found.find(|path| path.exists()).map(|path| {
        let shown = path.display().to_string();
        let shown = shown.trim_end_matches('/');
        let prefix = if path.is_absolute() || shown.starts_with('.') {
            ""
        } else {
            "./"
        };
        format!("; did you mean {:?}?", format!("{prefix}{shown}"))
    });
    found.unwrap_or_default()
}

/// On one line, with control characters escaped.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Source(source) => source.to_string(),
            Self::Stdin => STDIN.to_owned(),
            Self::Server(url) => url.to_string(),
            Self::Curated(path) => format!("curated:{}", path.display()),
            Self::Configured(catalog) => catalog.name().to_string(),
        };
        Shown(&text).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_input_is_told_by_its_beginning() {
        for (text, shown) in [
            ("-", "<stdin>"),
            ("http://a:1/catalogs/b", "http://a:1/catalogs/b"),
            ("https://a/catalogs/b", "https://a/catalogs/b"),
            ("./a", "file:./a"),
            ("/a:b", "file:/a:b"),
            ("file:a", "file:a"),
            ("oci:a:b", "oci:a:b"),
            ("quay.io/a/b:v1", "quay.io/a/b:v1"),
            ("curated:a.yaml", "curated:a.yaml"),
        ] {
            assert_eq!(text.parse::<Input>().unwrap().to_string(), shown);
        }
        for text in ["", "a", "http://a", "docker://quay.io/a", "ftp://a/b"] {
            assert!(text.parse::<Input>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_typing_error_in_a_path_is_told_with_the_path_that_is_there() {
        for (text, proposal) in [
            ("deploy/catlog", "; did you mean \"./deploy/catalog\"?"),
            ("./deploi/catalog", "; did you mean \"./deploy/catalog\"?"),
            ("src/clii", "; did you mean \"./src/cli\"?"),
            ("deploy/nothing-like-it", ""),
            ("deploi/nothing", ""),
            ("src", ""),
        ] {
            assert_eq!(similar_path(Path::new(text)), proposal, "{text}");
        }
        let error = Input::found("deploy/catlog").unwrap_err().to_string();
        assert!(
            error.starts_with("\"deploy/catlog\" is not a source"),
            "{error}"
        );
        assert!(
            error.contains("did you mean \"./deploy/catalog\"?"),
            "{error}"
        );
    }

    #[test]
    fn a_text_that_is_almost_a_source_is_told_with_the_right_one() {
        for (text, said) in [
            (
                "fil:deploy/catalog",
                "did you mean \"file:deploy/catalog\"?",
            ),
            ("oci-archiv:a.tar", "did you mean \"oci-archive:a.tar\"?"),
            ("curate:set.yaml", "did you mean \"curated:set.yaml\"?"),
            (
                "htp://a/catalogs/b",
                "did you mean \"http://a/catalogs/b\"?",
            ),
            ("community=file:deploy/catalog", "write file:deploy/catalog"),
            ("community=deploy/catalog", "write ./deploy/catalog"),
            (
                "docker://quay.io/a/b",
                "drop docker:// and write quay.io/a/b",
            ),
            (
                "community=docker://quay.io/a/b",
                "drop docker:// and write quay.io/a/b",
            ),
            ("community", "http://localhost:8080/catalogs/community"),
            ("community", "add --config FILE"),
            ("no/where", "there is no folder or file of that name"),
        ] {
            let error = Input::found(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(error.matches(" is not a source").count() < 2, "{error}");
        }
    }

    #[test]
    fn a_place_is_shown_as_a_path_that_can_be_opened() {
        let position = DocumentPosition {
            file: "etcd/catalog.yaml".into(),
            document: 1,
            line: 1,
            column: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let shown = |text: &str| text.parse::<Input>().unwrap().path(&position);
        let root = folder.path().to_str().unwrap();
        assert_eq!(shown(root), folder.path().join("etcd/catalog.yaml"));
        let file = folder.path().join("catalog.yaml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(shown(file.to_str().unwrap()), file);
        assert_eq!(shown("quay.io/a/b"), Path::new("etcd/catalog.yaml"));
    }
}
