//! The registry client: resolve, pull a manifest, pull a blob.
//!
//! Each of the three takes a place at the registry's gate and is tried a few
//! times; what of a request is worth that is said in `error`, how often and
//! when in `retry`, and how a blob goes on after a cut in `blob`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout};

use crate::credentials::AuthFiles;
use crate::digest::Digest;
use crate::error::{Error, redacted, retry_after};
use crate::known::KnownTags;
use crate::manifest::{Descriptor, MAX_DOCUMENT, Manifest};
use crate::mirrors::MirrorFiles;
use crate::policy::PolicyFiles;
use crate::reference::Reference;
use crate::registry::blob::BlobStream;
use crate::registry::gate::{Gate, Gates};
use crate::registry::retry::Retries;
use crate::registry::token::{Authorization, Authorizer};
use crate::registry::transport::{Request, Security, Transport, body, is_ok, refusal, same_origin};
use crate::registry::{blob, challenge};
use crate::verify::VerifyError;

/// The manifests that are taken: OCI's first, then Docker's.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";
const BLOBS: &str = "application/octet-stream, */*";
const DIGEST_HEADER: &str = "docker-content-digest";
/// The longest media type that is kept.
const MAX_MEDIA_TYPE: usize = 255;

/// How to speak to registries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Registries (`host` or `host:port`) that are spoken to over plain http.
    /// Loopback hosts always are.
    pub insecure: Vec<String>,
    /// Files with credentials (`auth.json` of podman, `config.json` of
    /// Docker), asked in this order. They are read when a registry asks for
    /// credentials; one that is missing then is an error.
    pub auth_files: Vec<PathBuf>,
    /// Further such files, asked after those, which may be missing.
    pub usual_auth_files: Vec<PathBuf>,
    /// PEM files of certificate authorities that are trusted besides the
    /// system's. They are read by [`Client::new`], and again when they change.
    pub ca_files: Vec<PathBuf>,
    /// Folders as `certs.d`: in each one folder a registry, `HOST` or
    /// `HOST:PORT`, of which the first there is counts.
    pub certificate_folders: Vec<PathBuf>,
    /// The files that name mirrors; they are read for each pass.
    pub mirrors: MirrorFiles,
    /// The files that say which images are let in; they are read for each pass.
    pub policy: PolicyFiles,
    /// The longest time to connect, TLS included.
    pub connect_timeout: Duration,
    /// The longest time without a single byte.
    pub idle_timeout: Duration,
    /// The longest time for a manifest, from the first request (asking for a
    /// token included) to its last byte.
    pub manifest_timeout: Duration,
    /// The longest time for a blob, counted from its first byte, all its
    /// resumptions included.
    pub blob_timeout: Duration,
    /// How often the same is tried at most while nothing comes of it.
    pub attempts: NonZeroU32,
    /// The most requests that one registry gets at once.
    pub requests_per_host: NonZeroUsize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            insecure: Vec::new(),
            auth_files: Vec::new(),
            usual_auth_files: Vec::new(),
            ca_files: Vec::new(),
            certificate_folders: Vec::new(),
            mirrors: MirrorFiles::default(),
            policy: PolicyFiles::default(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            manifest_timeout: Duration::from_mins(2),
            blob_timeout: Duration::from_hours(1),
            attempts: const { NonZeroU32::new(3).unwrap() },
            requests_per_host: const { NonZeroUsize::new(6).unwrap() },
        }
    }
}

/// A client of registries. Cheap to clone; clones share connections and
/// tokens.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    authorizer: Authorizer,
    gates: Gates,
    known: KnownTags,
    attempts: NonZeroU32,
    manifest_timeout: Duration,
    blob_timeout: Duration,
}

/// What a reference stands for at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the document that the reference names (of the index, when
    /// it names an index).
    pub digest: Digest,
    /// Its media type, when the registry said so.
    pub media_type: Option<String>,
    /// Its size in bytes, when the registry said so.
    pub size: Option<u64>,
}

