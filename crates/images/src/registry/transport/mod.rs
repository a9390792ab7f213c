//! HTTP for the registry client: scheme, certificates, proxy, redirects.
//!
//! Redirects are followed here and not by the HTTP library, because registries
//! have rules of their own: credentials never go to another host, https never
//! leads to plain http, and a registry elsewhere never leads to this machine.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Response, Url};

use crate::error::{Error, causes};
use crate::reference::Reference;
use crate::registry::certificates::Chosen;
use crate::registry::http_clients::{ClientError, ClientKey, HttpClients};
use crate::registry::outside::{self, OutsideHost};
use crate::registry::url::{authority, is_loopback, redacted, same_origin};
use crate::settings::Settings;

/// The most redirects of one request.
const MAX_REDIRECTS: usize = 8;

/// One request.
pub(super) struct Request<'a> {
    /// The image it is made for.
    pub(super) reference: &'a Reference,
    /// The method.
    pub(super) method: Method,
    /// The address.
    pub(super) url: Url,
    /// The accepted media types.
    pub(super) accept: &'static str,
    /// Credentials, for the host of `url` only.
    pub(super) authorization: Option<HeaderValue>,
    /// Further headers: a range, a condition.
    pub(super) headers: HeaderMap,
    /// The form in the body.
    pub(super) form: Option<String>,
    /// Whether a file of the site names the host of `url`, which may then be
    /// this machine.
    pub(super) is_configured: bool,
}

/// How the identity of a registry is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    /// https with a trusted certificate; plain http for insecure registries of
    /// the settings and for loopback hosts.
    #[default]
    Verified,
    /// https with any certificate.
    Unverified,
    /// Plain http.
    Plain,
}

/// The HTTP clients, and the rules for the hosts they may contact. Cheap to
/// clone.
#[derive(Clone)]
pub(super) struct Transport {
    shared: Arc<Shared>,
    security: Security,
}

struct Shared {
    insecure: Vec<String>,
    clients: HttpClients,
}

