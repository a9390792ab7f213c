//! Catalogs to follow, from `ClusterCatalogs`: the images that their status announces,
//! or, where almanac resolves them itself, those of their specification.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use crate::kubernetes::announcer::{Announcer, resolved_reference};
use crate::kubernetes::own::image::image;
use crate::kubernetes::stored;
use crate::kubernetes::watched::Objects;
use crate::name::CatalogName;
use crate::snapshot::{AnnouncedBy, Catalogs};
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
    /// The time between two polls; `None` is never.
    pub poll: Option<Duration>,
    /// The party that announces its digests.
    pub announced: AnnouncedBy,
}

/// A catalog in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: CatalogName,
    /// The image to follow.
    image: String,
    poll_seconds: Option<u64>,
    /// Whether almanac resolved it itself.
    resolved: bool,
    /// The announced image, by digest.
    announced: Option<String>,
}

/// Follows the images of all `ClusterCatalogs`.
pub(super) struct Following {
    pub(super) objects: watch::Receiver<Option<Objects>>,
    pub(super) announcer: Arc<Announcer>,
    /// Receives the catalogs that the cluster sets unavailable.
    pub(super) catalogs: Catalogs,
    /// Whether almanac resolves the catalogs itself now, if it ever does.
    pub(super) resolves: Option<watch::Receiver<bool>>,
    pub(super) found: watch::Sender<Arc<[DiscoveredCatalog]>>,
    /// Keeps the last catalogs, so that a start needs no API server.
    pub(super) file: PathBuf,
    /// The content of that file, if it was written since the start.
    pub(super) written: Vec<u8>,
}

impl Following {
    /// Finds the catalogs of an earlier start. Returns whether they are known, which may
    /// be none.
    pub(super) async fn restore(&self) -> bool {
        let file = self.file.clone();
        let read = move || stored::read(&file, MAX_FILE);
        let content = tokio::task::spawn_blocking(read).await.ok().flatten();
        let stored = content.and_then(|content| serde_json::from_slice(&content).ok());
        let Some(stored): Option<Vec<Stored>> = stored else {
            return false;
        };
        let announced = stored.iter().map(|stored| {
            let reference = stored.announced.as_deref();
            let reference = reference.and_then(|reference| reference.parse().ok());
            (stored.name.to_string(), reference)
        });
        self.announcer.set(announced);
        let catalogs = stored.into_iter().filter_map(|stored| {
            let reference: Reference = stored.image.parse().ok()?;
            let announced = if stored.resolved {
                AnnouncedBy::Almanac
            } else {
                AnnouncedBy::Another
            };
            Some(DiscoveredCatalog {
                name: stored.name,
                reference,
                poll: stored.poll_seconds.map(Duration::from_secs),
                announced,
            })
        });
        self.found.send_replace(catalogs.collect());
        true
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
            let changed = tokio::select! {
                changed = self.objects.changed() => changed,
                changed = changed(self.resolves.as_mut()) => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Publishes the catalogs if they differ from the last ones, and the first ones in
    /// any case: somebody waits for them.
    async fn take(&mut self, objects: &Objects, is_first: bool) {
        let announced = objects.iter();
        let announced = announced.map(|(name, one)| (name.clone(), resolved_reference(one)));
        // Before anything slow: requests are compared with it.
        self.announcer.set(announced);
        let unavailable = objects.values().filter(|object| is_unavailable(object));
        let unavailable =
            unavailable.filter_map(|object| object.metadata.name.as_deref()?.parse().ok());
        self.catalogs.set_unavailable(unavailable.collect());
        let resolves = self.resolves.as_ref();
        let resolves = resolves.is_some_and(|resolves| *resolves.borrow());
        let named = |object: &Arc<DynamicObject>| {
            if resolves {
                specified(object)
            } else {
                discovered(object)
            }
        };
        let catalogs: Arc<[DiscoveredCatalog]> = objects.values().filter_map(named).collect();
        self.keep(&catalogs, objects).await;
        let is_same = *self.found.borrow() == catalogs;
        if is_first || !is_same {
            self.found.send_replace(catalogs);
        }
    }

    /// Keeps the catalogs and what is announced of them for the next start.
    async fn keep(&mut self, catalogs: &[DiscoveredCatalog], objects: &Objects) {
        let stored = catalogs.iter().map(|catalog| {
            let object = objects.get(catalog.name.as_str());
            let announced = object.and_then(|object| resolved_reference(object));
            Stored {
                name: catalog.name.clone(),
                image: catalog.reference.to_string(),
                poll_seconds: catalog.poll.map(|poll| poll.as_secs()),
                resolved: catalog.announced == AnnouncedBy::Almanac,
                announced: announced.map(|reference| reference.to_string()),
            }
        });
        let stored: Vec<Stored> = stored.collect();
        let content = serde_json::to_vec(&stored).unwrap_or_default();
        if content == self.written {
            return;
        }
        let (file, written) = (self.file.clone(), content.clone());
        let writing = tokio::task::spawn_blocking(move || stored::write(&file, &written));
        match writing.await {
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot keep the catalogs of the cluster for the next start");
            }
            _ => self.written = content,
        }
    }
}

/// Waits until the role of this almanac changes, if it ever does.
async fn changed(resolves: Option<&mut watch::Receiver<bool>>) -> Result<(), RecvError> {
    match resolves {
        Some(resolves) => resolves.changed().await,
        None => std::future::pending().await,
    }
}

/// Whether the specification sets the catalog unavailable.
fn is_unavailable(object: &DynamicObject) -> bool {
    object.data["spec"]["availabilityMode"] == "Unavailable"
}

/// The catalog whose image almanac resolves itself.
fn specified(object: &Arc<DynamicObject>) -> Option<DiscoveredCatalog> {
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    if is_deleted || is_unavailable(object) {
        return None;
    }
    let name = object.metadata.name.as_deref()?.parse().ok()?;
    // The status says why an image cannot be used.
    let image = image(object).ok()?;
    Some(DiscoveredCatalog {
        name,
        reference: image.reference,
        poll: image.poll,
        announced: AnnouncedBy::Almanac,
    })
}

/// The catalog whose image the status announces.
fn discovered(object: &Arc<DynamicObject>) -> Option<DiscoveredCatalog> {
    let name = object.metadata.name.as_deref()?.parse().ok()?;
    let reference = resolved_reference(object)?;
    Some(DiscoveredCatalog {
        name,
        reference,
        poll: None,
        announced: AnnouncedBy::Another,
    })
}
