//! The gRPC port that belongs to one catalog.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;

use crate::name::CatalogName;
use crate::serve::{self, Listener};

/// How long to wait for a port that another catalog releases.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts to bind it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A catalog's own port.
pub(super) enum Port {
    /// The catalog has none.
    None,
    /// The port is bound.
    Bound(Listener),
    /// Another catalog holds it until the new configuration is active.
    HeldByOther(SocketAddr),
}

impl Port {
    /// The listener, once the port is free.
    pub(super) async fn listener(self, name: &CatalogName) -> Option<Listener> {
        let address = match self {
            Self::None => return None,
            Self::Bound(listener) => return Some(listener),
            Self::HeldByOther(address) => address,
        };
        // The last accept of the other listener may still be finishing.
        let bound = tokio::time::timeout(RELEASE_TIMEOUT, async {
            loop {
                match bind(name, address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
                }
            }
        });
        let listener = bound.await.ok();
        if listener.is_none() {
            tracing::error!(
                catalog = %name, %address,
                "the port of the catalog is still in use, so the catalog has no port of its own"
            );
        }
        listener
    }
}

/// Binds the port of a catalog.
pub(super) async fn bind(name: &CatalogName, address: SocketAddr) -> anyhow::Result<Listener> {
    let bound = serve::bind("grpc", address)
        .await
        .with_context(|| format!("port of the catalog {name}"))?;
    Ok(bound.of_catalog(name.clone()))
}
