//! Pulling an image from wherever it is to be had: its mirrors in turn, then
//! its own registry; and only when the policy lets it in.
//!
//! [`Registries`] reads the files about mirrors and policy anew for each
//! [`Route`], which is the way to one image for one pass. Whatever serves it,
//! the image keeps the name that was asked for. Speaking to one registry is
//! left to `client`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Descriptor;
use crate::mirrors::{BadLocation, Endpoint, MirrorFiles, Mirrors, Told};
use crate::policy::{Admission, PolicyFiles, Signed, signatures};
use crate::reference::Reference;
use crate::registry::blob::BlobStream;
use crate::registry::client::{Client, Resolved, Settings};
use crate::registry::transport::Security;

/// How much of each place's failure the error of all repeats, in characters.
const MAX_SHOWN: usize = 600;
/// The most failures that it repeats.
const MOST_SHOWN: usize = 8;
/// The most hosts of which it is remembered how they were spoken to.
const MAX_HOSTS: usize = 4096;

/// All registries, with what is configured about them. Cheap to clone.
#[derive(Clone)]
pub struct Registries(Arc<Shared>);

struct Shared {
    /// One for each way of being sure whom we speak to.
    verified: Client,
    unverified: Client,
    plain: Client,
    mirrors: MirrorFiles,
    /// Which mistakes in those were told.
    told: Told,
    policy: PolicyFiles,
    /// How insecure hosts were spoken to when it last went well.
    spoken: Mutex<HashMap<String, Security>>,
}

/// The way to one image: where to ask, in which order, and what it has to be
/// signed with.
pub struct Route {
    shared: Arc<Shared>,
    requested: Reference,
    places: Vec<Place>,
    /// The place that answered last.
    served: AtomicUsize,
    admission: Admission,
}

struct Place {
    endpoint: Result<Endpoint, BadLocation>,
    /// Whether something of it could not be used.
    given_up: AtomicBool,
}

/// A place of a [`Route`], for [`Route::give_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceNumber(usize);

impl Registries {
    /// Fails when the certificates that count everywhere cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let verified = Client::new(settings)?;
        Ok(Self(Arc::new(Shared {
            unverified: verified.secured(Security::Unverified),
            plain: verified.secured(Security::Plain),
            verified,
            mirrors: settings.mirrors.clone(),
            told: Told::default(),
            policy: settings.policy.clone(),
            spoken: Mutex::default(),
        })))
    }

    /// The way to an image, by the files as they are now. Nothing is asked
    /// yet; an image that the policy rejects, or a file that cannot be used,
    /// ends it here.
    pub async fn route(&self, requested: &Reference) -> Result<Route, Error> {
        let shared = Arc::clone(&self.0);
        let reference = requested.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let admission = Admission::read(&shared.policy, &reference)?;
            let mirrors = Mirrors::read(&shared.mirrors)?;
            shared.told.tell(mirrors.unknown());
            Ok((admission, mirrors.endpoints(&reference)))
        });
        let read = reading.await.map_err(|error| Error::Setup {
            problem: format!("almanac failed: {error}"),
        })?;
        let (admission, endpoints) = read.map_err(|source| Error::File {
            reference: requested.clone(),
            source,
        })?;
        let admission = admission.map_err(|source| Error::Refused {
            reference: requested.clone(),
            source,
        })?;
        let place = |endpoint| Place {
            endpoint,
            given_up: AtomicBool::new(false),
        };
        Ok(Route {
            shared: Arc::clone(&self.0),
            requested: requested.clone(),
            places: endpoints.into_iter().map(place).collect(),
            served: AtomicUsize::new(usize::MAX),
            admission,
        })
    }
}

impl Route {
    /// The image, as it was asked for.
    pub fn requested(&self) -> &Reference {
        &self.requested
    }

    /// The repository that answered last (`HOST/REPOSITORY`); none before the
    /// first answer.
    pub fn served_by(&self) -> Option<String> {
        let place = self.places.get(self.served.load(Ordering::Relaxed))?;
        let endpoint = place.endpoint.as_ref().ok()?;
        Some(repository(&endpoint.reference))
    }

    /// The digest that the image is at (see [`Client::resolve`]).
    pub async fn resolve(&self) -> Result<Resolved, Error> {
        if let Some(digest) = self.requested.digest() {
            return Ok(Resolved {
                digest: *digest,
                media_type: None,
                size: None,
            });
        }
        Ok(self.each(&mut AskDigest).await?.1)
    }

