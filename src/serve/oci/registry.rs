//! The registry: it parses a request's credentials, finds its repository, and
//! responds.

use std::collections::BTreeSet;
use std::time::SystemTime;

use axum::response::Response;
use http::header::{CACHE_CONTROL, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;

use crate::name::CatalogName;
use crate::serve::net::listen::Peer;
use crate::serve::oci::content::{self, Content};
use crate::serve::oci::gate::{Caller, Gate};
use crate::serve::oci::listing::{self, Parameters};
use crate::serve::oci::path::{ManifestReference, OciRequest};
use crate::serve::oci::rejection::OciRejection;
use crate::serve::oci::repository::Repository;
use crate::serve::oci::token;
use crate::snapshot::Images;

/// The longest `Host` that a response repeats.
const MAX_HOST: usize = 300;

/// The registry of all catalogs.
pub(super) struct Registry {
    pub(super) images: Images,
    pub(super) gate: Gate,
    /// Whether the port has TLS.
    pub(super) secure: bool,
}

impl Registry {
    /// The response to a request.
    pub(super) async fn respond(
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
        let here = self.here(request);
        let parameters = Parameters::read(request.uri.query().unwrap_or_default());
        let caller = self.gate.caller(headers, peer).await?;
        let (name, namespace) = match &parsed {
            OciRequest::Ping => {
                if self.gate.requires_any() && !self.gate.knows(&caller) {
                    return Err(self.gate.rejection(&caller, None, &[], &here));
                }
                return Ok(listing::document(method, HeaderMap::new(), &json!({})));
            }
            OciRequest::Repositories => {
                let names = Repository::names(&self.images).into_iter();
                let names = names.filter(|(_, catalog)| self.gate.admits(&caller, catalog));
                let names: Vec<String> = names.map(|(name, _)| name).collect();
                if names.is_empty() && self.gate.requires_any() && !self.gate.knows(&caller) {
                    return Err(self.gate.rejection(&caller, None, &[], &here));
                }
                return listing::repositories(&names, &parameters, method);
            }
            OciRequest::Token => return self.token(&caller, &parameters, method),
            OciRequest::Manifest(name, _)
            | OciRequest::Blob(name, _)
            | OciRequest::Tags(name)
            | OciRequest::Referrers(name, _) => (name, Self::namespace(&parameters, &here)),
        };
        let mut repository = self.repository(name, namespace, &caller, &here)?;
        repository.retain(|catalog| self.gate.admits(&caller, catalog));
        let mut response = Self::of_repository(&parsed, &repository, &parameters, request)?;
        if let Some(namespace) = namespace {
            let namespace = content::text(namespace.to_owned());
            response.headers_mut().insert("oci-namespace", namespace);
        }
        Ok(response)
    }

    /// The repository of a name, if the caller may pull anything from it.
    fn repository(
        &self,
        name: &str,
        namespace: Option<&str>,
        caller: &Caller,
        here: &str,
    ) -> Result<Repository, OciRejection> {
        let found = Repository::find(&self.images, name, namespace);
        let catalogs: Vec<CatalogName> = match &found {
            Some(repository) => repository.catalogs().cloned().collect(),
            None => Vec::new(),
        };
        let admits = |catalog| self.gate.admits(caller, catalog);
        match found {
            Some(found) if catalogs.iter().any(admits) => Ok(found),
            Some(_) => Err(self.gate.rejection(caller, Some(name), &catalogs, here)),
            None if self.gate.requires_any() && !self.gate.knows(caller) => {
                // Unknown callers learn nothing about which repositories exist.
                Err(self.gate.rejection(caller, Some(name), &[], here))
            }
            None => Err(OciRejection::UnknownName(name.to_owned())),
        }
    }

    fn of_repository(
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
                        let found = repository.tags().get(tag.as_str()).copied();
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
                let (manifest, bytes) = found.ok_or(OciRejection::UnknownManifest(shown))?;
                let content = Content {
                    digest: manifest.digest,
                    media_type: &manifest.media_type,
                    bytes,
                    fixed,
                };
                content.respond(method, headers)
            }
            OciRequest::Blob(_, digest) => {
                let unknown = |text: String| OciRejection::UnknownBlob(text);
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
    /// (Docker registry, "token authentication specification").
    fn token(
        &self,
        caller: &Caller,
        parameters: &Parameters,
        method: &Method,
    ) -> Result<Response, OciRejection> {
        if !self.gate.gives_tokens() {
            return Err(OciRejection::Path);
        }
        if caller.has_credentials() && !self.gate.knows(caller) {
            return Err(OciRejection::Unauthorized(Gate::basic_challenge()));
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
        let token = self.gate.token(granted)?;
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

    /// The address of this registry as the client sees it. Behind a TLS proxy, that
    /// is the proxy's. A forged address would only mislead the client itself.
    fn here(&self, request: &Parts) -> String {
        let headers = &request.headers;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let proxy = header("x-forwarded-proto") == Some("https");
        let scheme = if self.secure || proxy {
            "https"
        } else {
            "http"
        };
        let authority = request.uri.authority().map(Authority::as_str);
        let host = authority.or_else(|| header(HOST.as_str()));
        let good = |host: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
            host.len() <= MAX_HOST && host.bytes().all(plain)
        };
        format!("{scheme}://{}", host.filter(good).unwrap_or("localhost"))
    }
}
