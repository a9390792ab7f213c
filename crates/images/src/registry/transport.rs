//! HTTP under the registry client: which scheme, which certificates, which
//! proxy, which redirects, how much of an answer.
//!
//! Redirects are followed here and not by the HTTP library, because what may
//! be sent along (never credentials to another host) and where to (never from
//! https down to http) is a matter of registries.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Response, Url};

use crate::error::{Error, Message, redacted, retry_after};
use crate::files::FileError;
use crate::reference::Reference;
use crate::registry::certificates::{Certificates, Chosen, Loaded};
use crate::registry::client::Settings;

/// The most redirects that are followed for one request.
const MAX_REDIRECTS: usize = 8;
/// The largest error document that is looked at, in bytes.
const MAX_ERROR_DOCUMENT: usize = 64 << 10;
/// The most HTTP clients that are kept: one for all hosts without files of
/// their own, and one for each with such.
const MAX_CLIENTS: usize = 64;

/// One request.
pub(crate) struct Request<'a> {
    /// The image it is made for.
    pub(crate) reference: &'a Reference,
    /// The method.
    pub(crate) method: Method,
    /// Where to.
    pub(crate) url: Url,
    /// The media types that are taken.
    pub(crate) accept: &'static str,
    /// Credentials, for the host of `url` only.
    pub(crate) authorization: Option<HeaderValue>,
    /// What else the request says: a range, a condition.
    pub(crate) headers: HeaderMap,
    /// A form to send.
    pub(crate) form: Option<String>,
}

/// How sure to be of whom a registry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    /// https with a certificate that is trusted; plain http only where the
    /// settings say so, and on this machine.
    #[default]
    Verified,
    /// https with any certificate.
    Unverified,
    /// Plain http.
    Plain,
}

/// The HTTP clients and the rules about whom they may speak to. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Transport {
    shared: Arc<Shared>,
    security: Security,
}

struct Shared {
    settings: Settings,
    insecure: Vec<String>,
    certificates: Certificates,
    clients: Mutex<HashMap<Kind, reqwest::Client>>,
}

