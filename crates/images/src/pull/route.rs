//! The route to one image: its locations in order, and its admission.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

use crate::digest::Digest;
use crate::error::{Error, causes};
use crate::manifest::Descriptor;
use crate::mirrors::{InvalidLocation, PullLocation};
use crate::policy::{Admission, PolicyRejection};
use crate::pull::clients::RegistryClients;
use crate::reference::Reference;
use crate::registry::{BlobStream, Client, Resolved};
use crate::signatures::SignatureStores;

/// The most failed locations that an error describes.
const MAX_FAILURES: usize = 8;

/// The route to one image: the locations in order, and the required
/// signatures.
pub struct Route {
    pub(super) clients: Arc<RegistryClients>,
    pub(super) requested: Reference,
    locations: Vec<RouteLocation>,
    /// The location that responded last.
    served: AtomicUsize,
    pub(super) admission: Admission,
    pub(super) signatures: SignaturePlaces,
}

/// Where signatures are, besides the locations, and what counts as one.
pub(super) struct SignaturePlaces {
    /// Where signatures are stored apart from the registries.
    pub(super) stores: SignatureStores,
    /// Whether a bundle that names no image may be a signature of it.
    pub(super) digest_suffices: bool,
}

struct RouteLocation {
    location: Result<PullLocation, InvalidLocation>,
    /// Whether its content turned out to be unusable.
    given_up: AtomicBool,
}

/// A location of a [`Route`], for [`Route::give_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationNumber(usize);

impl Route {
    pub(super) fn new(
        clients: Arc<RegistryClients>,
        requested: &Reference,
        locations: Vec<Result<PullLocation, InvalidLocation>>,
        admission: Admission,
        signatures: SignaturePlaces,
    ) -> Self {
        let usable = |location| RouteLocation {
            location,
            given_up: AtomicBool::new(false),
        };
        Self {
            clients,
            requested: requested.clone(),
            locations: locations.into_iter().map(usable).collect(),
            served: AtomicUsize::new(usize::MAX),
            admission,
            signatures,
        }
    }

    /// The requested reference.
    pub fn requested(&self) -> &Reference {
        &self.requested
    }

    /// The repository (`HOST/REPOSITORY`) that responded last; none before the
    /// first response.
    pub fn served_by(&self) -> Option<String> {
        let location = self.locations.get(self.served.load(Ordering::Relaxed))?;
        let location = location.location.as_ref().ok()?;
        Some(location.reference.name())
    }

    /// Resolves the image to a digest (see [`Client::resolve`](crate::Client::resolve)).
    pub async fn resolve(&self) -> Result<Resolved, Error> {
        if let Some(digest) = self.requested.digest() {
            return Ok(Resolved::from(*digest));
        }
        let query = |client: Client, image| async move { client.resolve(&image).await };
        let (_, resolved) = self.first(query).await?;
        Ok(resolved)
    }

    /// Resolves the tag by its manifest, after no location has the manifest of
    /// `wrong`, the digest from before: some registries answer HEAD with the digest of
    /// another document. None if nothing else is found.
    pub async fn resolve_again(&self, wrong: &Digest) -> Result<Option<Digest>, Error> {
        let query =
            |client: Client, image| async move { client.resolve_without_head(&image, wrong).await };
        let (_, resolved) = self.first(query).await?;
        let digest = resolved.map(|resolved| resolved.digest);
        Ok(digest.filter(|digest| digest != wrong))
    }

    /// The image's digest, and its manifest or index.
    pub async fn resolve_manifest(&self) -> Result<(Digest, Bytes), Error> {
        let digest = self.resolve().await?.digest;
        match self.manifest(&digest).await {
            Err(error) if error.is_not_found() => match self.resolve_again(&digest).await {
                Ok(Some(other)) => Ok((other, self.manifest(&other).await?)),
                Err(mismatch) if mismatch.is_manifest_mismatch() => Err(mismatch),
                _ => Err(error),
            },
            bytes => Ok((digest, bytes?)),
        }
    }

    /// A manifest of the repository (see [`Client::manifest`](crate::Client::manifest)).
    pub async fn manifest(&self, digest: &Digest) -> Result<Bytes, Error> {
        let query = |client: Client, image| async move { client.manifest(&image, digest).await };
        let (_, bytes) = self.first(query).await?;
        Ok(bytes)
    }

