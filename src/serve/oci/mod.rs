//! The pull half of the OCI distribution API (`/v2/`), for the images of all
//! catalogs.
//!
//! `path` reads what is asked for, `repository` finds it, `content` sends
//! manifests and blobs, `listing` lists, `gate` decides who may pull what.
//! Nothing can be pushed. What is sent are slices of stored files, byte for
//! byte; what an image is made of is left to `ingest`.

mod content;
mod gate;
mod listing;
mod path;
mod refusal;
mod repository;
mod token;
mod users;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use metrics::{counter, histogram};
use serde_json::json;

use crate::name::CatalogName;
use crate::serve::Peer;
use crate::serve::net::in_flight::Answer;
use crate::snapshot::Images;
use content::Content;
use listing::Parameters;
use path::{Asked, Version};
use refusal::Refusal;
use repository::Repository;

pub use gate::{Flow, Gate, GateSettings};
pub use users::Users;

/// How much of a path is logged, in characters.
const MAX_PATH: usize = 256;
/// How long a `Host` may be to be repeated.
const MAX_HOST: usize = 300;

/// What answers questions.
struct Registry {
    images: Images,
    gate: Gate,
    /// Whether the port has TLS.
    secure: bool,
}

/// The routes below `/v2/`; `secure` says whether the port has TLS.
pub fn router(images: Images, gate: Gate, secure: bool) -> Router {
    let registry = Arc::new(Registry {
        images,
        gate,
        secure,
    });
    Router::new()
        .route("/v2", any(answer))
        .route("/v2/", any(answer))
        .route("/v2/{*path}", any(answer))
        .with_state(registry)
}

/// Answers, counts and logs.
async fn answer(State(registry): State<Arc<Registry>>, request: Request) -> Response {
    let began = Instant::now();
    // Nothing is asked with a body; one that comes is let be.
    let (request, _) = request.into_parts();
    let sending: Option<Arc<Answer>> = request.extensions.get().cloned();
    let peer: Option<Peer> = request.extensions.get().copied();
    let path = request.uri.path();
    let shown: String = path.chars().take(MAX_PATH).collect();
    let asked = Asked::read(path.strip_prefix("/v2/").unwrap_or_default());
    let method = match request.method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let route = match &asked {
        Ok(asked) => asked.route(),
        Err(_) => "/v2/*",
    };
    let mut response = registry
        .respond(asked, &request, peer.as_ref())
        .await
        .unwrap_or_else(Refusal::into_response);
    let headers = response.headers_mut();
    headers.insert(
        "docker-distribution-api-version",
        HeaderValue::from_static("registry/2.0"),
    );
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    let code = response.status().as_u16();
    let labels = [
        ("method", method.to_owned()),
        ("route", route.to_owned()),
        ("code", code.to_string()),
        ("catalog", String::new()),
        ("encoding", "identity".to_owned()),
    ];
    counter!("almanac_http_requests_total", &labels).increment(1);
    histogram!("almanac_http_request_seconds", &labels[1..]).record(began.elapsed().as_secs_f64());
    if let Some(sending) = sending {
        sending.report(move |sent| {
            counter!("almanac_http_sent_bytes_total", &labels[1..]).increment(sent.bytes);
            tracing::debug!(
                target: "almanac::access",
                method,
                path = shown,
                code,
                peer = peer.map(|peer| tracing::field::display(peer.address)),
                bytes = sent.bytes,
                elapsed = ?sent.elapsed,
                "request"
            );
        });
    }
    response
}

impl Asked {
    fn route(&self) -> &'static str {
        match self {
            Self::Ping => "/v2/",
            Self::Repositories => "/v2/_catalog",
            Self::Token => "/v2/token",
            Self::Manifest(..) => "/v2/{name}/manifests/{reference}",
            Self::Blob(..) => "/v2/{name}/blobs/{digest}",
            Self::Tags(_) => "/v2/{name}/tags/list",
            Self::Referrers(..) => "/v2/{name}/referrers/{digest}",
        }
    }
}

