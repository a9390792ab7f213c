//! The registry client: resolves references, pulls manifests and blobs.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Response, Url};
use tokio::time::Instant;

use crate::digest::Digest;
use crate::error::{Error, Login};
use crate::manifest::{Descriptor, MAX_DOCUMENT, Manifest};
use crate::reference::Reference;
use crate::registry::blob::{BlobRequest, BlobStream};
use crate::registry::pages::{Page, next_query};
use crate::registry::request_limits::HostLimit;
use crate::registry::response::{body, encoding, is_ok, status_error};
use crate::registry::session::Session;
use crate::registry::tag_cache::{Resolved, TagCache};
use crate::registry::transport::Security;
use crate::registry::url::redacted;
use crate::settings::Settings;
use crate::verify::VerifyError;

/// The accepted manifests: OCI's first, then Docker's.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";
const BLOBS: &str = "application/octet-stream, */*";
const DIGEST_HEADER: &str = "docker-content-digest";
/// The longest media type that is kept.
const MAX_MEDIA_TYPE: usize = 255;

/// A client for registries. Cheap to clone; clones share connections and
/// tokens.
#[derive(Clone)]
pub struct Client {
    pub(super) session: Session,
    tags: TagCache,
    manifest_timeout: Duration,
    blob_timeout: Duration,
}

