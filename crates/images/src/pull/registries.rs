//! All registries, with the files about mirrors and the policy.

use std::sync::Arc;

use crate::error::Error;
use crate::mirrors::{MirrorFiles, Mirrors, RemarkLog};
use crate::policy::{Admission, PolicyError, PolicyFiles, PolicySubject};
use crate::pull::clients::RegistryClients;
use crate::pull::route::{Route, SignaturePlaces};
use crate::reference::Reference;
use crate::settings::Settings;
use crate::signatures::SignatureStores;

/// All registries with their configuration. Cheap to clone.
#[derive(Clone)]
pub struct Registries(Arc<Shared>);

struct Shared {
    clients: Arc<RegistryClients>,
    mirrors: MirrorFiles,
    any_certificate: bool,
    remarks: RemarkLog,
    policy: PolicyFiles,
    bundle_scopes: Vec<String>,
}

impl Registries {
    /// Fails when the certificates for all registries cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self(Arc::new(Shared {
            clients: Arc::new(RegistryClients::new(settings)?),
            mirrors: settings.mirrors.clone(),
            any_certificate: settings.any_certificate,
            remarks: RemarkLog::default(),
            policy: settings.policy.clone(),
            bundle_scopes: settings.bundle_scopes.clone(),
        })))
    }

    /// The route to an image, by the current content of the files. Sends no
    /// request yet. Fails when the policy rejects the image, or when a file
    /// cannot be used.
    pub async fn route(&self, requested: &Reference) -> Result<Route, Error> {
        let read = |policy: &PolicyFiles, subject: &PolicySubject| Admission::read(policy, subject);
        self.route_with(requested, read).await
    }

    /// The route to an image, also to one that the policy rejects, to ask for
    /// the verdict on it with [`Route::judge`].
    pub async fn unjudged_route(&self, requested: &Reference) -> Result<Route, Error> {
        let read = |policy: &PolicyFiles, subject: &PolicySubject| {
            Ok(Admission::unjudged(policy, subject)?)
        };
        self.route_with(requested, read).await
    }

    async fn route_with(
        &self,
        requested: &Reference,
        read: impl Fn(&PolicyFiles, &PolicySubject) -> Result<Admission, PolicyError> + Send + 'static,
    ) -> Result<Route, Error> {
        let shared = Arc::clone(&self.0);
        let reference = requested.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let subject = PolicySubject::Registry(reference.clone());
            let admission = read(&shared.policy, &subject)?;
            let stores = if admission.needs_signature() {
                SignatureStores::read(&shared.policy.stores)?
            } else {
                SignatureStores::default()
            };
            let mirrors = Mirrors::read(&shared.mirrors)?;
            shared.remarks.warn(mirrors.remarks());
            let scopes = subject.scopes();
            let digest_suffices = (shared.bundle_scopes.iter()).any(|scope| scopes.contains(scope));
            let signatures = SignaturePlaces {
                stores,
                digest_suffices,
            };
            let mut locations = mirrors.locations(&reference);
            for location in locations.iter_mut().flatten() {
                location.insecure |= shared.any_certificate;
            }
            Ok((admission, locations, signatures))
        });
        let read = reading.await.map_err(|error| Error::Setup {
            problem: format!("reading the files about {requested} failed: {error}"),
        })?;
        let (admission, locations, signatures) = read.map_err(|error| match error {
            PolicyError::File(source) => Error::File {
                reference: requested.clone(),
                source,
            },
            PolicyError::Rejected(source) => Error::Rejected {
                reference: requested.clone(),
                source,
            },
        })?;
        let clients = Arc::clone(&self.0.clients);
        Ok(Route::new(
            clients, requested, locations, admission, signatures,
        ))
    }

    /// The files of the policy.
    pub fn policy(&self) -> &PolicyFiles {
        &self.0.policy
    }
}
