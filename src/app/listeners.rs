//! The listeners that all catalogs share. They are bound before any catalog is
//! read: a port in use is the most common mistake, so it is reported at once.

use crate::app::credentials::Credentials;
use crate::config::Config;
use crate::serve::{self, Listener};

/// The bound ports.
pub(super) struct Listeners {
    pub(super) grpc: Listener,
    pub(super) http: Listener,
    pub(super) admin: Listener,
}

impl Listeners {
    pub(super) async fn bind(config: &Config, credentials: &Credentials) -> anyhow::Result<Self> {
        let grpc = serve::bind("grpc", config.grpc).await?;
        let http = serve::bind("http", config.http).await?;
        Ok(Self {
            grpc: grpc.secured(credentials.grpc.clone()),
            http: http.secured(credentials.http.clone()),
            admin: serve::bind("admin", config.admin).await?,
        })
    }

    pub(super) fn log(&self) {
        for listener in [&self.grpc, &self.http, &self.admin] {
            log(listener);
        }
    }
}

/// Logs the address of a listener.
pub(super) fn log(listener: &Listener) {
    tracing::info!(
        service = listener.service(),
        address = %listener.address(),
        catalog = listener.catalog().map(tracing::field::display),
        tls = listener.has_tls(),
        "listening"
    );
}