impl Client {
    /// A client with these settings. Fails when certificates cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            session: Session::new(settings)?,
            tags: TagCache::new(),
            manifest_timeout: settings.manifest_timeout,
            blob_timeout: settings.blob_timeout,
        })
    }

    /// The same client with another level of security. It shares connections,
    /// but no tokens.
    pub(crate) fn secured(&self, security: Security) -> Self {
        Self {
            session: self.session.secured(security),
            ..self.clone()
        }
    }

    /// Whether the settings allow plain http for the registry.
    pub(crate) fn is_insecure(&self, reference: &Reference) -> bool {
        self.session.is_insecure(reference.registry())
    }

    /// The address of the repository's API, as in errors.
    pub(crate) fn address(&self, reference: &Reference) -> Result<String, Error> {
        Ok(redacted(&self.session.url(reference, "")?))
    }

    /// A page of a list at a path below the repository, of at most 4 MiB. `query` is
    /// that of the page before for this one. The content is not verified.
    pub(crate) async fn page(
        &self,
        reference: &Reference,
        path: &str,
        query: Option<&str>,
        accept: &'static str,
    ) -> Result<Page, Error> {
        let mut url = self.session.url(reference, path)?;
        url.set_query(query);
        let limit = self.session.limit(&url);
        let _permit = limit.acquire().await;
        let attempt = || async {
            let response = self
                .session
                .get(reference, &url, &limit, accept, HeaderMap::new())
                .await?;
            let next = next_query(&url, response.headers());
            let bytes = body(reference, response, MAX_DOCUMENT).await?;
            Ok(Page { bytes, next })
        };
        let work = self.session.persist(attempt);
        self.session.in_time(reference, &url, work).await
    }

    /// Resolves a reference to a digest with one HEAD request. A GET request
    /// follows only if the registry does not answer HEAD as specified, or
    /// rejects it with a reason in the body. That reason is read once for a limit
    /// of requests without a pause. It is not read for refused credentials, since many
    /// servers count these. A reference by digest resolves to itself, without any
    /// request.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, Error> {
        let Some(tag) = reference.tag() else {
            return match reference.digest() {
                Some(digest) => Ok(Resolved::from(*digest)),
                None => Err(Error::Setup {
                    problem: format!("{reference} has neither a tag nor a digest"),
                }),
            };
        };
        let url = self.session.url(reference, &format!("manifests/{tag}"))?;
        let limit = self.session.limit(&url);
        let _permit = limit.acquire().await;
        let work = async {
            let attempt = || self.resolve_once(reference, &url, &limit);
            let resolved = self.session.persist(attempt).await;
            match resolved {
                // The response to HEAD has no text.
                Err(Error::Status {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    retry_after: None,
                    ..
                }) => self.resolve_by_get(reference, &url, &limit).await,
                resolved => resolved,
            }
        };
        self.session.in_time(reference, &url, work).await
    }

    /// Resolves a tag with a GET request, after `wrong`, the digest in the answer to
    /// HEAD, was not found. If the tag has another digest, HEAD is not sent for tags of
    /// this repository for a while. None for a reference by digest.
    pub(crate) async fn resolve_without_head(
        &self,
        reference: &Reference,
        wrong: &Digest,
    ) -> Result<Option<Resolved>, Error> {
        let Some(tag) = reference.tag() else {
            return Ok(None);
        };
        let url = self.session.url(reference, &format!("manifests/{tag}"))?;
        let limit = self.session.limit(&url);
        let _permit = limit.acquire().await;
        let attempt = || self.resolve_by_get(reference, &url, &limit);
        let work = self.session.persist(attempt);
        let resolved = self.session.in_time(reference, &url, work).await?;
        if resolved.digest != *wrong {
            self.tags.distrust_head(&url);
        }
        Ok(Some(resolved))
    }

    /// The manifest with this digest in the reference's repository, verified,
    /// of at most 4 MiB.
    pub async fn manifest(&self, reference: &Reference, digest: &Digest) -> Result<Bytes, Error> {
        let session = &self.session;
        let url = session.url(reference, &format!("manifests/{digest}"))?;
        let limit = session.limit(&url);
        let permit = limit.acquire().await;
        let deadline = Instant::now() + self.manifest_timeout;
        let get = || session.get(reference, &url, &limit, MANIFESTS, HeaderMap::new());
        let response = session
            .in_time(reference, &url, session.persist(get))
            .await?;
        let Some(size) = response.content_length() else {
            // Without a length a cut body cannot be resumed.
            let encoding = encoding(&response);
            let body = body(reference, response, MAX_DOCUMENT);
            let bytes = session.in_time(reference, &url, body).await?;
            verify_manifest(reference, &url, *digest, encoding, &bytes)?;
            return Ok(bytes);
        };
        let capacity = usize::try_from(size)
            .ok()
            .filter(|size| *size <= MAX_DOCUMENT)
            .ok_or_else(|| Error::TooLarge {
                reference: reference.clone(),
                url: redacted(&url),
                limit: MAX_DOCUMENT,
            })?;
        let descriptor = Descriptor {
            media_type: String::new(),
            digest: *digest,
            size,
        };
        let request = BlobRequest::new(reference, &descriptor, &url, MANIFESTS);
        let mut stream = BlobStream::new(session.clone(), request, response, deadline, permit);
        let mut bytes = BytesMut::with_capacity(capacity);
        loop {
            match stream.next().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Ok(bytes.freeze()),
                Err(Error::BlobMismatch {
                    reference,
                    url,
                    source: VerifyError::Digest { digest, actual },
                }) => {
                    return Err(Error::ManifestMismatch {
                        reference,
                        url,
                        expected: digest,
                        actual,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A blob of the reference's repository, as a stream that verifies itself
    /// against the descriptor and resumes after a cut.
    pub async fn blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
    ) -> Result<BlobStream, Error> {
        let Descriptor { digest, size, .. } = *descriptor;
        let session = &self.session;
        let url = session.url(reference, &format!("blobs/{digest}"))?;
        let limit = session.limit(&url);
        let permit = limit.acquire_for_blob().await;
        let get = || session.get(reference, &url, &limit, BLOBS, HeaderMap::new());
        let response = session
            .in_time(reference, &url, session.persist(get))
            .await?;
        let announced = response.content_length();
        if let Some(actual) = announced
            && actual != size
        {
            if let Some(encoding) = encoding(&response) {
                return Err(Error::Encoded {
                    reference: reference.clone(),
                    url: redacted(response.url()),
                    encoding,
                });
            }
            let source = if actual > size {
                VerifyError::TooLong { digest, size }
            } else {
                VerifyError::TooShort {
                    digest,
                    size,
                    actual,
                }
            };
            return Err(Error::BlobMismatch {
                reference: reference.clone(),
                url: redacted(response.url()),
                source,
            });
        }
        let deadline = Instant::now() + self.blob_timeout;
        let request = BlobRequest::new(reference, descriptor, &url, BLOBS);
        let session = session.clone();
        Ok(BlobStream::new(
            session, request, response, deadline, permit,
        ))
    }

    /// One attempt at a tag.
    async fn resolve_once(
        &self,
        reference: &Reference,
        url: &Url,
        limit: &HostLimit,
    ) -> Result<Resolved, Error> {
        if self.tags.is_head_wrong(url) {
            return self.resolve_by_get(reference, url, limit).await;
        }
        let cached = self.tags.get(url);
        let mut condition = HeaderMap::new();
        if let Some(cached) = &cached {
            condition.insert(IF_NONE_MATCH, cached.etag.clone());
        }
        let (response, authorization) = self
            .session
            .send(reference, Method::HEAD, url, limit, MANIFESTS, condition)
            .await?;
        if response.status() == StatusCode::NOT_MODIFIED
            && let Some(cached) = cached
            && stated_digest(&response).is_none_or(|digest| digest == cached.resolved.digest)
        {
            return Ok(cached.resolved);
        }
        if is_ok(&response)
            && let Some(digest) = stated_digest(&response)
        {
            let size = header(&response, CONTENT_LENGTH.as_str());
            let resolved = Resolved {
                digest,
                media_type: media_type(&response),
                size: size.and_then(|text| text.parse().ok()),
            };
            self.tags.set(url, response.headers().get(ETAG), &resolved);
            return Ok(resolved);
        }
        if !is_ok(&response) && !get_may_differ(response.status(), authorization.login) {
            return Err(status_error(reference, url, response, authorization.login).await);
        }
        self.resolve_by_get(reference, url, limit).await
    }

    async fn resolve_by_get(
        &self,
        reference: &Reference,
        url: &Url,
        limit: &HostLimit,
    ) -> Result<Resolved, Error> {
        let response = self
            .session
            .get(reference, url, limit, MANIFESTS, HeaderMap::new())
            .await?;
        let stated = stated_digest(&response);
        let (media_type, encoding) = (media_type(&response), encoding(&response));
        let bytes = body(reference, response, MAX_DOCUMENT).await?;
        let digest = Digest::of(&bytes);
        verify_manifest(reference, url, stated.unwrap_or(digest), encoding, &bytes)?;
        // The error page of a proxy has a digest too: reject it here.
        Manifest::parse(&bytes, media_type.as_deref()).map_err(|source| Error::Manifest {
            reference: reference.clone(),
            digest,
            source,
        })?;
        Ok(Resolved {
            digest,
            media_type,
            size: Some(bytes.len() as u64),
        })
    }
}

/// Whether a GET request may succeed after a HEAD request with this status, or states
/// the registry's reason.
fn get_may_differ(status: StatusCode, login: Login) -> bool {
    match status {
        StatusCode::UNAUTHORIZED => login != Login::Sent,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => false,
        StatusCode::NOT_IMPLEMENTED => true,
        status => status.is_client_error() || status.is_success(),
    }
}

fn verify_manifest(
    reference: &Reference,
    url: &Url,
    expected: Digest,
    encoding: Option<String>,
    bytes: &[u8],
) -> Result<(), Error> {
    let actual = Digest::of(bytes);
    if actual == expected {
        return Ok(());
    }
    if let Some(encoding) = encoding {
        return Err(Error::Encoded {
            reference: reference.clone(),
            url: redacted(url),
            encoding,
        });
    }
    Err(Error::ManifestMismatch {
        reference: reference.clone(),
        url: redacted(url),
        expected,
        actual,
    })
}

/// The digest in the header; one of another algorithm or shape is none.
fn stated_digest(response: &Response) -> Option<Digest> {
    header(response, DIGEST_HEADER)?.parse().ok()
}

/// The media type, without parameters.
fn media_type(response: &Response) -> Option<String> {
    let text = header(response, CONTENT_TYPE.as_str())?;
    let kind = text.split(';').next().unwrap_or_default().trim();
    (!kind.is_empty() && kind.len() <= MAX_MEDIA_TYPE).then(|| kind.to_owned())
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}
