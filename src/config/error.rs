//! Errors of a configuration, each with the setting that causes it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::ingest::{Source, SourceError};
use crate::name::CatalogName;
use crate::webhooks::WebhookName;
use fbc::select::RequestError;
use fbc::select::image_set::{ImageSetError, Place};
use fbc::text::suggest;

/// A setting that cannot be used, and its location.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML, or has an unknown key or an invalid value.
    #[error("{}:{place}{problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line and column, from 1.
        place: FilePosition,
        /// The key and the mistake.
        problem: String,
    },
    /// An environment variable with an invalid value.
    #[error("the environment variable {name}: {problem}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// The reason.
        problem: String,
    },
    /// No catalog to serve.
    #[error(
        "there is no catalog to serve: name at least one source, for example \
         `almanac serve quay.io/operatorhubio/catalog:latest` or `almanac serve file:deploy/catalog`, \
         or a file with `--config`"
    )]
    NoCatalog,
    /// A curated catalog that cannot be made. Only files configure these.
    #[error("{}the catalog {catalog}: {problem}", at(path.as_deref()))]
    Curated {
        /// The file, if known.
        path: Option<PathBuf>,
        /// The name of the catalog, or a description without one.
        catalog: String,
        /// The mistake.
        problem: Box<CuratedError>,
    },
    /// A webhook that the API server need not ask.
    #[error("[kubernetes] webhook needs cluster_catalogs = \"own\"")]
    Admission,
    /// A webhook that the API server cannot ask.
    #[error(
        "[kubernetes] webhook needs the certificate of [http_tls]: the API server asks over TLS"
    )]
    AdmissionTls,
    /// A webhook behind TLS that the API server cannot pass.
    #[error(
        "[kubernetes] webhook has the TLS of [http_tls], which requires a client certificate, and the API \
         server shows none: write client_certificates = \"optional\" there, or remove client_ca or webhook"
    )]
    AdmissionAsks,
    /// A key for the place of catalogd alone.
    #[error("[kubernetes] {0} is for cluster_catalogs = \"own\" alone: remove it")]
    OnlyOwn(&'static str),
    /// A URL that a `ClusterCatalog` cannot announce.
    #[error(
        "[kubernetes] service_url {0:?} is no URL that a ClusterCatalog can announce: https:// or \
         http://, a host, no query and no fragment, at most 262 bytes"
    )]
    ServiceUrl(String),
    /// A cluster is read, and nothing that it says could be followed.
    #[error(
        "[kubernetes] reads a cluster, and with offline = true nothing is followed: remove one"
    )]
    OfflineCluster,
    /// A source that suggests no name.
    #[error(
        "no name can be made from {source_text}: write NAME={source_text} (in a file: name = \"NAME\")"
    )]
    NoName {
        /// The source.
        source_text: String,
    },
    /// An image template that gives no image, without a plain source to use
    /// instead.
    #[error("no image can be made from the template {problem}")]
    Template {
        /// The template and the reason.
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
        /// The source of the first.
        first: Box<Source>,
        /// The source of the second.
        second: Box<Source>,
    },
    /// Two catalogs with one authority.
    #[error("the authority {authority} is given twice: for {first} and for {second}")]
    SameAuthority {
        /// The authority.
        authority: String,
        /// The first catalog.
        first: CatalogName,
        /// The second catalog, or the first again.
        second: CatalogName,
    },
    /// A default catalog that is not configured.
    #[error("default_catalog names {name}, but the catalogs are: {known}")]
    UnknownDefault {
        /// The name that was written.
        name: CatalogName,
        /// The configured names, separated by commas.
        known: String,
    },
    /// TLS settings without a required key.
    #[error("[{table}] has no {key}: write the path of a PEM file")]
    Tls {
        /// The table of the port.
        table: &'static str,
        /// The key that is missing.
        key: &'static str,
    },
    /// A webhook that cannot be used.
    #[error("the webhook {name}: {problem}")]
    Webhook {
        /// Its name.
        name: WebhookName,
        /// The mistake.
        problem: String,
    },
    /// Settings for signatures without a required key.
    #[error(
        "[signing] needs the key {0}: images are signed with key_file, under the name PREFIX/CATALOG \
         or the signed_name of a catalog"
    )]
    Signing(&'static str),
    /// A part of a fleet without another: the setting that is there, and the one that
    /// is missing.
    #[error(
        "{0} is for a fleet of replicas, which needs {1} too: write database = \"postgres://...\" \
         and objects = \"s3://...\", or neither for a single node"
    )]
    Fleet(&'static str, &'static str),
    /// A time after which every missed beat would make a replica unready.
    #[error("[fleet] stale must be at least 30s: a replica may miss some answers of the database")]
    Stale,
    /// Tokens that only the replica that gave them would take.
    #[error(
        "[distribution] flow = \"token\" in a fleet needs token_key_files, so that each replica takes \
         the tokens of the others"
    )]
    TokenKeys,
    /// A catalog that needs client certificates on a port that does not verify
    /// any.
    #[error(
        "the catalog {catalog} asks for client certificates, but nothing could verify one: \
         write certificate, key and client_ca in [http_tls]"
    )]
    NoClientAuthority {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A full mirror of a source that is not an image.
    #[error(
        "the catalog {catalog} comes from no image: mirror = \"full\" needs an \
         image reference or oci:FOLDER; with mirror = \"slim\" an image is made of it"
    )]
    NoImage {
        /// The catalog.
        catalog: CatalogName,
    },
    /// A data folder inside the source of a catalog: the folder, the catalog, its
    /// source.
    #[error(
        "the data folder {folder} lies in {2}, the source of the catalog {1}: what is written \
         there would be read as part of it; give another one with --data-dir (in a file: data_dir)",
        folder = .0.display()
    )]
    DataInSource(PathBuf, CatalogName, Box<Source>),
    /// A source inside the data folder, whose content almanac may remove: the
    /// folder, the catalog, its source.
    #[error(
        "{2}, the source of the catalog {1}, lies in the data folder {folder}: almanac may remove \
         the files there; put the source elsewhere, or give another folder with \
         --data-dir (in a file: data_dir)",
        folder = .0.display()
    )]
    SourceInData(PathBuf, CatalogName, Box<Source>),
    /// Two listeners with one address.
    #[error("{first} and {second} both listen at {address}")]
    SameAddress {
        /// The first listener.
        first: String,
        /// The second listener.
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
        /// The reason.
        problem: String,
    },
}