    /// A manifest of the repository (see [`Client::manifest`]).
    pub async fn manifest(&self, digest: &Digest) -> Result<Bytes, Error> {
        Ok(self.each(&mut AskManifest(digest)).await?.1)
    }

    /// A blob of the repository (see [`Client::blob`]), and the place that it
    /// comes from.
    pub async fn blob(&self, descriptor: &Descriptor) -> Result<(PlaceNumber, BlobStream), Error> {
        let (place, stream) = self.each(&mut AskBlob(descriptor)).await?;
        Ok((PlaceNumber(place), stream))
    }

    /// Asks a place no more, as what came from there could not be used.
    /// Whether another one is left.
    pub fn give_up(&self, PlaceNumber(number): PlaceNumber, error: &Error) -> bool {
        if let Some(place) = self.places.get(number) {
            place.given_up.store(true, Ordering::Relaxed);
        }
        let left = self.places.iter().any(Place::is_usable);
        if left {
            tracing::warn!(
                image = %self.requested,
                error = told(error),
                "what came from a mirror cannot be used; the next place is asked"
            );
        }
        left
    }

    /// Whether the policy lets the image in: `digest` is that of its top-level
    /// document, `instance` that of the image that was chosen from it. A
    /// signature of either will do.
    pub async fn admit(&self, digest: &Digest, instance: Option<&Digest>) -> Result<(), Error> {
        let asked = self.admission.signed();
        if asked.is_empty() {
            return Ok(());
        }
        let mut digests = vec![*digest];
        digests.extend(instance.filter(|instance| *instance != digest));
        let mut missing: Vec<_> = asked.iter().collect();
        let mut problems = signatures::Problems::default();
        for number in self.order() {
            let Ok(endpoint) = &self.places[number].endpoint else {
                continue;
            };
            if endpoint.blocked.is_some() {
                continue;
            }
            for digest in &digests {
                let mut question = AskSignatures {
                    digest,
                    requested: &self.requested,
                    missing: &mut missing,
                    problems: &mut problems,
                };
                if let Err(error) = self.ask(endpoint, &mut question).await {
                    problems.failed(error);
                }
                if missing.is_empty() {
                    let served = repository(&endpoint.reference);
                    tracing::debug!(image = %self.requested, %digest, served, "signed as the policy asks");
                    return Ok(());
                }
            }
        }
        Err(match problems.into_failure() {
            // Who cannot be asked may have the signature.
            Ok(error) => error,
            Err(problem) => Error::Refused {
                reference: self.requested.clone(),
                source: self.admission.unsigned(problem),
            },
        })
    }

    /// Asks the places in turn until one answers, which is told.
    async fn each<Q: Question>(&self, question: &mut Q) -> Result<(usize, Q::Answer), Error> {
        let mut failures = Vec::new();
        let order = self.order();
        for (index, number) in order.iter().enumerate() {
            let answer = match &self.places[*number].endpoint {
                Err(bad) => Err(Error::Location {
                    reference: self.requested.clone(),
                    text: bad.text.clone(),
                    problem: bad.problem.clone(),
                }),
                Ok(endpoint) => match &endpoint.blocked {
                    Some(prefix) => Err(Error::Blocked {
                        reference: endpoint.reference.clone(),
                        prefix: prefix.clone(),
                    }),
                    None => self.ask(endpoint, question).await,
                },
            };
            match answer {
                Ok(answer) => {
                    if self.served.swap(*number, Ordering::Relaxed) != *number {
                        let served = self.served_by();
                        tracing::debug!(image = %self.requested, served, "a place answers");
                    }
                    return Ok((*number, answer));
                }
                Err(error) => {
                    if index + 1 < order.len() {
                        tracing::warn!(
                            image = %self.requested,
                            error = told(&error),
                            "a mirror cannot serve it; the next place is asked"
                        );
                    }
                    failures.push(error);
                }
            }
        }
        let moved = |error: &Error| {
            let asked = &self.places.first().map(|place| &place.endpoint);
            !matches!(error, Error::Location { .. })
                && matches!(asked, Some(Ok(endpoint)) if endpoint.reference != self.requested)
        };
        match failures.pop() {
            Some(error) if failures.is_empty() && !moved(&error) => Err(error),
            Some(error) => {
                failures.push(error);
                Err(Error::Places {
                    reference: self.requested.clone(),
                    told: all_told(&failures),
                    failures,
                })
            }
            None => Err(Error::Setup {
                problem: format!("there is no place to pull {} from", self.requested),
            }),
        }
    }