    /// A blob of the repository (see [`Client::blob`](crate::Client::blob)),
    /// and the location that serves it.
    pub async fn blob(
        &self,
        descriptor: &Descriptor,
    ) -> Result<(LocationNumber, BlobStream), Error> {
        let query = |client: Client, image| async move { client.blob(&image, descriptor).await };
        self.first(query).await
    }

    /// Excludes a location whose content is unusable. Returns whether another
    /// location is left.
    pub fn give_up(&self, LocationNumber(number): LocationNumber, error: &Error) -> bool {
        if let Some(location) = self.locations.get(number) {
            location.given_up.store(true, Ordering::Relaxed);
        }
        let left = self.locations.iter().any(RouteLocation::is_usable);
        if left {
            tracing::warn!(
                image = %self.requested,
                error = causes(error),
                "the content from a mirror is unusable; trying the next location"
            );
        }
        left
    }

    /// Runs a query at the locations in order. Returns the first success, and
    /// the number of its location.
    async fn first<T, F: Future<Output = Result<T, Error>>>(
        &self,
        query: impl Fn(Client, Reference) -> F,
    ) -> Result<(LocationNumber, T), Error> {
        let mut failures = Vec::new();
        let order = self.order();
        for (index, number) in order.iter().enumerate() {
            let output = match &self.locations[*number].location {
                Err(invalid) => Err(Error::Location {
                    reference: self.requested.clone(),
                    text: invalid.text.clone(),
                    problem: invalid.problem.clone(),
                }),
                Ok(location) => match &location.blocked {
                    Some(prefix) => Err(Error::Blocked {
                        reference: location.reference.clone(),
                        prefix: prefix.clone(),
                    }),
                    None => self.clients.run(location, &query).await,
                },
            };
            match output {
                Ok(output) => {
                    if self.served.swap(*number, Ordering::Relaxed) != *number {
                        let served = self.served_by();
                        tracing::debug!(image = %self.requested, served, "a location responded");
                    }
                    return Ok((LocationNumber(*number), output));
                }
                Err(error) => {
                    if index + 1 < order.len() {
                        tracing::warn!(
                            image = %self.requested,
                            error = causes(&error),
                            "a mirror cannot serve the image; trying the next location"
                        );
                    }
                    failures.push(error);
                }
            }
        }
        Err(self.all_failed(failures))
    }

    /// The error when no location succeeded.
    fn all_failed(&self, mut failures: Vec<Error>) -> Error {
        // A rewritten location is named together with the requested image.
        let first = self.locations.first().map(|first| &first.location);
        let is_moved = matches!(first, Some(Ok(first)) if first.reference != self.requested);
        let is_plain = |error: &Error| !is_moved || matches!(error, Error::Location { .. });
        match failures.pop() {
            Some(error) if failures.is_empty() && is_plain(&error) => error,
            Some(error) => {
                failures.push(error);
                // The image's own location is the last, and most telling.
                let skipped = failures.len().saturating_sub(MAX_FAILURES);
                let shown: Vec<String> = failures[skipped..].iter().map(|e| causes(e)).collect();
                Error::AllFailed {
                    reference: self.requested.clone(),
                    summary: shown.join("; "),
                    failures,
                }
            }
            None => Error::Setup {
                problem: format!("there is no location to pull {} from", self.requested),
            },
        }
    }

    /// The error of an image that the policy rejects.
    pub(super) fn rejected(&self, source: PolicyRejection) -> Error {
        Error::Rejected {
            reference: self.requested.clone(),
            source,
        }
    }

    /// The usable locations in order.
    pub(super) fn usable(&self) -> impl Iterator<Item = &PullLocation> {
        let order = self.order().into_iter();
        let locations = order.filter_map(|number| self.locations.get(number));
        let locations = locations.filter_map(|location| location.location.as_ref().ok());
        locations.filter(|location| location.blocked.is_none())
    }

    /// The numbers of the usable locations: the one that responded last, then
    /// the others in order.
    fn order(&self) -> Vec<usize> {
        let served = self.served.load(Ordering::Relaxed);
        let usable = |number: &usize| {
            let location = self.locations.get(*number);
            location.is_some_and(RouteLocation::is_usable)
        };
        let first = Some(served).filter(usable);
        let others = (0..self.locations.len()).filter(|number| Some(*number) != first);
        first.into_iter().chain(others.filter(usable)).collect()
    }
}

impl RouteLocation {
    fn is_usable(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }
}