/// A mistake in the settings of a curated catalog.
#[derive(Debug, thiserror::Error)]
pub enum CuratedError {
    /// Neither a source nor anything to select from.
    #[error("it has no source; write source, or from with the names of catalogs to select from")]
    NoSource,
    /// A source beside a key that only curated catalogs have.
    #[error("it has a source, and {0} is for catalogs without one, which have from instead")]
    SourceToo(&'static str),
    /// It has no name.
    #[error("it is made from other catalogs, so no name can be made for it; write name")]
    NoName,
    /// An unknown catalog.
    #[error("there is no catalog {name} to select from{proposal}")]
    Unknown {
        /// Its name.
        name: CatalogName,
        /// Similar names.
        proposal: String,
    },
    /// It is made of itself.
    #[error("it is made of itself, by way of {0}; take that out of from")]
    Circle(CatalogName),
    /// Two keys that both select.
    #[error("image_set says what is selected, so {0} cannot; leave out one of them")]
    ImageSetToo(&'static str),
    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file that is not an `ImageSetConfiguration`.
    #[error("{} cannot be used: {problem}", path.display())]
    ImageSet {
        /// The file.
        path: PathBuf,
        /// The mistake.
        problem: Box<ImageSetError>,
    },
    /// A catalog of the file that is no source.
    #[error("{} cannot be used: {place}{problem}", path.display())]
    ImageSetCatalog {
        /// The file.
        path: PathBuf,
        /// The place of the catalog.
        place: Place,
        /// Why it is no source.
        problem: Box<SourceError>,
    },
    /// A catalog of the file that is not configured.
    #[error(
        "{} cannot be used: {place}no catalog has {catalog} as its source; \
         add a [[catalog]] with source = {catalog:?}",
        path.display()
    )]
    NotFollowed {
        /// The file.
        path: PathBuf,
        /// The place of the catalog.
        place: Place,
        /// The catalog, as the file writes it.
        catalog: String,
    },
    /// No catalog of the file is among those of `from`.
    #[error(
        "{} selects from no catalog of from; leave out from, or add the name of a catalog whose \
         source the file has",
        .0.display()
    )]
    NoneOfFrom(PathBuf),
    /// A selection that contradicts itself.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// A line and column of a file, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePosition(Option<(usize, usize)>);

/// The prefix of a message about a file.
fn at(path: Option<&Path>) -> String {
    path.map(|path| format!("{}: ", path.display()))
        .unwrap_or_default()
}

impl ConfigError {
    /// A mistake in the settings of this curated catalog.
    pub(super) fn curated(catalog: impl fmt::Display, problem: CuratedError) -> Self {
        Self::Curated {
            path: None,
            catalog: catalog.to_string(),
            problem: Box::new(problem),
        }
    }

