//! Gets a whole catalog from an almanac that runs somewhere, or from anything
//! else that speaks catalogd's HTTP API.
//!
//! For commands that a user types with a URL. What follows sources by itself
//! never comes here: it reads from registries, layouts and folders only.

use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flate2::write::GzDecoder;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::{Client, Response, Url};

/// Where the whole of a catalog is, below the catalog's own address.
const ALL: &str = "/api/v1/all";
/// How much of a PEM file is read, in bytes.
const MAX_CERTIFICATES: u64 = 8 << 20;
/// How much of an answer that says what is wrong is shown, in bytes.
const MAX_MESSAGE: usize = 300;

/// The address of a catalog that is served over HTTP.
///
/// ```
/// use almanac::fetch::CatalogUrl;
///
/// let url: CatalogUrl = "http://127.0.0.1:8080/catalogs/a".parse().unwrap();
/// assert_eq!(url.all(), "http://127.0.0.1:8080/catalogs/a/api/v1/all");
/// assert!("http://127.0.0.1:8080".parse::<CatalogUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogUrl {
    /// As it was written.
    text: String,
    /// Where the whole of the catalog is.
    all: Url,
}

/// Why a text is no address of a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogUrlError {
    /// No URL at all.
    #[error("{text:?} is no URL: {problem}")]
    Url {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Neither http nor https.
    #[error("{0:?} is neither an http nor an https URL")]
    Scheme(String),
    /// Only a host.
    #[error("{0:?} names no catalog; write http://HOST:PORT/catalogs/NAME")]
    NoCatalog(String),
    /// A user, a password, a query or a fragment. What was written is not
    /// repeated: it may be secret.
    #[error("the URL of a catalog has no user, no password, no query and no fragment")]
    Parts,
}

/// How to ask.
#[derive(Clone, Debug)]
pub struct Settings {
    /// PEM files of certificate authorities that are trusted besides the
    /// system's.
    pub ca_files: Vec<PathBuf>,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for all of it.
    pub timeout: Duration,
    /// The longest answer as it is sent, in bytes.
    pub limit: u64,
}

