//! The registry: the routes below `/v2/`. It parses a request's credentials, finds its
//! repository, responds, counts and logs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use tokio::time::Instant;

use crate::name::CatalogName;
use crate::serve::access::count_denied;
use crate::serve::fields::{header, origin};
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::serve::observed::Observed;
use crate::serve::oci::authorizer::{Authorizer, Caller};
use crate::serve::oci::content::{self, Content};
use crate::serve::oci::listing::{self, Parameters};
use crate::serve::oci::path::{ManifestReference, OciRequest};
use crate::serve::oci::rejection::OciRejection;
use crate::serve::oci::repository::Repository;
use crate::serve::oci::token::{self, Repositories};
use crate::snapshot::Images;
use crate::store::content::OpenBlob;

/// The routes below `/v2/`; `secure` says whether the port has TLS.
pub fn router(images: Images, authorizer: Authorizer, secure: bool) -> Router {
    let registry = Arc::new(Registry {
        images,
        authorizer,
        secure,
    });
    Router::new()
        .route("/v2", any(respond))
        .route("/v2/", any(respond))
        .route("/v2/{*path}", any(respond))
        .with_state(registry)
}

/// Responds, counts and logs.
async fn respond(State(registry): State<Arc<Registry>>, request: Request) -> Response {
    let began = Instant::now();
    // No request has a body; one that comes is ignored.
    let (request, _) = request.into_parts();
    let in_flight: Option<Arc<InFlight>> = request.extensions.get().cloned();
    let peer: Option<Peer> = request.extensions.get().copied();
    let path = request.uri.path();
    // `/v2` is the same as `/v2/`.
    let parsed = OciRequest::read(path.strip_prefix("/v2/").unwrap_or_default());
    let route = parsed.as_ref().map_or("/v2/*", OciRequest::route);
    let mut response = registry
        .respond(parsed, &request, peer.as_ref())
        .await
        .unwrap_or_else(OciRejection::into_response);
    let headers = response.headers_mut();
    headers.insert(
        "docker-distribution-api-version",
        HeaderValue::from_static("registry/2.0"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let observed = Observed {
        began,
        method: &request.method,
        route,
        catalog: None,
        path,
    };
    observed.responded(&response, in_flight.as_ref(), peer);
    response
}

/// The registry of all catalogs.
struct Registry {
    images: Images,
    authorizer: Authorizer,
    /// Whether the port has TLS.
    secure: bool,
}

impl Registry {
    /// The response to a request.
    async fn respond(
        &self,
        parsed: Result<OciRequest, OciRejection>,
        request: &Parts,
        peer: Option<&Peer>,
    ) -> Result<Response, OciRejection> {
        let method = &request.method;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(OciRejection::Method);
        }
        let parsed = parsed?;
        let headers = &request.headers;
        let here = origin(request, self.secure);
        let parameters = Parameters::read(request.uri.query().unwrap_or_default());
        let caller = self.authorizer.caller(headers, peer).await?;
        let (name, namespace) = match &parsed {
            OciRequest::Ping => {
                if !self.tells(&caller) && !caller.has_token() {
                    return Err(self.authorizer.unauthorized(None, &here));
                }
                return Ok(listing::document(method, HeaderMap::new(), &json!({})));
            }
            OciRequest::Repositories => {
                let names = Repository::names(&self.images).into_iter();
                let admits = |(name, catalog): &(String, CatalogName)| {
                    self.authorizer.admits(&caller, name, catalog)
                };
                let names: Vec<_> = names.filter(admits).map(|(name, _)| name).collect();
                if names.is_empty() && !self.tells(&caller) {
                    return Err(self.authorizer.unauthorized(None, &here));
                }
                return listing::repositories(&names, &parameters, method);
            }
            OciRequest::Token => {
                return self.token(&caller.without_token(), &parameters, method);
            }
            OciRequest::Manifest(name, _)
            | OciRequest::Blob(name, _)
            | OciRequest::Tags(name)
            | OciRequest::Referrers(name, _) => (name, Self::namespace(&parameters, &here)),
        };
        let repository = self.repository(name, namespace, &caller, &here)?;
        let answer = Self::of_repository(&parsed, &repository, &parameters, request).await;
        let mut response = match answer {
            Err(rejection) => {
                let elsewhere = self.elsewhere(&parsed, &repository, request).await;
                elsewhere.ok_or(rejection)?
            }
            answer => answer?,
        };
        if let Some(namespace) = namespace {
            let namespace = header(namespace.to_owned());
            response.headers_mut().insert("oci-namespace", namespace);
        }
        Ok(response)
    }

    /// The part of a repository that the caller may pull. A repository without such a part
    /// is answered like one that does not exist.
    fn repository(
        &self,
        name: &str,
        namespace: Option<&str>,
        caller: &Caller,
        here: &str,
    ) -> Result<Repository, OciRejection> {
        if let Some(mut found) = Repository::find(&self.images, name, namespace) {
            let admits = |catalog: &CatalogName| self.authorizer.admits(caller, name, catalog);
            if found.catalogs().any(admits) {
                found.retain(admits);
                return Ok(found);
            }
            for catalog in found.catalogs() {
                count_denied(catalog.as_str());
            }
        }
        if !self.tells(caller) && !self.authorizer.was_open(name) {
            return Err(self.authorizer.unauthorized(Some(name), here));
        }
        Err(OciRejection::UnknownName {
            name: name.to_owned(),
            restricted: self.authorizer.requires_any(),
        })
    }

    /// Whether the caller may know which repositories exist.
    fn tells(&self, caller: &Caller) -> bool {
        !self.authorizer.requires_any() || self.authorizer.knows(caller)
    }

    /// A part of an image that another replica has shown, by digest. Ranges of it are not sent:
    /// its bytes are compared with its digest on their way.
    async fn elsewhere(
        &self,
        parsed: &OciRequest,
        repository: &Repository,
        request: &Parts,
    ) -> Option<Response> {
        let (digest, is_manifest) = match parsed {
            OciRequest::Manifest(_, ManifestReference::Digest(digest)) => (*digest, true),
            OciRequest::Blob(_, digest) => (*digest.as_ref().ok()?, false),
            _ => return None,
        };
        let elsewhere = self.images.elsewhere()?;
        for catalog in repository.catalogs() {
            let found = elsewhere.part(catalog, digest).await;
            let found = found.inspect_err(|error| {
                tracing::warn!(%catalog, %digest, %error, "cannot read a part of an image");
            });
            if let Ok(Some(part)) = found
                && part.media_type.is_some() == is_manifest
            {
                return Some(content::remote(digest, part, &request.method));
            }
        }
        None
    }

    async fn of_repository(
        parsed: &OciRequest,
        repository: &Repository,
        parameters: &Parameters,
        request: &Parts,
    ) -> Result<Response, OciRejection> {
        let (method, headers) = (&request.method, &request.headers);
        match parsed {
            OciRequest::Manifest(_, version) => {
                let (digest, fixed, shown) = match version {
                    ManifestReference::Tag(tag) => {
                        let found = repository.tag(tag);
                        let waiting = repository.is_waiting() || repository.is_partial();
                        if found.is_none() && waiting {
                            return Err(OciRejection::NotMade);
                        }
                        if found.is_none() && repository.is_ambiguous(tag) {
                            return Err(OciRejection::Ambiguous(tag.clone()));
                        }
                        (found, false, tag.clone())
                    }
                    ManifestReference::Digest(digest) => (Some(*digest), true, digest.to_string()),
                    ManifestReference::Other(text) => (None, true, text.clone()),
                };
                let found = digest.and_then(|digest| repository.manifest(&digest));
                let (manifest, blob) = found.ok_or(OciRejection::UnknownManifest(shown))?;
                let content = Content {
                    digest: manifest.digest,
                    media_type: &manifest.media_type,
                    bytes: verified(&blob, repository).await?,
                    fixed,
                };
                content.respond(method, headers)
            }
            OciRequest::Blob(_, digest) => {
                let unknown = |text: String| OciRejection::UnknownBlob(text);
                let digest = digest.clone().map_err(unknown)?;
                let found = repository.blob(&digest);
                let blob = found.ok_or_else(|| unknown(digest.to_string()))?;
                let content = Content {
                    digest,
                    media_type: "application/octet-stream",
                    bytes: verified(&blob, repository).await?,
                    fixed: true,
                };
                content.respond(method, headers)
            }
            OciRequest::Tags(name) => {
                if repository.is_waiting() {
                    return Err(OciRejection::NotMade);
                }
                listing::tags(name, repository, parameters, method)
            }
            OciRequest::Referrers(name, subject) => {
                let subject = subject.as_ref().ok().copied();
                let list = listing::referrers(name, repository, subject, parameters, method);
                Ok(list)
            }
            OciRequest::Ping | OciRequest::Repositories | OciRequest::Token => {
                Err(OciRejection::Path)
            }
        }
    }

    /// A token for those of the requested repositories that the caller may pull
    /// (Docker registry, "token authentication specification"). It is given for
    /// credentials and never for a token, so that it ends soon after its user is
    /// removed.
    fn token(
        &self,
        caller: &Caller,
        parameters: &Parameters,
        method: &Method,
    ) -> Result<Response, OciRejection> {
        if !self.authorizer.gives_tokens() {
            return Err(OciRejection::Path);
        }
        if caller.has_credentials() && !self.authorizer.knows(caller) {
            return Err(OciRejection::Unauthorized(Authorizer::basic_challenge()));
        }
        let mut granted = Repositories::new();
        for scope in &parameters.scopes {
            let name = scope.strip_prefix("repository:");
            let name = name.and_then(|rest| rest.rsplit_once(':'));
            let pull = |actions: &str| actions.split(',').any(|a| a == "pull" || a == "*");
            let Some((name, _)) = name.filter(|(_, actions)| pull(actions)) else {
                continue;
            };
            if let Some(repository) = Repository::find(&self.images, name, None) {
                let catalogs = repository.catalogs();
                let good = catalogs.filter(|one| self.authorizer.admits(caller, name, one));
                let good: BTreeSet<String> = good.map(ToString::to_string).collect();
                // The token can be read: it lists no repository that may not be pulled.
                if !good.is_empty() {
                    granted.insert(name.to_owned(), good);
                }
            }
        }
        let token = self.authorizer.token(granted, caller)?;
        let issued = humantime::format_rfc3339_seconds(SystemTime::now());
        let body = json!({
            "token": token,
            "access_token": token,
            "expires_in": token::LIFETIME,
            "issued_at": issued.to_string(),
        });
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(listing::document(method, headers, &body))
    }

    /// The upstream registry that a client means; `None` for this registry.
    fn namespace<'a>(parameters: &'a Parameters, here: &str) -> Option<&'a str> {
        let namespace = parameters.namespace.as_deref()?;
        let own = here.split_once("://").map(|(_, host)| host);
        (Some(namespace) != own).then_some(namespace)
    }
}

/// The bytes of a blob. They are verified before their first sending.
async fn verified(blob: &Arc<OpenBlob>, repository: &Repository) -> Result<Bytes, OciRejection> {
    let verified = blob.verified().await;
    verified.map_err(|_| {
        repository.report_damage();
        OciRejection::Damaged(blob.digest())
    })
}