/// What two HTTP clients differ in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    direct: bool,
    unverified: bool,
    certificates: Chosen,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        // Fails when the program has chosen a provider already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = Certificates::new(&settings.ca_files, &settings.certificate_folders);
        let insecure = settings.insecure.iter();
        let insecure = insecure.map(|name| name.to_ascii_lowercase()).collect();
        let shared = Shared {
            settings: settings.clone(),
            insecure,
            certificates,
            clients: Mutex::default(),
        };
        // What is wrong with the bundles shows at the start.
        let setup = |source: FileError| Error::Setup {
            problem: causes(&source),
        };
        let chosen = shared.certificates.choose(&[], "").map_err(setup)?;
        let kind = Kind {
            direct: false,
            unverified: false,
            certificates: chosen,
        };
        let client = shared.build(&kind).map_err(|error| match error {
            BuildError::File(source) => setup(source),
            BuildError::Client(problem) => Error::Setup { problem },
        })?;
        shared.lock().insert(kind, client);
        Ok(Self {
            shared: Arc::new(shared),
            security: Security::default(),
        })
    }

    /// The same, as sure of its peers as it is told to be.
    pub(crate) fn secured(&self, security: Security) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            security,
        }
    }

    /// The address of `path` under the API of the reference's registry.
    pub(crate) fn url(&self, reference: &Reference, path: &str) -> Result<Url, Error> {
        let host = match reference.registry() {
            // The one registry whose API has another host than its references.
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let parse = |scheme: &str| {
            let text = format!("{scheme}://{host}/v2/{}/{path}", reference.repository());
            Url::parse(&text).map_err(|_| Error::Host {
                reference: reference.clone(),
            })
        };
        let secure = parse("https")?;
        let plain = match self.security {
            Security::Unverified => false,
            Security::Plain => true,
            Security::Verified => {
                // Who keeps certificates for a host has it speak TLS.
                let local =
                    || is_loopback(&secure) && self.shared.certificates.folder(host).is_none();
                self.is_insecure(host) || local()
            }
        };
        if plain { parse("http") } else { Ok(secure) }
    }

    /// Whether a request for something that began at `origin` may go to `url`:
    /// https always, plain http only when the beginning was plain as well or
    /// the host is a registry that is marked insecure.
    pub(crate) fn may_ask(&self, origin: &Url, url: &Url) -> Result<(), &'static str> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it carries a user or password");
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if origin.scheme() == "http" || self.is_insecure(&authority(url)) => Ok(()),
            "http" => Err("it leads from https to http"),
            _ => Err("it is neither https nor http"),
        }
    }

    /// Sends a request and follows redirects; an answer of any status comes
    /// back. Credentials go to the host of the request's URL and to no other.
    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Response, Error> {
        let Request {
            reference,
            method,
            url: origin,
            ..
        } = &request;
        let mut url = origin.clone();
        for _ in 0..=MAX_REDIRECTS {
            let client = self.client(reference, &url).await?;
            let mut builder = client
                .request(method.clone(), url.clone())
                .headers(request.headers.clone())
                .header(ACCEPT, request.accept);
            if let Some(authorization) = &request.authorization
                && same_origin(origin, &url)
            {
                builder = builder.header(AUTHORIZATION, authorization.clone());
            }
            if let Some(form) = &request.form {
                builder = builder
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form.clone());
            }
            let response = builder
                .send()
                .await
                .map_err(|error| Error::of_transport(reference, &url, error))?;
            tracing::debug!(%method, url = redacted(&url), status = response.status().as_u16(), "asked registry");
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            // A form may hold a secret, so it goes to the first address only.
            if !is_redirect || request.form.is_some() {
                return Ok(response);
            }
            url = self.redirect(reference, origin, &url, &response)?;
        }
        Err(Error::Redirect {
            reference: (*reference).clone(),
            url: redacted(origin),
            problem: "there are too many",
        })
    }

    fn redirect(
        &self,
        reference: &Reference,
        origin: &Url,
        from: &Url,
        response: &Response,
    ) -> Result<Url, Error> {
        let refused = |problem| Error::Redirect {
            reference: reference.clone(),
            url: redacted(from),
            problem,
        };
        let target = response.headers().get(LOCATION);
        let target = target
            .and_then(|target| target.to_str().ok())
            .and_then(|target| from.join(target).ok())
            .ok_or_else(|| refused("it names no URL"))?;
        self.may_ask(origin, &target).map_err(refused)?;
        Ok(target)
    }

    fn is_insecure(&self, authority: &str) -> bool {
        self.shared.insecure.iter().any(|name| name == authority)
    }

    /// The HTTP client for a request to `url` that is made for `reference`:
    /// the authorities of the registry's folder count wherever it sends us,
    /// and a certificate is shown to its own host alone.
    async fn client(&self, reference: &Reference, url: &Url) -> Result<reqwest::Client, Error> {
        let registry = self.url(reference, "")?;
        let own = if same_origin(&registry, url) {
            reference.registry().to_owned()
        } else {
            authority(url)
        };
        let (trusted, secure) = (reference.registry().to_owned(), url.scheme() == "https");
        let (direct, unverified) = (is_loopback(url), self.security == Security::Unverified);
        let shared = Arc::clone(&self.shared);
        let choosing = tokio::task::spawn_blocking(move || {
            let both = [trusted.as_str(), own.as_str()];
            let hosts = if trusted == own {
                &both[..1]
            } else {
                &both[..]
            };
            let certificates = if secure {
                shared.certificates.choose(hosts, &own)?
            } else {
                Chosen::default()
            };
            let kind = Kind {
                direct,
                unverified,
                certificates,
            };
            if let Some(client) = shared.lock().get(&kind) {
                return Ok(client.clone());
            }
            let client = shared.build(&kind)?;
            let mut clients = shared.lock();
            if clients.len() >= MAX_CLIENTS {
                clients.clear();
            }
            clients.insert(kind, client.clone());
            Ok(client)
        });
        let chosen = choosing
            .await
            .unwrap_or_else(|error| Err(BuildError::Client(format!("almanac failed: {error}"))));
        chosen.map_err(|error| match error {
            BuildError::File(source) => Error::File {
                reference: reference.clone(),
                source,
            },
            BuildError::Client(problem) => Error::Setup { problem },
        })
    }
}

/// Why there is no HTTP client.
enum BuildError {
    File(FileError),
    Client(String),
}

