//! The HTTP client for one server: trust, limits and credentials.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Client, Response, StatusCode, Url};

use crate::error_chain::{causes, error_chain};
use crate::fetch::login::{Login, Logins};
use ::images::server_trust::{self, Verifier};
use ::images::{MAX_HEADERS, Proxies, Proxy, wants_tls};
use fbc::text::display::clip;

/// The most bytes of an error response that are read.
const MAX_MESSAGE: usize = 4 << 10;
/// The longest message of a server that is shown, in bytes.
const MAX_SHOWN: usize = 300;
/// How the system's message begins about a name without an address.
const UNRESOLVED: &str = "failed to lookup address information: ";
/// The media type of error responses that almanac describes. Other servers send text.
const PROBLEM: &str = "application/problem+json";
/// The remedy for a response without access.
const ADVICE: &str = "name a file with the bearer token of the catalog by --token-file, or \
    write a login for the host into ~/.netrc or auth.json";
/// The remedy for a path that the server does not know.
const FORM: &str = "the URL of a catalog is http://HOST:PORT/catalogs/NAME, with the HTTP port, by \
    default 8080";

/// Gets the number of bytes received so far, and of all where the server tells.
pub type Received = Arc<dyn Fn(u64, Option<u64>) + Send + Sync>;

/// Limits and trust of requests.
#[derive(Clone)]
pub struct Settings {
    /// PEM files of certificates to trust besides the system's, of authorities
    /// or of servers.
    pub ca_files: Vec<PathBuf>,
    /// The hosts (`HOST` or `HOST:PORT`) whose certificates are not verified, and
    /// that get logins without TLS.
    pub insecure: Vec<String>,
    /// The bearer token.
    pub token: Option<HeaderValue>,
    /// Files with logins by host, without a token.
    pub logins: Logins,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for the whole download.
    pub timeout: Duration,
    /// The largest response as it is sent, in bytes.
    pub limit: u64,
    /// Gets told how much is received.
    pub received: Option<Received>,
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The settings cannot be used; no request was sent.
    #[error("cannot set up a connection: {0}")]
    Setup(String),
    /// A request was sent to this URL.
    #[error("{0}: {1}")]
    Request(String, RequestProblem),
}

/// Reasons why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum RequestProblem {
    /// No response, or only a part of one.
    #[error("{0}")]
    Broken(String),
    /// A connection without TLS to a port that wants it: the answer or the error.
    #[error("{0}: this port expects TLS; write https:// in place of http://")]
    WantsTls(String),
    /// A TLS handshake that another protocol answered.
    #[error("this port does not speak TLS; write http:// in place of https://")]
    NoTls,
    /// A connection that broke before its first answer, which may be due to the scheme:
    /// the error, and the remedy.
    #[error("{0}; {1}")]
    Cut(String, &'static str),
    /// The name of the server means no address.
    #[error("the host name is not known: {0}")]
    NoHost(String),
    /// No program listens at the address.
    #[error(
        "connection refused: no program listens there; is almanac running? By default, its HTTP port \
         is 8080, and its admin port 9090"
    )]
    Refused,
    /// A response without a catalog: the status, and the body after a colon.
    #[error("{0}{1}")]
    Status(u16, String),
    /// A page for browsers instead of a catalog.
    #[error("the response is a web page: neither almanac nor catalogd answers there")]
    WebPage,
    /// A response in an encoding other than gzip.
    #[error("the response has the encoding {0:?}, which was not requested")]
    Encoding(String),
    /// The response exceeds the limit, in bytes.
    #[error("the response exceeds the limit of {0} bytes")]
    TooLarge(u64),
    /// The download took longer than this.
    #[error("the download was not complete after {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The response cannot be decompressed or written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl From<reqwest::Error> for RequestProblem {
    fn from(error: reqwest::Error) -> Self {
        let is_secure = error.url().is_some_and(|url| url.scheme() == "https");
        let error = error.without_url();
        if let Some(refusal) = server_trust::refusal(&error) {
            let remedy = if server_trust::is_untrusted(&error) {
                "; if it is the right server, name its authority, or the certificate itself, by \
                 --ca-file"
            } else {
                ""
            };
            return Self::Broken(refusal + remedy);
        }
        for cause in causes(&error) {
            let is_io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            if is_io == Some(io::ErrorKind::ConnectionRefused) {
                return Self::Refused;
            }
            if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
                return Self::NoTls;
            }
            // A port with TLS answers a request with an alert, or not at all.
            let is_answer = |it: &hyper::Error| it.is_incomplete_message() || it.is_parse();
            if !is_secure && cause.downcast_ref().is_some_and(is_answer) {
                let text = last(&error);
                return Self::Cut(text, "if this port expects TLS, write https://");
            }
            let is_cut = matches!(
                is_io,
                Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
            );
            if is_secure && is_cut && error.is_connect() {
                let text = format!("no TLS handshake: {}", last(&error));
                return Self::Cut(text, "if this port does not speak TLS, write http://");
            }
        }
        let unknown = causes(&error).find_map(|cause| cause.downcast_ref::<UnknownHost>());
        match unknown {
            Some(UnknownHost(cause)) => {
                let text = cause.to_string();
                let reason = text.strip_prefix(UNRESOLVED).unwrap_or(&text);
                Self::NoHost(reason.to_owned())
            }
            None => Self::Broken(error_chain(&error)),
        }
    }
}

