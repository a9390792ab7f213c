//! Queries about catalogs: one question for a source and for a running almanac.
//!
//! The HTTP API answers all of them. A server is asked over the network. A source is
//! read into a temporary store and asked through the same routes, in this process.

pub(super) mod across;
mod local;
mod problem;
pub(super) mod providers;
pub(super) mod search;
pub(super) mod updates;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;

use crate::answers::rest::records::percent_encoded;
use crate::cli::format::{Column, Format};
use crate::cli::input::{Input, InputArguments, ReadingArguments, SourceArguments};
use crate::cli::output::Shown;
use crate::cli::{Failure, output};
use crate::config::{Environment, Settings};
use crate::fetch::{self, ServerUrl};
use crate::name::CatalogName;
use local::Local;
pub(super) use problem::Port;
use problem::answered;

/// The items of a page: the most that the API allows.
const PAGE: &str = "500";
/// The most pages of one list.
const MAX_PAGES: usize = 10_000;

/// The arguments of commands that ask.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sources")]
pub(super) struct QueryArguments {
    /// Ask a running almanac at http://HOST:PORT, instead of reading SOURCE: about
    /// all of its catalogs, or about one at http://HOST:PORT/catalogs/NAME
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// Only this catalog of the server
    #[arg(long, value_name = "NAME", requires = "server")]
    catalog: Option<CatalogName>,

    #[command(flatten)]
    source: SourceArguments,

    #[command(flatten)]
    pub(super) reading: ReadingArguments,
}

/// Who answers.
pub(super) enum Respondent {
    /// Routes of this process, over one catalog.
    Local(Box<Local>),
    /// A server.
    Server {
        url: ServerUrl,
        /// The catalog, if only one is asked about.
        catalog: Option<CatalogName>,
        settings: Box<fetch::Settings>,
    },
}

/// A route, with its parameters.
#[derive(Clone, Debug)]
pub(super) struct Question {
    path: String,
    query: String,
}

impl QueryArguments {
    /// Whether a server is asked, so that no argument is a source.
    pub(super) fn asks_server(&self) -> bool {
        self.server.is_some()
    }

    /// Divides positional arguments into the source and the others.
    pub(super) fn divide(&self, mut words: Vec<String>) -> (Option<String>, Vec<String>) {
        let source = (!self.asks_server() && !words.is_empty()).then(|| words.remove(0));
        (source, words)
    }

    /// The source, or the one catalog of a server that stands for it.
    pub(super) fn input(self, source: Option<String>) -> Result<InputArguments, Failure> {
        let source = match (&self.server, source) {
            (None, source) => source.ok_or_else(nothing_named)?,
            (Some(server), _) => {
                let url: ServerUrl = server.parse().map_err(Failure::usage)?;
                let catalog = self.catalog.as_ref().or(url.catalog()).ok_or_else(|| {
                    Failure::usage(anyhow!(
                        "choose a catalog of the server by --catalog; `almanac list catalogs \
                         --server {url}` lists them"
                    ))
                })?;
                url.at(&format!("/catalogs/{catalog}")).to_string()
            }
        };
        Ok(InputArguments::new(source, self.source, self.reading))
    }

    /// Whether all catalogs of a server are asked about.
    pub(super) fn is_across(&self) -> Result<bool, Failure> {
        let Some(server) = &self.server else {
            return Ok(false);
        };
        let url: ServerUrl = server.parse().map_err(Failure::usage)?;
        Ok(self.catalog.is_none() && url.catalog().is_none())
    }

    /// The same arguments with a server.
    pub(super) fn with_server(mut self, url: String) -> Self {
        self.server = Some(url);
        self
    }

    /// The same arguments with the server of the configuration: the HTTP port of the
    /// almanac on this machine.
    pub(super) fn with_configured_server(self, environment: &Environment) -> Result<Self, Failure> {
        let file = self.source.config.as_deref();
        let settings = Settings::gather(Settings::default(), file, environment);
        let settings = settings.map_err(Failure::usage)?;
        let is_secure = settings.http_tls.certificate.is_some();
        let scheme = if is_secure { "https" } else { "http" };
        let address = local_host(settings.http_address());
        Ok(self.with_server(format!("{scheme}://{address}")))
    }

    /// Starts the log, and reads the source if there is one.
    pub(super) fn open(
        self,
        source: Option<String>,
        environment: &Environment,
    ) -> Result<Respondent, Failure> {
        let Some(server) = self.server else {
            let source = source.ok_or_else(nothing_named)?;
            let input = InputArguments::new(source, self.source, self.reading);
            return Local::open(input, environment).map(|local| Respondent::Local(Box::new(local)));
        };
        let url: ServerUrl = server.parse().map_err(Failure::usage)?;
        if let (Some(named), Some(other)) = (&self.catalog, url.catalog())
            && named != other
        {
            return Err(Failure::usage(anyhow!(
                "--catalog {named} and the catalog {other} in --server contradict each other"
            )));
        }
        let options = self.reading.open(None, environment)?;
        Ok(Respondent::Server {
            catalog: self.catalog.or_else(|| url.catalog().cloned()),
            url,
            settings: Box::new(options.fetch),
        })
    }
}

