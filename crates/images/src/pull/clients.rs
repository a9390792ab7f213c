//! One client for each level of security.

use quick_cache::sync::Cache;

use crate::error::{Error, causes};
use crate::mirrors::PullLocation;
use crate::reference::Reference;
use crate::registry::{Client, Security};
use crate::settings::Settings;

/// The most hosts whose level of security is kept. Further ones replace those
/// used least.
const MAX_HOSTS: usize = 4096;

/// The clients for all registries.
pub(super) struct RegistryClients {
    verified: Client,
    unverified: Client,
    plain: Client,
    /// The level of security of each insecure host when it last responded.
    insecure_hosts: Cache<String, Security>,
}

impl RegistryClients {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let verified = Client::new(settings)?;
        Ok(Self {
            unverified: verified.secured(Security::Unverified),
            plain: verified.secured(Security::Plain),
            verified,
            insecure_hosts: Cache::new(MAX_HOSTS),
        })
    }

    /// Runs a query at one location. An insecure one is tried over https with
    /// any certificate, then over plain http.
    pub(super) async fn run<T, F: Future<Output = Result<T, Error>>>(
        &self,
        location: &PullLocation,
        query: impl Fn(Client, Reference) -> F,
    ) -> Result<T, Error> {
        let query = |client: &Client| query(client.clone(), location.reference.clone());
        let reference = &location.reference;
        if !location.insecure || self.verified.is_insecure(reference) {
            return query(&self.verified).await;
        }
        let host = reference.registry();
        if self.insecure_hosts.get(host) == Some(Security::Plain) {
            let output = query(&self.plain).await;
            let base = self.plain.address(reference)?;
            if !matches!(&output, Err(error) if error.is_connection_to(&base)) {
                return output;
            }
            // The host may have switched to TLS.
        }
        let base = self.unverified.address(reference)?;
        let (security, output) = match query(&self.unverified).await {
            // Failures of other hosts, such as token services, change nothing.
            Err(error) if error.is_connection_to(&base) => {
                let error = causes(&error);
                tracing::debug!(image = %reference, error, "no TLS connection; trying plain http");
                (Security::Plain, query(&self.plain).await)
            }
            output => (Security::Unverified, output),
        };
        if output.is_ok() {
            self.insecure_hosts.insert(host.to_owned(), security);
        }
        output
    }
}
