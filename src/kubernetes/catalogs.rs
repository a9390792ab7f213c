//! Catalogs to follow, from the `ClusterCatalogs` that catalogd resolves.

use std::path::PathBuf;
use std::sync::Arc;

use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::kubernetes::announcer::{Announcer, resolved_reference};
use crate::kubernetes::files;
use crate::kubernetes::watched::Objects;
use crate::name::CatalogName;
use images::Reference;

/// The longest file with the last catalogs, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A catalog that the cluster names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredCatalog {
    /// Its name.
    pub name: CatalogName,
    /// Its image.
    pub reference: Reference,
}

/// A catalog in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: CatalogName,
    image: String,
}

/// Follows the resolved images of all `ClusterCatalogs`.
pub(super) struct Following {
    pub(super) objects: watch::Receiver<Option<Objects>>,
    pub(super) announcer: Arc<Announcer>,
    pub(super) found: watch::Sender<Arc<[DiscoveredCatalog]>>,
    /// Keeps the last catalogs, so that a start needs no API server.
    pub(super) file: PathBuf,
}

impl Following {
    /// Finds the catalogs of an earlier start. Returns whether there are any.
    pub(super) async fn restore(&self) -> bool {
        let file = self.file.clone();
        let read = move || files::read(&file, MAX_FILE);
        let content = tokio::task::spawn_blocking(read).await.ok().flatten();
        let stored = content.and_then(|content| serde_json::from_slice(&content).ok());
        let stored: Vec<Stored> = stored.unwrap_or_default();
        let catalogs = stored.into_iter().filter_map(|stored| {
            let reference: Reference = stored.image.parse().ok()?;
            Some(DiscoveredCatalog {
                name: stored.name,
                reference,
            })
        });
        let catalogs: Vec<_> = catalogs.collect();
        let announced = catalogs.iter();
        let announced = announced.map(|one| (one.name.to_string(), Some(one.reference.clone())));
        self.announcer.set(announced);
        let any = !catalogs.is_empty();
        self.found.send_replace(catalogs.into());
        any
    }

    /// Follows changes.
    pub(super) async fn run(mut self) {
        let mut is_first = true;
        loop {
            let objects = self.objects.borrow_and_update().clone();
            if let Some(objects) = objects {
                self.take(&objects, is_first).await;
                is_first = false;
            }
            if self.objects.changed().await.is_err() {
                return;
            }
        }
    }

    /// Publishes the catalogs if they differ from the last ones, and the first ones in
    /// any case: somebody waits for them.
    async fn take(&self, objects: &Objects, is_first: bool) {
        let announced = objects.iter();
        let announced = announced.map(|(name, one)| (name.clone(), resolved_reference(one)));
        // Before anything slow: requests are compared with it.
        self.announcer.set(announced);
        let catalogs: Arc<[DiscoveredCatalog]> = objects.values().filter_map(discovered).collect();
        let is_same = *self.found.borrow() == catalogs;
        if is_same {
            if is_first {
                self.found.send_replace(catalogs);
            }
            return;
        }
        let stored = catalogs.iter().map(|catalog| Stored {
            name: catalog.name.clone(),
            image: catalog.reference.to_string(),
        });
        let stored: Vec<Stored> = stored.collect();
        let file = self.file.clone();
        let content = serde_json::to_vec(&stored).unwrap_or_default();
        let writing = tokio::task::spawn_blocking(move || files::write(&file, &content));
        if let Ok(Err(error)) = writing.await {
            tracing::warn!(%error, "cannot keep the catalogs of the cluster for the next start");
        }
        self.found.send_replace(catalogs);
    }
}

fn discovered(object: &Arc<DynamicObject>) -> Option<DiscoveredCatalog> {
    let name = object.metadata.name.as_deref()?.parse().ok()?;
    let reference = resolved_reference(object)?;
    Some(DiscoveredCatalog { name, reference })
}