/// Why a catalog could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nothing was asked: the settings cannot be used.
    #[error("cannot set up a connection: {0}")]
    Setup(String),
    /// No answer, or only a part of one.
    #[error("{url}: {problem}")]
    Request {
        /// What was asked.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// An answer without a catalog.
    #[error("{url}: {status}{message}")]
    Status {
        /// What was asked.
        url: String,
        /// The status.
        status: u16,
        /// What the answer says, after a colon, or nothing.
        message: String,
    },
    /// An answer that is not plain and not gzip.
    #[error("{url}: the answer is encoded as {encoding:?}, which was not asked for")]
    Encoding {
        /// What was asked.
        url: String,
        /// The encoding.
        encoding: String,
    },
    /// More than the limit allows.
    #[error("{url}: the answer passes the limit of {limit} bytes")]
    TooLarge {
        /// What was asked.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// It took too long.
    #[error("{url}: not all there after {}", humantime::format_duration(*.limit))]
    Timeout {
        /// What was asked.
        url: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// What came cannot be unpacked, or there is no place for it.
    #[error("{url}: {source}")]
    Write {
        /// What was asked.
        url: String,
        /// Why.
        source: io::Error,
    },
}

impl CatalogUrl {
    /// Where the whole of the catalog is.
    pub fn all(&self) -> &str {
        self.all.as_str()
    }

    /// Writes the whole of the catalog to `out`, unpacked. `out` bounds what it
    /// takes: an error of it ends the transfer.
    pub async fn fetch(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        tokio::time::timeout(settings.timeout, self.transfer(settings, out))
            .await
            .unwrap_or_else(|_| {
                Err(FetchError::Timeout {
                    url: self.all().to_owned(),
                    limit: settings.timeout,
                })
            })
    }

    async fn transfer(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        let asking = client(settings, is_loopback(&self.all))?
            .get(self.all.clone())
            .header(ACCEPT_ENCODING, "gzip")
            .send();
        let answer = asking.await.map_err(|error| self.failed(error))?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(self.refusal(answer).await);
        }
        let encoding = answer.headers().get(CONTENT_ENCODING);
        match encoding.map_or(&b"identity"[..], |encoding| encoding.as_bytes()) {
            b"identity" => self.receive(settings.limit, answer, out).await.map(drop),
            b"gzip" => {
                let unpacking = GzDecoder::new(out);
                let unpacking = self.receive(settings.limit, answer, unpacking).await?;
                unpacking.finish().map(drop).map_err(|e| self.writing(e))
            }
            other => Err(FetchError::Encoding {
                url: self.all().to_owned(),
                encoding: String::from_utf8_lossy(other).into_owned(),
            }),
        }
    }

    async fn receive<W: Write>(
        &self,
        limit: u64,
        mut answer: Response,
        mut out: W,
    ) -> Result<W, FetchError> {
        let mut received = 0;
        while let Some(piece) = answer.chunk().await.map_err(|error| self.failed(error))? {
            received += piece.len() as u64;
            if received > limit {
                return Err(FetchError::TooLarge {
                    url: self.all().to_owned(),
                    limit,
                });
            }
            out.write_all(&piece).map_err(|error| self.writing(error))?;
        }
        Ok(out)
    }

    async fn refusal(&self, mut answer: Response) -> FetchError {
        let status = answer.status();
        let mut message = Vec::new();
        while message.len() < MAX_MESSAGE
            && let Ok(Some(piece)) = answer.chunk().await
        {
            message.extend_from_slice(&piece[..piece.len().min(MAX_MESSAGE)]);
        }
        let target = answer.headers().get(reqwest::header::LOCATION);
        let message = match target.filter(|_| status.is_redirection()) {
            Some(target) => format!("leads to {:?}", String::from_utf8_lossy(target.as_bytes())),
            None => String::from_utf8_lossy(&message).trim().to_owned(),
        };
        FetchError::Status {
            url: self.all().to_owned(),
            status: status.as_u16(),
            message: if message.is_empty() {
                message
            } else {
                format!(": {message}")
            },
        }
    }

    fn failed(&self, error: reqwest::Error) -> FetchError {
        FetchError::Request {
            url: self.all().to_owned(),
            problem: causes(&error.without_url()),
        }
    }

    fn writing(&self, source: io::Error) -> FetchError {
        FetchError::Write {
            url: self.all().to_owned(),
            source,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            timeout: Duration::from_mins(30),
            limit: 2 << 30,
        }
    }
}

impl FromStr for CatalogUrl {
    type Err = CatalogUrlError;

    fn from_str(text: &str) -> Result<Self, CatalogUrlError> {
        let mut all = Url::parse(text).map_err(|error| CatalogUrlError::Url {
            text: text.to_owned(),
            problem: error.to_string(),
        })?;
        if !all.username().is_empty()
            || all.password().is_some()
            || all.query().is_some()
            || all.fragment().is_some()
        {
            return Err(CatalogUrlError::Parts);
        }
        if !matches!(all.scheme(), "http" | "https") {
            return Err(CatalogUrlError::Scheme(text.to_owned()));
        }
        let path = all.path().trim_end_matches('/');
        let path = path.strip_suffix(ALL).unwrap_or(path);
        // Every catalog is below `/catalogs`.
        if path.is_empty() || path == "/catalogs" {
            return Err(CatalogUrlError::NoCatalog(text.to_owned()));
        }
        let path = format!("{path}{ALL}");
        all.set_path(&path);
        Ok(Self {
            text: text.to_owned(),
            all,
        })
    }
}

impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A client for one question.
fn client(settings: &Settings, direct: bool) -> Result<Client, FetchError> {
    // Fails when the program has chosen a provider already: then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
        // A catalog is where the user says, or it is said where else it is.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(settings.connect_timeout)
        .read_timeout(settings.idle_timeout)
        .tls_certs_merge(certificates(settings)?);
    if direct {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| FetchError::Setup(causes(&error)))
}

fn certificates(settings: &Settings) -> Result<Vec<reqwest::Certificate>, FetchError> {
    let mut all = Vec::new();
    for path in &settings.ca_files {
        let failed = |problem: String| {
            FetchError::Setup(format!("certificates {}: {problem}", path.display()))
        };
        let size = std::fs::metadata(path)
            .map_err(|error| failed(error.to_string()))?
            .len();
        if size > MAX_CERTIFICATES {
            return Err(failed(format!("larger than {MAX_CERTIFICATES} bytes")));
        }
        let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let found =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| failed(causes(&error)))?;
        all.extend(found);
    }
    Ok(all)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// An error with what it came from, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_names_a_catalog_and_nothing_else() {
        for (text, all) in [
            ("http://a/catalogs/b", "http://a/catalogs/b/api/v1/all"),
            (
                "https://a:1/x/catalogs/b/",
                "https://a:1/x/catalogs/b/api/v1/all",
            ),
            (
                "http://a/catalogs/b/api/v1/all",
                "http://a/catalogs/b/api/v1/all",
            ),
        ] {
            let url: CatalogUrl = text.parse().unwrap();
            assert_eq!(url.all(), all);
            assert_eq!(url.to_string(), text);
        }
        for text in [
            "http://a",
            "http://a/",
            "http://a/api/v1/all",
            "ftp://a/catalogs/b",
            "http://me@a/catalogs/b",
            "http://a/catalogs/b?x",
            "http:",
        ] {
            assert!(text.parse::<CatalogUrl>().is_err(), "{text}");
        }
    }

    /// What is received when this is the answer, and what was asked.
    fn fetched(answer: Vec<u8>, settings: &Settings) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut question = Vec::new();
            while !question.ends_with(b"\r\n\r\n") {
                let mut piece = [0; 1024];
                let length = connection.read(&mut piece).unwrap();
                assert!(length > 0, "the question is cut");
                question.extend_from_slice(&piece[..length]);
            }
            // Whoever has seen enough closes the connection.
            let _ = connection.write_all(&answer);
            String::from_utf8(question).unwrap()
        });
        let url: CatalogUrl = format!("http://{address}/catalogs/a").parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut out = Vec::new();
        let fetched = runtime.block_on(url.fetch(settings, &mut out));
        let question = answering.join().unwrap();
        assert!(
            question.starts_with("GET /catalogs/a/api/v1/all HTTP/1.1\r\n"),
            "{question}"
        );
        fetched.map(|()| out).map_err(|error| error.to_string())
    }

    fn answer(head: &str, body: &[u8]) -> Vec<u8> {
        let length = body.len();
        let head = format!("HTTP/1.1 {head}Content-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    }

    fn packed(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_catalog_comes_plain_or_packed() {
        let settings = Settings::default();
        let plain = answer("200 OK\r\n", b"catalog");
        assert_eq!(fetched(plain, &settings).unwrap(), b"catalog");
        let packed = answer("200 OK\r\nContent-Encoding: gzip\r\n", &packed(b"catalog"));
        assert_eq!(fetched(packed, &settings).unwrap(), b"catalog");
    }

    #[test]
    fn a_cut_or_wrong_answer_is_an_error() {
        let settings = Settings::default();
        let whole = packed(&b"catalog".repeat(100));
        let gzip = "200 OK\r\nContent-Encoding: gzip\r\n";
        for bad in [
            answer(gzip, &whole[..whole.len() - 4]),
            answer(gzip, b"catalog"),
            answer("200 OK\r\nContent-Encoding: br\r\n", b"catalog"),
            answer("200 OK\r\n", b"catalog")[..40].to_vec(),
            answer("204 No Content\r\n", b""),
        ] {
            assert!(fetched(bad, &settings).is_err());
        }
        let error = fetched(answer("404 Not Found\r\n", b"no such\n"), &settings);
        assert!(error.unwrap_err().ends_with("all: 404: no such"));
        let elsewhere = answer("302 Found\r\nLocation: http://b/\r\n", b"");
        let error = fetched(elsewhere, &settings).unwrap_err();
        assert!(error.ends_with("302: leads to \"http://b/\""), "{error}");
    }

    #[test]
    fn size_and_time_are_bounded() {
        let settings = Settings {
            limit: 6,
            ..Settings::default()
        };
        let error = fetched(answer("200 OK\r\n", b"catalog"), &settings).unwrap_err();
        assert!(error.contains("limit of 6"), "{error}");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/catalogs/a", listener.local_addr().unwrap());
        let settings = Settings {
            timeout: Duration::from_millis(50),
            ..Settings::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let url: CatalogUrl = url.parse().unwrap();
        let error = runtime.block_on(url.fetch(&settings, io::sink()));
        assert!(
            matches!(error, Err(FetchError::Timeout { .. })),
            "{error:?}"
        );
    }
}
