//! One catalog with its follower, access rule and port.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::app::catalog_manager::shared::{Shared, Task};
use crate::app::catalog_manager::tasks::Tasks;
use crate::config::CatalogConfig;
use crate::ingest::{self, PassContext, Source};
use crate::name::CatalogName;
use crate::serve::access::Rule;
use crate::snapshot::{Catalog, ImagePublisher, ImageSlot, Mirrored, Publisher, Routing};

/// A catalog that is followed and served.
pub(super) struct Member {
    pub(super) config: CatalogConfig,
    pub(super) catalog: Arc<Catalog>,
    publisher: Publisher,
    pub(super) image: ImageSlot,
    image_publisher: ImagePublisher,
    /// The tasks that follow the catalog, maintain its image and verify its files.
    /// `None` before they start.
    work: Option<Vec<Task>>,
    pub(super) rule: Rule,
    pub(super) tokens: Option<Task>,
    pub(super) port: Option<Task>,
}

impl Member {
    /// A new catalog, with the revision that the store has of it.
    pub(super) async fn restored(
        config: &CatalogConfig,
        shared: &Shared,
        context: &PassContext,
    ) -> Self {
        let followed = config.followed();
        let (catalog, publisher) = shared.publisher.slot(config.name.clone(), routing(config));
        ingest::restore(context, &followed, &publisher).await;
        let (image, image_publisher) = ImageSlot::new();
        ingest::restore_image(context, &publisher, &followed, &image_publisher).await;
        Self {
            config: config.clone(),
            catalog: Arc::new(catalog),
            publisher,
            image,
            image_publisher,
            work: None,
            rule: Rule::default(),
            tokens: None,
            port: None,
        }
    }

    /// The same catalog under a new configuration. Its follower keeps running
    /// unless the source, the image or the pass context changes.
    pub(super) async fn reconfigured(
        mut self,
        config: &CatalogConfig,
        context_changed: bool,
        shared: &Shared,
        context: &PassContext,
    ) -> Self {
        let old = std::mem::replace(&mut self.config, config.clone());
        let followed = config.followed();
        if old.followed() != followed || context_changed {
            self.end_work().await;
            if old.source != config.source {
                log_new_source(config, &old.source);
            }
            let snapshot = self.publisher.snapshot();
            if snapshot.is_none_or(|snapshot| followed.may_serve(snapshot.revision())) {
                let source = followed.source.to_string();
                self.publisher.update(|status| status.set_source(source));
            } else {
                let restored = Self::restored(config, shared, context).await;
                self.catalog = restored.catalog;
                self.publisher = restored.publisher;
                self.image = restored.image;
                self.image_publisher = restored.image_publisher;
            }
        }
        let routing = routing(config);
        if self.catalog.routing != routing {
            self.catalog = Arc::new(self.catalog.routed(routing));
        }
        self
    }

    /// Starts to follow the catalog, to maintain its image and to verify its files,
    /// unless that runs already. In offline mode only curated catalogs whose origins
    /// are all `available` are followed; of others, an image is made of the files, and what
    /// a fleet publishes is received.
    pub(super) fn start(
        &mut self,
        shared: &Shared,
        context: &PassContext,
        available: &BTreeSet<CatalogName>,
    ) {
        if self.work.is_some() {
            return;
        }
        let followed = self.config.followed();
        let source = followed.source.clone();
        let publisher = self.publisher.clone();
        let tasks = Tasks::new(
            shared,
            context,
            followed,
            publisher.clone(),
            self.image_publisher.clone(),
        );
        let mut work = vec![tasks.scrub()];
        work.extend(tasks.receive());
        // Of a fleet, sources may come with an import.
        let is_curated = matches!(source, Source::Curated(_)) && tasks.is_of_fleet();
        let can_be_made = is_curated || can_be_curated(&source, available);
        if !shared.offline || (can_be_made && !shared.read_only) {
            publisher.update(|status| status.blocked = None);
            work.extend([tasks.image(), tasks.follow()]);
        } else {
            let is_stored = publisher.snapshot().is_some();
            let blocked = self.blocked(&source, tasks.is_of_fleet());
            publisher.update(|status| {
                status.first_attempt_done = true;
                status.blocked = blocked;
            });
            // An image of the files needs no network, and neither do signatures of a
            // stored one.
            let stored = publisher.snapshot().map(|snapshot| snapshot.revision().id);
            let image = self.image_publisher.image().map(|image| image.revision);
            let is_missing = image != stored || context.signing_key.is_some();
            let is_slim = self.config.mirror == ingest::Mirror::Slim;
            let is_needed = tasks.is_of_fleet() || (is_stored && is_missing);
            if is_slim && is_needed && !shared.read_only {
                work.push(tasks.image());
            }
        }
        self.work = Some(work);
    }