    /// Adds the file to an error that only a file can cause.
    pub(super) fn in_file(mut self, file: Option<&Path>) -> Self {
        if let Self::Curated { path, .. } = &mut self {
            *path = file.map(Path::to_owned);
        }
        self
    }

    /// An error of the TOML parser in the file at `path` with this `text`.
    pub(super) fn file(path: &Path, text: &str, mut error: toml::de::Error) -> Self {
        let place = error.span().map(|span| position(text, span.start));
        let message = error.message().to_owned();
        // Without the text, the error names its table instead.
        error.set_input(None);
        let whole = error.to_string();
        let table = whole.strip_prefix(&message).unwrap_or_default().trim();
        let message = with_repeated_table(message, table);
        let message = with_plain_number(&with_similar(&message))
            .replace("unknown variant", "unknown value")
            .replace("unknown field", "unknown key")
            .replace("missing field", "missing key");
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        let mut problem = lines.join("; ");
        if !table.is_empty() {
            problem = format!("{problem} ({table})");
        }
        Self::File {
            path: path.to_owned(),
            place: FilePosition(place),
            problem,
        }
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, "{line}:{column}: "),
            None => write!(f, " "),
        }
    }
}

/// A message about an unknown key or value, with similar ones in the place of all that
/// there are. Without a similar one, and any other message, as it is.
fn with_similar(message: &str) -> String {
    // The message quotes the text first, then what was expected.
    let mut parts = message.split('`');
    let (Some(start), Some(wanted)) = (parts.next(), parts.next()) else {
        return message.to_owned();
    };
    if !start.starts_with("unknown ") {
        return message.to_owned();
    }
    let known = parts.skip(1).step_by(2);
    match suggest::proposal(wanted, known) {
        proposal if proposal.is_empty() => message.to_owned(),
        proposal => format!("{start}`{wanted}`{proposal}"),
    }
}

/// A message about a table that is written as if there could be only one.
fn with_repeated_table(message: String, table: &str) -> String {
    let name = table
        .strip_prefix("in `")
        .and_then(|it| it.strip_suffix('`'));
    match name {
        Some(name) if message == "invalid type: map, expected a sequence" => {
            format!("there can be several of this table, so it is written [[{name}]]")
        }
        _ => message,
    }
}

/// A message about a number, without the names that numbers have in the program.
fn with_plain_number(message: &str) -> String {
    let (start, expected) = message.rsplit_once("expected ").unwrap_or_default();
    let plain = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" | "a nonzero usize" => "a whole number from 1",
        "u64" | "usize" => "a whole number from 0",
        _ => return message.to_owned(),
    };
    format!("{start}expected {plain}")
}

/// Line and column of a byte, from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn an_unknown_key_is_reported_with_a_similar_one() {
        for (message, expected) in [
            (
                "unknown field `catlog`, expected one of `catalog`, `data_dir`",
                "unknown field `catlog`; did you mean \"catalog\"?",
            ),
            (
                "unknown variant `ful`, expected `slim` or `full`",
                "unknown variant `ful`; did you mean \"full\"?",
            ),
            (
                "unknown field `colour`, expected `a` or `b`",
                "unknown field `colour`, expected `a` or `b`",
            ),
            ("missing field `name`", "missing field `name`"),
            ("unclosed table", "unclosed table"),
        ] {
            assert_eq!(with_similar(message), expected);
        }
    }

    #[test]
    fn a_table_that_may_come_several_times_is_shown_with_its_brackets() {
        for (text, expected) in [
            (
                "[webhook]\nname = \"a\"",
                "it is written [[webhook]] (in `webhook`)",
            ),
            (
                "[catalog]\nname = \"a\"",
                "it is written [[catalog]] (in `catalog`)",
            ),
        ] {
            let error = toml::from_str::<Settings>(text).unwrap_err();
            let error = ConfigError::file(Path::new("almanac.toml"), text, error).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_wrong_number_is_reported_in_plain_words() {
        for (text, expected) in [
            (
                "[history]\nrevisions = 0",
                "invalid value: integer `0`, expected a whole number from 1 (",
            ),
            (
                "[history]\nrevisions = \"ten\"",
                "invalid type: string \"ten\", expected a whole number from 1 (",
            ),
            (
                "[registries]\nattempts = 5000000000",
                "invalid value: integer `5000000000`, expected a whole number from 1 to 4294967295",
            ),
            (
                "[history]\ndays = -1",
                "invalid value: integer `-1`, expected a whole number from 0 (",
            ),
        ] {
            let error = toml::from_str::<Settings>(text).unwrap_err();
            let error = ConfigError::file(Path::new("almanac.toml"), text, error).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