impl From<FileError> for BuildError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl Shared {
    fn build(&self, kind: &Kind) -> Result<reqwest::Client, BuildError> {
        let Loaded {
            authorities,
            identity,
        } = kind.certificates.load()?;
        let builder = || {
            let declined = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let builder = reqwest::Client::builder()
                .user_agent(concat!("almanac/", env!("CARGO_PKG_VERSION")))
                .default_headers(HeaderMap::from_iter([declined]))
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(self.settings.connect_timeout)
                .read_timeout(self.settings.idle_timeout)
                .tls_danger_accept_invalid_certs(kind.unverified)
                .tls_certs_merge(authorities.iter().cloned());
            let builder = match &identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            };
            if kind.direct {
                builder.no_proxy()
            } else {
                builder
            }
        };
        let built = builder().build().or_else(|error| {
            // A machine without any trusted certificate can still speak
            // plain http, and https to whom its authorities vouch for.
            tracing::warn!(error = %causes(&error), "no system certificates are trusted");
            builder()
                .tls_certs_only(authorities.iter().cloned())
                .build()
        });
        built.map_err(|error| BuildError::Client(causes(&error)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, reqwest::Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of an answer that is no success, with the registry's own words.
pub(crate) async fn refusal(
    reference: &Reference,
    response: Response,
    with_credentials: bool,
) -> Error {
    let status = response.status();
    let retry_after = retry_after(response.headers(), SystemTime::now());
    let url = redacted(response.url());
    let body = body(reference, response, MAX_ERROR_DOCUMENT).await;
    Error::Status {
        reference: reference.clone(),
        url,
        status,
        message: Message::parse(&body.unwrap_or_default()),
        retry_after,
        with_credentials,
    }
}

/// The whole of an answer, when it has at most `limit` bytes.
pub(crate) async fn body(
    reference: &Reference,
    mut response: Response,
    limit: usize,
) -> Result<Bytes, Error> {
    let url = response.url().clone();
    let too_large = || Error::TooLarge {
        reference: reference.clone(),
        url: redacted(&url),
        limit,
    };
    if response
        .content_length()
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    loop {
        let chunk = response.chunk().await;
        match chunk.map_err(|error| Error::of_transport(reference, &url, error))? {
            None => return Ok(bytes.freeze()),
            Some(chunk) if chunk.len() > limit - bytes.len() => return Err(too_large()),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}

/// Whether the answer is a plain success with a body.
pub(crate) fn is_ok(response: &Response) -> bool {
    response.status() == StatusCode::OK
}

/// Whether both URLs are of one scheme, host and port.
pub(crate) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
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
    use super::*;

    fn transport(insecure: &[&str]) -> Transport {
        Transport::new(&Settings {
            insecure: insecure.iter().map(|name| (*name).to_owned()).collect(),
            ..Settings::default()
        })
        .unwrap()
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn only_loopback_and_named_registries_are_spoken_to_in_plain() {
        let transport = transport(&["Registry.example:5000", "plain.example"]);
        for (image, begin) in [
            ("quay.io/a", "https://quay.io/v2/a/x"),
            (
                "docker.io/library/a",
                "https://registry-1.docker.io/v2/library/a/x",
            ),
            (
                "registry.example:5000/a",
                "http://registry.example:5000/v2/a/x",
            ),
            (
                "registry.example:5001/a",
                "https://registry.example:5001/v2/a/x",
            ),
            ("registry.example/a", "https://registry.example/v2/a/x"),
            ("plain.example/a", "http://plain.example/v2/a/x"),
            ("localhost:443/a", "http://localhost:443/v2/a/x"),
            ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2/a/x"),
            ("127.1.2.3/a", "http://127.1.2.3/v2/a/x"),
            ("[::1]:5000/a", "http://[::1]:5000/v2/a/x"),
            ("localhost.example/a", "https://localhost.example/v2/a/x"),
            ("10.0.0.1/a", "https://10.0.0.1/v2/a/x"),
        ] {
            let url = transport.url(&image.parse().unwrap(), "x").unwrap();
            assert_eq!(url.as_str(), begin);
        }
    }

    #[test]
    fn a_redirect_never_leads_down_to_plain_http() {
        let transport = transport(&["plain.example"]);
        let origin = url("https://quay.io/v2/");
        assert!(
            transport
                .may_ask(&origin, &url("https://cdn.example/x?sig=1"))
                .is_ok()
        );
        assert!(
            transport
                .may_ask(&origin, &url("http://plain.example/x"))
                .is_ok()
        );
        assert!(
            transport
                .may_ask(&url("http://127.0.0.1/"), &url("http://127.0.0.1:1/"))
                .is_ok()
        );
        for bad in [
            "http://cdn.example/x",
            "http://127.0.0.1/x",
            "ftp://cdn.example/x",
            "file:///etc/passwd",
            "https://me:secret@cdn.example/x",
        ] {
            assert!(transport.may_ask(&origin, &url(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_that_makes_no_url_is_told() {
        let url = transport(&[]).url(&"256.1.1.1/a".parse().unwrap(), "x");
        assert!(matches!(url, Err(Error::Host { .. })));
    }

    #[tokio::test]
    async fn an_https_request_to_something_else_fails_as_tls() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let page = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, page)
                .await
                .unwrap();
        });
        let reference = "localhost/a".parse().unwrap();
        let request = Request {
            reference: &reference,
            method: Method::GET,
            url: url(&format!("https://{address}/")),
            accept: "*/*",
            authorization: None,
            headers: HeaderMap::new(),
            form: None,
        };
        let error = transport(&[]).send(request).await.unwrap_err();
        assert_eq!(error.reason(), "tls", "{error:?}");
    }

    #[test]
    fn another_port_or_scheme_is_another_origin() {
        let one = url("https://quay.io/a");
        assert!(same_origin(&one, &url("https://quay.io:443/b?c")));
        for other in [
            "http://quay.io/a",
            "https://quay.io:8443/a",
            "https://cdn.quay.io/a",
        ] {
            assert!(!same_origin(&one, &url(other)), "{other}");
        }
    }

    #[test]
    fn certificates_that_are_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for content in [None, Some(""), Some("no pem")] {
            let path = folder.path().join("ca.pem");
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let settings = Settings {
                ca_files: vec![path],
                ..Settings::default()
            };
            let error = Transport::new(&settings).err().unwrap().to_string();
            assert!(error.contains("ca.pem"), "{error}");
        }
    }
}