    /// Why nothing of a catalog is served that is not followed.
    fn blocked(&self, source: &Source, in_fleet: bool) -> Option<String> {
        let status = self.publisher.status();
        // Damaged files may be repaired.
        if self.publisher.snapshot().is_some() || status.is_damaged() {
            return None;
        }
        if in_fleet {
            return Some(
                "offline, and the fleet has no revision of the catalog: import one".to_owned(),
            );
        }
        if let Some(other) = status.other_source {
            // It is logged already.
            return Some(format!(
                "offline, and the stored revision is of {other}, not of {source}: configure the \
                 same source on both sides, or import a catalog of this one"
            ));
        }
        let reason = "offline, and no revision of the catalog is stored: import one";
        tracing::warn!(catalog = %self.config.name, "{reason}");
        Some(reason.to_owned())
    }

    /// Stops to follow the catalog.
    pub(super) async fn end_work(&mut self) {
        for task in self.work.take().into_iter().flatten() {
            task.end().await;
        }
    }
}

fn log_new_source(config: &CatalogConfig, old: &Source) {
    let catalog = &config.name;
    let (from, to) = (old.to_string(), config.source.to_string());
    match (old, &config.source) {
        (Source::Curated(old), Source::Curated(new)) if from == to => {
            if old.request != new.request {
                tracing::info!(%catalog, source = to, "the catalog has a new selection");
            }
            if old.track_identities != new.track_identities {
                tracing::info!(
                    %catalog, source = to,
                    "a source of the curated catalog has a new configuration"
                );
            }
        }
        _ => tracing::info!(%catalog, %from, %to, "the catalog has a new source"),
    }
}

/// The repository that a catalog mirrors in full.
pub(super) fn mirrored(catalog: &CatalogConfig) -> Option<Mirrored> {
    match &catalog.source {
        Source::Image(reference) if catalog.mirror == ingest::Mirror::Full => Some(Mirrored {
            registry: reference.registry().to_owned(),
            repository: reference.repository().to_owned(),
        }),
        _ => None,
    }
}

fn routing(catalog: &CatalogConfig) -> Routing {
    Routing {
        authorities: catalog.authorities.clone(),
        withheld: !catalog.available,
        announced: catalog.announced,
    }
}

/// The catalogs that are available in offline mode: those with a stored revision,
/// and the curated ones that can be made from these.
pub(super) fn available(members: &[Member]) -> BTreeSet<CatalogName> {
    let stored = members
        .iter()
        .filter(|member| member.publisher.snapshot().is_some());
    let mut names: BTreeSet<CatalogName> =
        stored.map(|member| member.config.name.clone()).collect();
    loop {
        let known = names.len();
        for member in members {
            if can_be_curated(&member.config.source, &names) {
                names.insert(member.config.name.clone());
            }
        }
        if names.len() == known {
            return names;
        }
    }
}

/// Whether a catalog is curated and all its origins are `available`.
fn can_be_curated(source: &Source, available: &BTreeSet<CatalogName>) -> bool {
    match source {
        Source::Curated(curation) => curation.from.iter().all(|name| available.contains(name)),
        _ => false,
    }
}