/// A host name without an address. The error has no kind of its own, so it gets a type here.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct UnknownHost(io::Error);

/// Looks host names up, with [`UnknownHost`] for those that have no address.
struct HostLookup;

impl Resolve for HostLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found: Vec<SocketAddr> = found.map_err(UnknownHost)?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The last cause: the others tell of layers of the client.
fn last(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            insecure: Vec::new(),
            token: None,
            logins: Logins::default(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            timeout: Duration::from_mins(30),
            limit: 2 << 30,
            received: None,
        }
    }
}

/// A client for the server of one URL.
pub(super) struct HttpClient {
    client: Client,
    token: Option<HeaderValue>,
    /// Where logins are looked up, if the server may get one.
    logins: Option<Logins>,
    host: String,
    /// The proxy on the way.
    proxy: Option<Proxy>,
}

impl HttpClient {
    /// A client for the server of `url`, or the reason why there is none.
    pub(super) fn new(settings: &Settings, url: &Url) -> Result<Self, String> {
        let host = host(url);
        let is_insecure = settings.insecure.contains(&host);
        let mut certificates = Vec::new();
        for path in &settings.ca_files {
            certificates.extend(server_trust::read(path)?);
        }
        let verifier = if is_insecure {
            Verifier::with_any_certificate()
        } else {
            let verifier = Verifier::with_system_and(certificates);
            verifier.map_err(|error| format!("the trusted certificates: {error}"))?
        };
        let tls = verifier.client().map_err(|error| error.to_string())?;
        let mut tls = tls.with_no_client_auth();
        tls.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
        let mut builder = Client::builder()
            .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
            // A redirect is reported, so that the user sees the other URL.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.idle_timeout)
            .http1_max_headers(MAX_HEADERS)
            .dns_resolver(Arc::new(HostLookup))
            .tls_backend_preconfigured(tls);
        let proxies = Proxies::from_environment();
        if proxies.is_direct(url) {
            builder = builder.no_proxy();
        }
        let is_local = images::is_loopback(url);
        // A password in a file was not typed for this URL, so nobody may read it on
        // its way. A token was.
        let may_log_in = url.scheme() == "https" || is_local || is_insecure;
        Ok(Self {
            client: builder.build().map_err(|error| error_chain(&error))?,
            token: settings.token.clone(),
            logins: may_log_in.then(|| settings.logins.clone()),
            host,
            proxy: proxies.proxy_for(url).cloned(),
        })
    }

    /// Sends a request, with the token or else the login for the host. A login is
    /// sent as a bearer token first, as almanac wants it, and as user and password
    /// to a server that asks for these.
    pub(super) async fn get(
        &self,
        url: &Url,
        headers: &[(HeaderName, &str)],
    ) -> Result<Response, RequestProblem> {
        let send = async |authorization: Option<HeaderValue>| {
            let mut request = self.client.get(url.clone());
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            if let Some(value) = authorization {
                request = request.header(AUTHORIZATION, value);
            }
            let answer = request.send().await;
            let answer = answer.map_err(|error| self.problem(error))?;
            match &self.proxy {
                Some(proxy) if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    Err(no_way(proxy, proxy.login_problem()))
                }
                _ => Ok(answer),
            }
        };
        if self.token.is_some() {
            return send(self.token.clone()).await;
        }
        let login = match &self.logins {
            Some(logins) => logins.find(url, &self.host).await,
            None => None,
        };
        let answer = send(login.as_ref().and_then(Login::bearer)).await?;
        match login.and_then(|login| login.basic()) {
            Some(basic) if wants_password(&answer) => send(Some(basic)).await,
            _ => Ok(answer),
        }
    }
}

impl HttpClient {
    /// Why a request had no response. A connection that fails may be that to the proxy.
    fn problem(&self, error: reqwest::Error) -> RequestProblem {
        let Some(proxy) = self.proxy.as_ref().filter(|_| error.is_connect()) else {
            return error.into();
        };
        if server_trust::refusal(&error).is_some() {
            return error.into();
        }
        if Proxy::wants_login(&error) {
            return no_way(proxy, proxy.login_problem());
        }
        no_way(proxy, &last(&error.without_url()))
    }
}

