//! Queries to a running almanac.

use std::fmt;
use std::str::FromStr;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{StatusCode, Url};

use crate::fetch::CatalogUrlError;
use crate::fetch::client::{FetchError, HttpClient, RequestProblem, Settings, receive, refusal};
use crate::name::CatalogName;
use ::images::wants_tls;

/// The folder of the catalogs on a server.
const CATALOGS: &str = "/catalogs";

/// Answers, and descriptions of errors.
const ACCEPTED: &str = "application/json, application/problem+json";

/// The URL of a server, or of one of its catalogs.
///
/// ```
/// use almanac::fetch::ServerUrl;
///
/// let url: ServerUrl = "http://127.0.0.1:8080".parse().unwrap();
/// assert_eq!(url.catalog(), None);
/// let url: ServerUrl = "http://127.0.0.1:8080/catalogs/a".parse().unwrap();
/// assert_eq!(url.catalog().unwrap().as_str(), "a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// The root of the server: without `/` at the end of its path.
    root: Url,
    catalog: Option<CatalogName>,
}

/// Answers of a server.
#[derive(Clone, Debug)]
pub struct ServerAnswer {
    /// The status.
    pub status: StatusCode,
    /// Whether the body is JSON.
    pub is_json: bool,
    /// The body.
    pub body: Vec<u8>,
}

impl ServerUrl {
    /// The catalog that the URL names.
    pub fn catalog(&self) -> Option<&CatalogName> {
        self.catalog.as_ref()
    }

    /// The URL of a path with a query, which begins with `/`.
    pub fn at(&self, path: &str) -> Url {
        let mut url = self.root.clone();
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        let path = format!("{}{path}", self.root.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_query(query);
        url
    }

    /// Asks for a path. Answers with errors are answers, too; a redirect is none.
    pub async fn get(&self, settings: &Settings, path: &str) -> Result<ServerAnswer, FetchError> {
        let url = self.at(path);
        let client = HttpClient::new(settings, &self.root).map_err(FetchError::Setup)?;
        let asking = async {
            let answer = client.get(&url, &[(ACCEPT, ACCEPTED)]).await?;
            let status = answer.status();
            if status.is_redirection() || status == StatusCode::UNAUTHORIZED {
                return Err(refusal(answer).await);
            }
            let kind = answer.headers().get(CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_json = kind.contains("json");
            let is_secure = url.scheme() == "https";
            let body = receive(settings, answer, Vec::new()).await?;
            if !is_secure && !is_json && wants_tls(status, &body) {
                return Err(RequestProblem::WantsTls(status.as_u16().to_string()));
            }
            Ok(ServerAnswer {
                status,
                is_json,
                body,
            })
        };
        tokio::time::timeout(settings.timeout, asking)
            .await
            .unwrap_or(Err(RequestProblem::Timeout(settings.timeout)))
            .map_err(|problem| FetchError::Request(url.to_string(), problem))
    }
}

impl FromStr for ServerUrl {
    type Err = CatalogUrlError;

    fn from_str(text: &str) -> Result<Self, CatalogUrlError> {
        let mut root = super::parse_url(text)?;
        let path = root.path().trim_end_matches('/').to_owned();
        let (path, catalog) = match path.rsplit_once('/') {
            Some((folder, name)) if folder.ends_with(CATALOGS) => match name.parse() {
                Ok(name) => (folder.to_owned(), Some(name)),
                Err(_) => return Err(CatalogUrlError::NoCatalog(text.to_owned())),
            },
            _ => (path, None),
        };
        root.set_path(path.strip_suffix(CATALOGS).unwrap_or(&path));
        Ok(Self { root, catalog })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root.as_str().trim_end_matches('/'))?;
        match &self.catalog {
            Some(catalog) => write!(f, "{CATALOGS}/{catalog}"),
            None => Ok(()),
        }
    }
}