impl Transport {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        // Fails when the program has chosen a provider already; that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let insecure = settings.insecure.iter();
        let insecure = insecure.map(|name| name.to_ascii_lowercase()).collect();
        let clients = HttpClients::new(settings);
        // Reports bad certificate bundles at the start.
        let certificates = clients.certificates.choose(&[], "");
        let client = certificates
            .map_err(ClientError::File)
            .and_then(|certificates| {
                clients.get(&ClientKey {
                    direct: false,
                    unverified: false,
                    certificates,
                    outside: None,
                })
            });
        client.map_err(|error| Error::Setup {
            problem: causes(&error),
        })?;
        Ok(Self {
            shared: Arc::new(Shared { insecure, clients }),
            security: Security::default(),
        })
    }

    /// The same transport with another level of security.
    pub(super) fn secured(&self, security: Security) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            security,
        }
    }

    /// The address of `path` under the API of the reference's registry.
    pub(super) fn url(&self, reference: &Reference, path: &str) -> Result<Url, Error> {
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
                // A host with certificates of its own speaks TLS.
                let local = || {
                    is_loopback(&secure) && self.shared.clients.certificates.folder(host).is_none()
                };
                self.is_insecure(host) || local()
            }
        };
        if plain { parse("http") } else { Ok(secure) }
    }

    /// Whether a request that began at `origin` may go on to `url`: https
    /// always, plain http only if the origin is plain as well or the host is
    /// an insecure registry of the settings.
    pub(super) fn may_ask(&self, origin: &Url, url: &Url) -> Result<(), &'static str> {
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

    /// Sends a request, follows redirects, and returns the response with any
    /// status. Only the host of the request's URL gets the credentials.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Response, Error> {
        let Request {
            reference,
            method,
            url: origin,
            ..
        } = &request;
        // The address that led to `url`.
        let mut from = self.url(reference, "")?;
        let mut url = origin.clone();
        for _ in 0..=MAX_REDIRECTS {
            let refused = || Error::Redirect {
                reference: (*reference).clone(),
                url: redacted(&from),
                target: Some(redacted(&url)),
                problem: outside::PROBLEM,
            };
            let registry = self.url(reference, "")?;
            let home = if request.is_configured {
                origin
            } else {
                &registry
            };
            let outside = OutsideHost::new(home, &url).await;
            let outside = outside.map_err(|_| refused())?;
            let client = self.client(reference, &registry, &url, outside).await?;
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
            let proxy = self.shared.clients.proxies.proxy_for(&url);
            let response = builder.send().await.map_err(|error| {
                if OutsideHost::refused(&error) {
                    return refused();
                }
                Error::from_request(reference, &url, proxy, error)
            })?;
            if let Some(proxy) = proxy
                && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            {
                return Err(Error::from_proxy(reference, &url, proxy));
            }
            tracing::debug!(%method, url = redacted(&url), status = response.status().as_u16(), "registry responded");
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            // A form can contain a secret: only the first address gets it.
            if !is_redirect || request.form.is_some() {
                return Ok(response);
            }
            let target = self.redirect(reference, origin, &url, &response)?;
            from = std::mem::replace(&mut url, target);
        }
        Err(Error::Redirect {
            reference: (*reference).clone(),
            url: redacted(origin),
            target: None,
            problem: "there are too many redirects",
        })
    }

    fn redirect(
        &self,
        reference: &Reference,
        origin: &Url,
        from: &Url,
        response: &Response,
    ) -> Result<Url, Error> {
        let refused = |target: Option<&Url>, problem| Error::Redirect {
            reference: reference.clone(),
            url: redacted(from),
            target: target.map(redacted),
            problem,
        };
        let target = response.headers().get(LOCATION);
        let target = target
            .and_then(|target| target.to_str().ok())
            .and_then(|target| from.join(target).ok())
            .ok_or_else(|| refused(None, "it names no URL"))?;
        self.may_ask(origin, &target)
            .map_err(|problem| refused(Some(&target), problem))?;
        Ok(target)
    }

    /// Whether the settings allow plain http for `HOST` or `HOST:PORT`.
    pub(super) fn is_insecure(&self, authority: &str) -> bool {
        self.shared.insecure.iter().any(|name| name == authority)
    }

    /// The HTTP client for a request to `url` on behalf of `reference`. The
    /// authorities in the registry's folder apply to the hosts that it
    /// redirects to as well. A client certificate goes to its own host only.
    async fn client(
        &self,
        reference: &Reference,
        registry: &Url,
        url: &Url,
        outside: Option<OutsideHost>,
    ) -> Result<reqwest::Client, Error> {
        let own = if same_origin(registry, url) {
            reference.registry().to_owned()
        } else {
            authority(url)
        };
        let (trusted, secure) = (reference.registry().to_owned(), url.scheme() == "https");
        let direct = self.shared.clients.proxies.is_direct(url);
        let unverified = self.security == Security::Unverified;
        let shared = Arc::clone(&self.shared);
        let choosing = tokio::task::spawn_blocking(move || {
            let both = [trusted.as_str(), own.as_str()];
            let hosts = if trusted == own {
                &both[..1]
            } else {
                &both[..]
            };
            let certificates = if secure {
                shared.clients.certificates.choose(hosts, &own)?
            } else {
                Chosen::default()
            };
            shared.clients.get(&ClientKey {
                direct,
                unverified,
                certificates,
                outside,
            })
        });
        let chosen = choosing.await.unwrap_or_else(|error| {
            Err(ClientError::Build(format!(
                "the choice of a client failed: {error}"
            )))
        });
        chosen.map_err(|error| match error {
            ClientError::File(source) => Error::File {
                reference: reference.clone(),
                source,
            },
            ClientError::Build(problem) => Error::Setup { problem },
        })
    }
}