    /// Asks all places, and hands on what each of them answers.
    pub(crate) async fn all<Q: Question>(&self, question: &mut Q) -> Vec<Result<Q::Answer, Error>> {
        let mut answers = Vec::new();
        for number in self.order() {
            if let Ok(endpoint) = &self.places[number].endpoint
                && endpoint.blocked.is_none()
            {
                answers.push(self.ask(endpoint, question).await);
            }
        }
        answers
    }

    /// The places that are worth asking: the one that answered last, then the
    /// others in their order.
    fn order(&self) -> Vec<usize> {
        let served = self.served.load(Ordering::Relaxed);
        let usable = |number: &usize| self.places.get(*number).is_some_and(Place::is_usable);
        let first = Some(served).filter(usable);
        let others = (0..self.places.len()).filter(|number| Some(*number) != first);
        first.into_iter().chain(others.filter(usable)).collect()
    }

    /// Asks one place. An insecure one is asked over https with any
    /// certificate, then over plain http.
    async fn ask<Q: Question>(
        &self,
        endpoint: &Endpoint,
        question: &mut Q,
    ) -> Result<Q::Answer, Error> {
        let reference = &endpoint.reference;
        if !endpoint.insecure || self.shared.verified.is_plain(reference) {
            return question.ask(&self.shared.verified, reference).await;
        }
        let known = self.shared.spoken().get(reference.registry()).copied();
        if known == Some(Security::Plain) {
            let answer = question.ask(&self.shared.plain, reference).await;
            if !matches!(&answer, Err(error) if error.is_connection()) {
                return answer;
            }
            // It may speak TLS by now.
        }
        let (security, answer) = match question.ask(&self.shared.unverified, reference).await {
            Err(error) if error.is_connection() => {
                tracing::debug!(image = %reference, error = told(&error), "no TLS; plain http is tried");
                (
                    Security::Plain,
                    question.ask(&self.shared.plain, reference).await,
                )
            }
            answer => (Security::Unverified, answer),
        };
        if answer.is_ok() {
            let mut spoken = self.shared.spoken();
            if spoken.len() >= MAX_HOSTS {
                spoken.clear();
            }
            spoken.insert(reference.registry().to_owned(), security);
        }
        answer
    }
}

/// What a place is asked, with one client or another.
pub(crate) trait Question: Send {
    type Answer: Send;

    fn ask(
        &mut self,
        client: &Client,
        reference: &Reference,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

struct AskDigest;

impl Question for AskDigest {
    type Answer = Resolved;

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<Resolved, Error> {
        client.resolve(reference).await
    }
}

struct AskManifest<'a>(&'a Digest);

impl Question for AskManifest<'_> {
    type Answer = Bytes;

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<Bytes, Error> {
        client.manifest(reference, self.0).await
    }
}

struct AskBlob<'a>(&'a Descriptor);

impl Question for AskBlob<'_> {
    type Answer = BlobStream;

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<BlobStream, Error> {
        client.blob(reference, self.0).await
    }
}

struct AskSignatures<'a, 'b> {
    digest: &'a Digest,
    requested: &'a Reference,
    missing: &'a mut Vec<&'b Signed>,
    problems: &'a mut signatures::Problems,
}

impl Question for AskSignatures<'_, '_> {
    type Answer = ();

    async fn ask(&mut self, client: &Client, reference: &Reference) -> Result<(), Error> {
        let found = signatures::Search::new(client, reference, self.digest);
        let (missing, problems) = (&mut *self.missing, &mut *self.problems);
        found.check(missing, self.requested, problems).await
    }
}

impl Place {
    fn is_usable(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn spoken(&self) -> MutexGuard<'_, HashMap<String, Security>> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn repository(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}

/// An error with what it came from, on one line and bounded.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        next = cause.source();
    }
    text.chars().take(MAX_SHOWN).collect()
}

fn all_told(failures: &[Error]) -> String {
    // The last is the image's own place, of which most will want to know.
    let skipped = failures.len().saturating_sub(MOST_SHOWN);
    let shown: Vec<String> = failures[skipped..].iter().map(told).collect();
    shown.join("; ")
}