impl Client {
    /// A client with these settings. Fails when certificates cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let transport = Transport::new(settings)?;
        let files = AuthFiles::new(
            settings.auth_files.clone(),
            settings.usual_auth_files.clone(),
        );
        Ok(Self {
            authorizer: Authorizer::new(transport.clone(), files),
            transport,
            gates: Gates::new(settings.requests_per_host),
            known: KnownTags::default(),
            attempts: settings.attempts,
            manifest_timeout: settings.manifest_timeout,
            blob_timeout: settings.blob_timeout,
        })
    }

    /// The same client, as sure of whom it speaks to as it is told to be. It
    /// shares connections, but no tokens.
    pub(crate) fn secured(&self, security: Security) -> Self {
        let transport = self.transport.secured(security);
        Self {
            authorizer: self.authorizer.over(transport.clone()),
            transport,
            ..self.clone()
        }
    }

    /// Whether a registry is spoken to over plain http.
    pub(crate) fn is_plain(&self, reference: &Reference) -> bool {
        let url = self.transport.url(reference, "");
        url.is_ok_and(|url| url.scheme() == "http")
    }

    /// A document of at most 4 MiB at some path below the repository, which
    /// nothing verifies.
    pub(crate) async fn document(
        &self,
        reference: &Reference,
        path: &str,
        accept: &'static str,
    ) -> Result<Bytes, Error> {
        let url = self.transport.url(reference, path)?;
        let gate = self.gates.of(&url);
        let _place = gate.enter().await;
        let attempt = || async {
            let response = self
                .get(reference, &url, &gate, accept, HeaderMap::new())
                .await?;
            body(reference, response, MAX_DOCUMENT).await
        };
        self.in_time(reference, &url, self.persist(attempt)).await
    }

    /// The digest that a reference stands for: one HEAD request when all is
    /// well, and a GET only when the registry does not answer that as it
    /// should (or refuses, as the reason is in the body). A reference by
    /// digest stands for itself, without any request.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, Error> {
        let Some(tag) = reference.tag() else {
            return match reference.digest() {
                Some(digest) => Ok(Resolved {
                    digest: *digest,
                    media_type: None,
                    size: None,
                }),
                None => Err(Error::Setup {
                    problem: format!("{reference} has neither a tag nor a digest"),
                }),
            };
        };
        let url = self.transport.url(reference, &format!("manifests/{tag}"))?;
        let gate = self.gates.of(&url);
        let _place = gate.enter().await;
        let attempt = || self.resolve_once(reference, &url, &gate);
        self.in_time(reference, &url, self.persist(attempt)).await
    }

    /// The manifest with this digest in the reference's repository, verified,
    /// of at most 4 MiB.
    pub async fn manifest(&self, reference: &Reference, digest: &Digest) -> Result<Bytes, Error> {
        let url = self
            .transport
            .url(reference, &format!("manifests/{digest}"))?;
        let gate = self.gates.of(&url);
        let place = gate.enter().await;
        let deadline = Instant::now() + self.manifest_timeout;
        let get = || self.get(reference, &url, &gate, MANIFESTS, HeaderMap::new());
        let response = self.in_time(reference, &url, self.persist(get)).await?;
        let Some(size) = response.content_length() else {
            // Nobody knows where it would have to go on after a cut.
            let body = body(reference, response, MAX_DOCUMENT);
            let bytes = self.in_time(reference, &url, body).await?;
            verify_manifest(reference, &url, *digest, &bytes)?;
            return Ok(bytes);
        };
        if size > MAX_DOCUMENT as u64 {
            return Err(Error::TooLarge {
                reference: reference.clone(),
                url: redacted(&url),
                limit: MAX_DOCUMENT,
            });
        }
        let descriptor = Descriptor {
            media_type: String::new(),
            digest: *digest,
            size,
        };
        let mut stream = BlobStream::new(
            self.clone(),
            blob::Wanted::new(reference, &descriptor, &url, MANIFESTS),
            response,
            deadline,
            place,
        );
        let mut bytes = BytesMut::with_capacity(size as usize);
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
    /// against the descriptor and goes on by itself after a cut.
    pub async fn blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
    ) -> Result<BlobStream, Error> {
        let Descriptor { digest, size, .. } = *descriptor;
        let url = self.transport.url(reference, &format!("blobs/{digest}"))?;
        let gate = self.gates.of(&url);
        let place = gate.enter_for_blob().await;
        let get = || self.get(reference, &url, &gate, BLOBS, HeaderMap::new());
        let response = self.in_time(reference, &url, self.persist(get)).await?;
        let announced = response.content_length();
        if let Some(actual) = announced
            && actual != size
        {
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
        let wanted = blob::Wanted::new(reference, descriptor, &url, BLOBS);
        Ok(BlobStream::new(
            self.clone(),
            wanted,
            response,
            deadline,
            place,
        ))
    }

    /// One attempt at a tag.
    async fn resolve_once(
        &self,
        reference: &Reference,
        url: &Url,
        gate: &Gate,
    ) -> Result<Resolved, Error> {
        let known = self.known.get(url);
        let mut condition = HeaderMap::new();
        if let Some(known) = &known {
            condition.insert(IF_NONE_MATCH, known.etag.clone());
        }
        let (response, authorization) = self
            .ask(reference, Method::HEAD, url, gate, MANIFESTS, condition)
            .await?;
        if response.status() == StatusCode::NOT_MODIFIED
            && let Some(known) = known
            && stated_digest(&response).is_none_or(|digest| digest == known.resolved.digest)
        {
            return Ok(known.resolved);
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
            self.known.set(url, response.headers().get(ETAG), &resolved);
            return Ok(resolved);
        }
        if !is_ok(&response) && !may_know_get(response.status()) {
            return Err(refusal(reference, response, authorization.with_credentials).await);
        }
        self.resolve_by_get(reference, url, gate).await
    }

    async fn resolve_by_get(
        &self,
        reference: &Reference,
        url: &Url,
        gate: &Gate,
    ) -> Result<Resolved, Error> {
        let response = self
            .get(reference, url, gate, MANIFESTS, HeaderMap::new())
            .await?;
        let stated = stated_digest(&response);
        let media_type = media_type(&response);
        let bytes = body(reference, response, MAX_DOCUMENT).await?;
        let digest = Digest::of(&bytes);
        verify_manifest(reference, url, stated.unwrap_or(digest), &bytes)?;
        // A page of some proxy has a digest too; better told now than when
        // the manifest is pulled.
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

    /// What is left of something that was cut: an answer with the bytes from
    /// `from` on, or with all of them.
    pub(crate) async fn rest(&self, wanted: &blob::Wanted, from: u64) -> Result<Response, Error> {
        let gate = self.gates.of(&wanted.url);
        let mut range = HeaderMap::new();
        if from > 0
            && let Ok(value) = format!("bytes={from}-").parse()
        {
            // No If-Range: what is named by its digest cannot have changed,
            // and the servers behind one name often disagree on its ETag.
            range.insert(RANGE, value);
        }
        let request = self.get(&wanted.reference, &wanted.url, &gate, wanted.accept, range);
        self.in_time(&wanted.reference, &wanted.url, request).await
    }

    /// The attempts that each thing gets.
    pub(crate) fn retries(&self) -> Retries {
        Retries::new(self.attempts)
    }

    /// Tries until it goes well, is not worth another attempt, or there were
    /// enough of them.
    async fn persist<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut retries = self.retries();
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(wait) = retries.after(&error) else {
                return Err(error);
            };
            tracing::debug!(reason = error.reason(), ?wait, %error, "asking again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn get(
        &self,
        reference: &Reference,
        url: &Url,
        gate: &Gate,
        accept: &'static str,
        headers: HeaderMap,
    ) -> Result<Response, Error> {
        let may_be_part = headers.contains_key(RANGE);
        let (response, authorization) = self
            .ask(reference, Method::GET, url, gate, accept, headers)
            .await?;
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
        if is_ok(&response) || is_part && may_be_part {
            return Ok(response);
        }
        Err(refusal(reference, response, authorization.with_credentials).await)
    }

    /// Sends a request with what the registry is known to ask for, and once
    /// more when it then asks for something else.
    async fn ask(
        &self,
        reference: &Reference,
        method: Method,
        url: &Url,
        gate: &Gate,
        accept: &'static str,
        headers: HeaderMap,
    ) -> Result<(Response, Authorization), Error> {
        if let Some(wait) = gate.closed() {
            return Err(Error::LeftAlone {
                reference: reference.clone(),
                url: redacted(url),
                wait,
            });
        }
        let request = |authorization: &Authorization| Request {
            reference,
            method: method.clone(),
            url: url.clone(),
            accept,
            authorization: authorization.header.clone(),
            headers: headers.clone(),
            form: None,
        };
        let note = |response: Response| {
            if is_told_to_wait(response.status())
                && same_origin(url, response.url())
                && let Some(wait) = retry_after(response.headers(), SystemTime::now())
            {
                gate.close_for(wait);
            }
            response
        };
        let first = self.authorizer.remembered(reference).await?;
        let response = note(self.transport.send(request(&first)).await?);
        // A host that was redirected to gets no credentials, whatever it asks.
        if response.status() != StatusCode::UNAUTHORIZED || !same_origin(url, response.url()) {
            return Ok((response, first));
        }
        let Some(challenge) = challenge::choose(response.headers()) else {
            return Ok((response, first));
        };
        let second = self.authorizer.answer(reference, challenge).await?;
        if second.header.is_none() || second.header == first.header {
            return Ok((response, second));
        }
        let response = note(self.transport.send(request(&second)).await?);
        Ok((response, second))
    }

    async fn in_time<T>(
        &self,
        reference: &Reference,
        url: &Url,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Error::Timeout {
            reference: reference.clone(),
            url: redacted(url),
        };
        timeout(self.manifest_timeout, work).await.map_err(late)?
    }
}

/// Whether a GET may tell more than the HEAD that was answered so.
fn may_know_get(status: StatusCode) -> bool {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            false
        }
        StatusCode::NOT_IMPLEMENTED => true,
        status => status.is_client_error() || status.is_success(),
    }
}

/// Whether a `Retry-After` of this answer is meant for all who ask.
fn is_told_to_wait(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    )
}

fn verify_manifest(
    reference: &Reference,
    url: &Url,
    expected: Digest,
    bytes: &[u8],
) -> Result<(), Error> {
    let actual = Digest::of(bytes);
    if actual == expected {
        return Ok(());
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
