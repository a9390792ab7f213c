//! What can be wrong with what was written.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::curated::CuratedError;
use crate::ingest::Source;
use crate::name::CatalogName;

/// A setting that cannot be used, and where it was written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not TOML, or holds a key or a value that is not known.
    #[error("{}:{place}{problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line and column, from 1.
        place: Place,
        /// The key and what is wrong with it.
        problem: String,
    },
    /// A variable of the environment with a value that cannot be used.
    #[error("the variable {name} of the environment: {problem}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// Nothing to serve.
    #[error(
        "there is no catalog to serve: name at least one source, for example \
         `almanac serve quay.io/operatorhubio/catalog:latest` or `almanac serve file:deploy/catalog`, \
         or a file with `--config`"
    )]
    NoCatalog,
    /// A curated catalog that cannot be made. Only files have any.
    #[error("{}the catalog {catalog}: {problem}", at(path.as_deref()))]
    Curated {
        /// The file, when it is known.
        path: Option<PathBuf>,
        /// The catalog, or what is known of it.
        catalog: String,
        /// What is wrong with it.
        problem: Box<CuratedError>,
    },
    /// A source that suggests no name.
    #[error(
        "no name can be made from {source_text}: write NAME={source_text} (in a file: name = \"NAME\")"
    )]
    NoName {
        /// The source.
        source_text: String,
    },
    /// An image template that gives no image, and no plain image beside it.
    #[error("no image can be made from the template {problem}")]
    Template {
        /// The template, and why not.
        problem: String,
    },
    /// Two catalogs with one name.
    #[error(
        "two catalogs are named {name}: {first} and {second}; \
         give one of them another name, as in NAME={second} (in a file: name = \"NAME\")"
    )]
    SameName {
        /// The name.
        name: CatalogName,
        /// The source of the one.
        first: Box<Source>,
        /// The source of the other.
        second: Box<Source>,
    },
    /// Two catalogs behind one authority.
    #[error("the authority {authority} is given twice: for {first} and for {second}")]
    SameAuthority {
        /// The authority.
        authority: String,
        /// The one catalog.
        first: CatalogName,
        /// The other, or the same again.
        second: CatalogName,
    },
    /// A default that is not there.
    #[error("default_catalog names {name}, but the catalogs are: {known}")]
    UnknownDefault {
        /// The name that was written.
        name: CatalogName,
        /// The names there are, with commas.
        known: String,
    },
    /// TLS that lacks a file.
    #[error("[{table}] needs the key {key}")]
    Tls {
        /// The table of the port.
        table: &'static str,
        /// The key that is missing.
        key: &'static str,
    },
    /// A catalog that asks for certificates at a port that does not.
    #[error(
        "the catalog {catalog} asks for client certificates, but nothing could verify one: \
         write certificate, key and client_ca in [http_tls]"
    )]
    NoClientAuthority {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A folder that is to be mirrored as the image that it is not.
    #[error(
        "the catalog {catalog} comes from no image: mirror = \"full\" needs an \
         image reference or oci:FOLDER; with mirror = \"slim\" an image is made of it"
    )]
    NoImage {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A data folder that would be read as part of a catalog.
    #[error(
        "the data folder {} lies in {from}, the source of the catalog {catalog}: what is written \
         there would be read as part of it; give another one with --data-dir (in a file: data_dir)",
        data_dir.display()
    )]
    DataInSource {
        /// The data folder.
        data_dir: PathBuf,
        /// The catalog.
        catalog: CatalogName,
        /// Its source.
        from: Box<Source>,
    },
    /// A source among what almanac writes and removes.
    #[error(
        "{from}, the source of the catalog {catalog}, lies in the data folder {}: what is there is \
         almanac's own and may be removed; put the source elsewhere, or give another folder with \
         --data-dir (in a file: data_dir)",
        data_dir.display()
    )]
    SourceInData {
        /// The data folder.
        data_dir: PathBuf,
        /// The catalog.
        catalog: CatalogName,
        /// Its source.
        from: Box<Source>,
    },
    /// Two listeners at one address.
    #[error("{first} and {second} are both to listen at {address}")]
    SameAddress {
        /// The one listener.
        first: String,
        /// The other.
        second: String,
        /// The address.
        address: SocketAddr,
    },
    /// A log filter that cannot be read.
    #[error(
        "the log filter {filter:?} cannot be read: {problem}; write for example \"info\" or \"info,almanac=debug\""
    )]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A place in a file, when there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(Option<(usize, usize)>);

/// What goes before what is wrong in a file.
fn at(path: Option<&Path>) -> String {
    path.map(|path| format!("{}: ", path.display()))
        .unwrap_or_default()
}

impl ConfigError {
    /// The same, with the file named in which alone it can stand.
    pub(super) fn in_file(self, file: Option<&Path>) -> Self {
        match self {
            Self::Curated {
                catalog, problem, ..
            } => Self::Curated {
                path: file.map(Path::to_owned),
                catalog,
                problem,
            },
            other => other,
        }
    }

    /// What TOML's reader found in the file at `path`, with its `text`.
    pub(super) fn file(path: &Path, text: &str, mut error: toml::de::Error) -> Self {
        let place = error.span().map(|span| position(text, span.start));
        let message = error.message().to_owned();
        // Without the text, the error shows the table that it is in instead.
        error.set_input(None);
        let whole = error.to_string();
        let table = whole.strip_prefix(&message).unwrap_or_default().trim();
        let message = message
            .replace("unknown field", "unknown key")
            .replace("missing field", "missing key");
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        let mut problem = lines.join("; ");
        if !table.is_empty() {
            problem = format!("{problem} ({table})");
        }
        Self::File {
            path: path.to_owned(),
            place: Place(place),
            problem,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, "{line}:{column}: "),
            None => write!(f, " "),
        }
    }
}

/// Line and column of a byte, from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}
