//! One client for each level of security.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::error::{Error, causes};
use crate::mirrors::PullLocation;
use crate::pull::query::RegistryQuery;
use crate::registry::{Client, Security};
use crate::settings::Settings;

/// The most hosts whose level of security is kept.
const MAX_HOSTS: usize = 4096;

/// The clients for all registries.
pub(super) struct RegistryClients {
    verified: Client,
    unverified: Client,
    plain: Client,
    /// The level of security of each insecure host when it last responded.
    insecure_hosts: Mutex<HashMap<String, Security>>,
}

impl RegistryClients {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let verified = Client::new(settings)?;
        Ok(Self {
            unverified: verified.secured(Security::Unverified),
            plain: verified.secured(Security::Plain),
            verified,
            insecure_hosts: Mutex::default(),
        })
    }

    /// Runs a query at one location. An insecure one is tried over https with
    /// any certificate, then over plain http.
    pub(super) async fn run<Q: RegistryQuery>(
        &self,
        location: &PullLocation,
        query: &mut Q,
    ) -> Result<Q::Output, Error> {
        let reference = &location.reference;
        if !location.insecure || self.verified.is_plain(reference) {
            return query.run(&self.verified, reference).await;
        }
        let host = reference.registry();
        let known = self.insecure_hosts.lock().get(host).copied();
        if known == Some(Security::Plain) {
            let output = query.run(&self.plain, reference).await;
            if !matches!(&output, Err(error) if error.is_connection()) {
                return output;
            }
            // The host may have switched to TLS.
        }
        let (security, output) = match query.run(&self.unverified, reference).await {
            Err(error) if error.is_connection() => {
                let error = causes(&error);
                tracing::debug!(image = %reference, error, "no TLS connection; trying plain http");
                (Security::Plain, query.run(&self.plain, reference).await)
            }
            output => (Security::Unverified, output),
        };
        if output.is_ok() {
            let mut hosts = self.insecure_hosts.lock();
            if hosts.len() >= MAX_HOSTS {
                hosts.clear();
            }
            hosts.insert(host.to_owned(), security);
        }
        output
    }
}