impl Question {
    /// A route below `api/v1` of a catalog, or of all catalogs.
    pub(super) fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            query: String::new(),
        }
    }

    /// Adds a parameter.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        let sign = if self.query.is_empty() { '?' } else { '&' };
        self.query.push(sign);
        self.query.push_str(name);
        self.query.push('=');
        self.query.push_str(&percent_encoded(value));
        self
    }

    /// The catalogs of a server.
    fn catalogs() -> Self {
        Self::new("/catalogs")
    }

    /// A package in all catalogs of a server.
    fn package(name: &str) -> Self {
        Self::new(format!("/api/v1/packages/{}", percent_encoded(name)))
    }

    fn under(&self, folder: &str) -> String {
        let folder = if self.path.starts_with('/') {
            ""
        } else {
            folder
        };
        format!("{folder}{}{}", self.path, self.query)
    }
}

impl Respondent {
    /// Whether several catalogs are asked about.
    fn is_across(&self) -> bool {
        matches!(self, Self::Server { catalog: None, .. })
    }

    /// Prints items, with their catalogs if there are several.
    fn print(
        &self,
        format: Format,
        items: &[Value],
        columns: &[Column],
        name: &str,
    ) -> Result<ExitCode, Failure> {
        const CATALOG: Column = Column::new("CATALOG", |item| text(item, "catalog"));
        let catalog = self.is_across().then_some(CATALOG).into_iter();
        let columns: Vec<Column> = catalog.chain(columns.iter().copied()).collect();
        format.print_objects(items, &items, &columns, name)
    }

    /// The answer of a route with one object.
    pub(super) async fn object(&self, question: &Question) -> Result<Value, Failure> {
        let (status, is_json, body) = match self {
            Self::Local(local) => local.get(&question.under(local::FOLDER)).await?,
            Self::Server {
                url,
                catalog,
                settings,
            } => {
                let folder = match catalog {
                    Some(name) => format!("/catalogs/{name}/api/v1/"),
                    None => "/api/v1/".to_owned(),
                };
                return ask(url, Port::Http, settings, &question.under(&folder)).await;
            }
        };
        answered("the catalog", Port::Http, status, is_json, &body)
    }

    /// All items of a list.
    pub(super) async fn list(&self, question: &Question) -> Result<Answered, Failure> {
        let mut answered = Answered::default();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut page = question.clone().with("limit", PAGE);
            if let Some(token) = &next {
                page = page.with("continue", token);
            }
            let mut answer = self.object(&page).await?;
            if let Some(Value::Array(items)) = answer.get_mut("items").map(Value::take) {
                answered.items.extend(items);
            }
            answered.hint = string(&answer, "hint");
            let missing = answer.get("notLoaded").and_then(Value::as_array);
            let missing = missing.into_iter().flatten().filter_map(Value::as_str);
            answered.not_loaded = missing.map(str::to_owned).collect();
            next = string(&answer, "continue");
            if next.is_none() {
                return Ok(answered);
            }
        }
        Err(Failure::run(anyhow!("the list of the server does not end")))
    }
}

/// The host and port of a listener, for clients on the same machine. A certificate has a
/// name rather than an address.
fn local_host(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

fn nothing_named() -> Failure {
    Failure::usage(anyhow!(
        "SOURCE is missing: write one, such as file:deploy/catalog, or name a running almanac by \
         --server, such as --server http://localhost:8080"
    ))
}

/// The failure for a single word: SOURCE, or what should follow it. `missing` says what
/// that is, and `name` is its name in the usage.
pub(super) fn one_word(command: &str, word: &str, missing: &str, name: &str) -> Failure {
    let is_source = Input::found(word).is_ok();
    let word = Shown(word);
    Failure::usage(if is_source {
        anyhow!("{missing} is missing after SOURCE: write `almanac {command} {word} {name}`")
    } else {
        anyhow!(
            "SOURCE or --server is missing beside {word}: write `almanac {command} SOURCE {word}`, or \
             `almanac {command} --server http://localhost:8080 {word}` for a running almanac"
        )
    })
}

/// A list, and what the server says about it.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) items: Vec<Value>,
    /// Why the list may be empty.
    pub(super) hint: Option<String>,
    /// The catalogs without content.
    pub(super) not_loaded: Vec<String>,
}

impl Answered {
    /// Tells what is missing, on standard error.
    pub(super) fn note(&self) {
        if !self.not_loaded.is_empty() {
            let names = self.not_loaded.join(", ");
            output::note(&format!("almanac: catalogs without content: {names}"));
        }
        match &self.hint {
            Some(hint) => output::note(&format!("almanac: {hint}")),
            None if self.items.is_empty() => output::note("almanac: nothing was found"),
            None => {}
        }
    }
}

/// Asks a port of a server.
pub(super) async fn ask(
    url: &ServerUrl,
    port: Port,
    settings: &fetch::Settings,
    path: &str,
) -> Result<Value, Failure> {
    let answer = url.get(settings, path).await.map_err(Failure::unreadable)?;
    let subject = url.at(path).to_string();
    answered(&subject, port, answer.status, answer.is_json, &answer.body)
}

/// A text of an object, or nothing.
pub(super) fn text(object: &Value, key: &str) -> String {
    string(object, key).unwrap_or_default()
}

fn string(object: &Value, key: &str) -> Option<String> {
    Some(object.get(key)?.as_str()?.to_owned())
}

/// Whether a member of an object is `true`.
pub(super) fn flag(object: &Value, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(false)
}