fn no_way(proxy: &Proxy, cause: &str) -> RequestProblem {
    RequestProblem::Broken(format!("no connection through the proxy {proxy}: {cause}"))
}

/// The host of a URL, with the port if it has one.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    format!("{host}{}", port.unwrap_or_default())
}

fn wants_password(answer: &Response) -> bool {
    let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    let mut schemes = challenges.filter_map(|challenge| challenge.to_str().ok()?.split(' ').next());
    answer.status() == StatusCode::UNAUTHORIZED
        && schemes.any(|scheme| scheme.eq_ignore_ascii_case("basic"))
}

/// Writes the body of a response to `out`.
pub(super) async fn receive<W: Write>(
    settings: &Settings,
    mut answer: Response,
    mut out: W,
) -> Result<W, RequestProblem> {
    let mut received = 0;
    let total = answer.content_length();
    while let Some(piece) = answer.chunk().await? {
        received += piece.len() as u64;
        if received > settings.limit {
            return Err(RequestProblem::TooLarge(settings.limit));
        }
        if let Some(tell) = &settings.received {
            tell(received, total);
        }
        out.write_all(&piece)?;
    }
    Ok(out)
}

/// The problem that a response other than 200 tells.
pub(super) async fn refusal(mut answer: Response) -> RequestProblem {
    let status = answer.status();
    let is_secure = answer.url().scheme() == "https";
    let mut body = Vec::new();
    while body.len() < MAX_MESSAGE
        && let Ok(Some(piece)) = answer.chunk().await
    {
        body.extend_from_slice(&piece[..piece.len().min(MAX_MESSAGE)]);
    }
    let headers = answer.headers();
    let target = headers.get(LOCATION);
    let kind = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let message = match target.filter(|_| status.is_redirection()) {
        Some(target) => format!("leads to {:?}", String::from_utf8_lossy(target.as_bytes())),
        None => message(status, kind, &body),
    };
    if !is_secure && wants_tls(status, &body) {
        return RequestProblem::WantsTls(status.as_u16().to_string());
    }
    let advice = match status {
        StatusCode::UNAUTHORIZED => ADVICE,
        StatusCode::NOT_FOUND if !kind.starts_with(PROBLEM.as_bytes()) => FORM,
        _ => "",
    };
    let parts = [message.as_str(), advice].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    RequestProblem::Status(status.as_u16(), format!("{colon}{}", parts.join("; ")))
}

/// Content of an error response besides its status.
fn message(status: StatusCode, kind: &[u8], body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Problem {
        detail: String,
    }
    if kind.starts_with(b"text/html") {
        return "the response is a web page".to_owned();
    }
    if let Ok(Problem { detail }) = serde_json::from_slice(body) {
        return shown(&detail);
    }
    // The status is shown beside it.
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let text = text.strip_prefix(status.as_str()).unwrap_or(text).trim();
    let reason = status.canonical_reason().unwrap_or_default();
    shown(text.strip_prefix(reason).unwrap_or(text).trim())
}

/// The beginning of a text of a server, with control characters escaped.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for sign in clip(text, MAX_SHOWN).chars() {
        if sign.is_control() {
            out.extend(sign.escape_default());
        } else {
            out.push(sign);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_response_is_told_once_whatever_its_form() {
        let problem = "application/problem+json";
        let known = r#"{"type": "a", "detail": "there is no catalog \"a\""}"#;
        for (status, kind, body, told) in [
            (404, problem, known, "there is no catalog \"a\""),
            (404, "text/plain", "404 page not found\n", "page not found"),
            (
                404,
                "text/plain",
                "404 Not Found\nthere is none\n",
                "there is none",
            ),
            (401, "text/plain", "Unauthorized\n", ""),
            (500, "", "\u{1b}[31mred", "\\u{1b}[31mred"),
            (
                502,
                "text/html; charset=utf-8",
                "<html>",
                "the response is a web page",
            ),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                message(status, kind.as_bytes(), body.as_bytes()),
                told,
                "{body}"
            );
        }
    }

    #[test]
    fn a_login_is_sent_neither_in_the_clear_nor_beside_a_token() {
        let may_log_in = |url: &str, insecure: &[&str]| {
            let settings = Settings {
                insecure: insecure.iter().map(|host| (*host).to_owned()).collect(),
                ..Settings::default()
            };
            let url = url.parse().unwrap();
            let client = HttpClient::new(&settings, &url).unwrap();
            client.logins.is_some()
        };
        assert!(may_log_in("https://a.example", &[]));
        assert!(may_log_in("http://127.0.0.1:1", &[]));
        assert!(may_log_in("http://a.example:80", &["a.example"]));
        assert!(!may_log_in("http://a.example", &[]));
        assert!(!may_log_in("http://a.example:81", &["a.example"]));
    }
}