impl Registry {
    async fn respond(
        &self,
        asked: Result<Asked, Refusal>,
        request: &Parts,
        peer: Option<&Peer>,
    ) -> Result<Response, Refusal> {
        let method = &request.method;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Refusal::Method);
        }
        let asked = asked?;
        let headers = &request.headers;
        let here = self.here(request);
        let parameters = Parameters::read(request.uri.query().unwrap_or_default());
        let caller = self.gate.caller(headers, peer).await?;
        let (name, namespace) = match &asked {
            Asked::Ping => {
                if self.gate.asks() && !self.gate.knows(&caller) {
                    return Err(self.gate.refusal(None, &[], &here));
                }
                let none = HeaderMap::new();
                return Ok(listing::document(
                    method,
                    "application/json",
                    none,
                    &json!({}),
                ));
            }
            Asked::Repositories => {
                let names = Repository::names(&self.images).into_iter();
                let names = names.filter(|(_, catalog)| self.gate.admits(&caller, catalog));
                let names: Vec<String> = names.map(|(name, _)| name).collect();
                if names.is_empty() && self.gate.asks() && !self.gate.knows(&caller) {
                    return Err(self.gate.refusal(None, &[], &here));
                }
                return listing::repositories(&names, &parameters, method);
            }
            Asked::Token => return self.token(&caller, &parameters, method),
            Asked::Manifest(name, _)
            | Asked::Blob(name, _)
            | Asked::Tags(name)
            | Asked::Referrers(name, _) => (name, Self::namespace(&parameters, &here)),
        };
        let mut repository = self.repository(name, namespace, &caller, &here)?;
        repository.retain(|catalog| self.gate.admits(&caller, catalog));
        let mut response = Self::of_repository(&asked, &repository, &parameters, request)?;
        if let Some(namespace) = namespace {
            let namespace = content::text(namespace.to_owned());
            response.headers_mut().insert("oci-namespace", namespace);
        }
        Ok(response)
    }

    /// The repository of a name, when the caller may have anything of it.
    fn repository(
        &self,
        name: &str,
        namespace: Option<&str>,
        caller: &gate::Caller,
        here: &str,
    ) -> Result<Repository, Refusal> {
        let found = Repository::find(&self.images, name, namespace);
        let catalogs: Vec<CatalogName> = match &found {
            Some(repository) => repository.catalogs().cloned().collect(),
            None => Vec::new(),
        };
        let admits = |catalog| self.gate.admits(caller, catalog);
        match found {
            Some(found) if catalogs.iter().any(admits) => Ok(found),
            Some(_) => Err(self.gate.refusal(Some(name), &catalogs, here)),
            None if self.gate.asks() && !self.gate.knows(caller) => {
                // Whoever is not known learns nothing of what there is not.
                Err(self.gate.refusal(Some(name), &[], here))
            }
            None => Err(Refusal::UnknownName(name.to_owned())),
        }
    }

    fn of_repository(
        asked: &Asked,
        repository: &Repository,
        parameters: &Parameters,
        request: &Parts,
    ) -> Result<Response, Refusal> {
        let (method, headers) = (&request.method, &request.headers);
        match asked {
            Asked::Manifest(_, version) => {
                let (digest, fixed, shown) = match version {
                    Version::Tag(tag) => {
                        let found = repository.tags().get(tag.as_str()).copied();
                        let waiting = repository.is_waiting() || repository.is_partial();
                        if found.is_none() && waiting {
                            return Err(Refusal::NotMade);
                        }
                        if found.is_none() && repository.is_ambiguous(tag) {
                            return Err(Refusal::Ambiguous(tag.clone()));
                        }
                        (found, false, tag.clone())
                    }
                    Version::Digest(digest) => (Some(*digest), true, digest.to_string()),
                    Version::Other(text) => (None, true, text.clone()),
                };
                let found = digest.and_then(|digest| repository.manifest(&digest));
                let (manifest, bytes) = found.ok_or(Refusal::UnknownManifest(shown))?;
                let content = Content {
                    digest: manifest.digest,
                    media_type: &manifest.media_type,
                    bytes,
                    fixed,
                };
                content.respond(method, headers)
            }
            Asked::Blob(_, digest) => {
                let unknown = |text: String| Refusal::UnknownBlob(text);
                let digest = digest.clone().map_err(unknown)?;
                let found = repository.blob(&digest);
                let bytes = found.ok_or_else(|| unknown(digest.to_string()))?;
                let content = Content {
                    digest,
                    media_type: "application/octet-stream",
                    bytes,
                    fixed: true,
                };
                content.respond(method, headers)
            }
            Asked::Tags(name) => {
                if repository.is_waiting() {
                    return Err(Refusal::NotMade);
                }
                listing::tags(name, repository, parameters, method)
            }
            Asked::Referrers(name, subject) => {
                let subject = subject.as_ref().ok().copied();
                let list = listing::referrers(name, repository, subject, parameters, method);
                Ok(list)
            }
            Asked::Ping | Asked::Repositories | Asked::Token => Err(Refusal::Path),
        }
    }

    /// A token for what the caller may pull of what it asks for (Docker
    /// registry, "token authentication specification").
    fn token(
        &self,
        caller: &gate::Caller,
        parameters: &Parameters,
        method: &Method,
    ) -> Result<Response, Refusal> {
        if !self.gate.gives_tokens() {
            return Err(Refusal::Path);
        }
        if caller.has_shown() && !self.gate.knows(caller) {
            return Err(Refusal::Unauthorized(Gate::basic_challenge()));
        }
        let mut granted = BTreeSet::new();
        for scope in &parameters.scopes {
            let name = scope.strip_prefix("repository:");
            let name = name.and_then(|rest| rest.rsplit_once(':'));
            let pull = |actions: &str| actions.split(',').any(|a| a == "pull" || a == "*");
            let Some((name, _)) = name.filter(|(_, actions)| pull(actions)) else {
                continue;
            };
            if let Some(repository) = Repository::find(&self.images, name, None) {
                let catalogs = repository.catalogs();
                let good = catalogs.filter(|catalog| self.gate.admits(caller, catalog));
                granted.extend(good.map(ToString::to_string));
            }
        }
        let token = self.gate.token(granted);
        let issued = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
        let answer = json!({
            "token": token,
            "access_token": token,
            "expires_in": token::LIFETIME,
            "issued_at": issued.to_string(),
        });
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        );
        Ok(listing::document(
            method,
            "application/json",
            headers,
            &answer,
        ))
    }

    /// The registry that a client means: nothing when it means this one.
    fn namespace<'a>(parameters: &'a Parameters, here: &str) -> Option<&'a str> {
        let namespace = parameters.namespace.as_deref()?;
        let own = here.split_once("://").map(|(_, host)| host);
        (Some(namespace) != own).then_some(namespace)
    }

    /// The address that a client has reached this registry by. Behind a proxy
    /// with TLS, that is the proxy's; nobody but the client itself would be
    /// misled by another.
    fn here(&self, request: &Parts) -> String {
        let headers = &request.headers;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let proxy = header("x-forwarded-proto") == Some("https");
        let scheme = if self.secure || proxy {
            "https"
        } else {
            "http"
        };
        let authority = request.uri.authority().map(http::uri::Authority::as_str);
        let host = authority.or_else(|| header(HOST.as_str()));
        let good = |host: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
            host.len() <= MAX_HOST && host.bytes().all(plain)
        };
        format!("{scheme}://{}", host.filter(good).unwrap_or("localhost"))
    }
}
