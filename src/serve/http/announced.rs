//! Answers for catalogs of a cluster: exactly the content that the cluster
//! announces, or 503. A client asks once per announced reference and keeps the
//! answer, so older content under a newer reference would stay there. Newer content
//! that almanac is about to announce is served.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;

use crate::name::CatalogName;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::catalogd::content::reader;
use crate::serve::http::guard::CatalogRoute;
use crate::serve::http::rejection::HttpRejection;
use crate::snapshot::{Announced, AnnouncedBy, Announcements, Catalog, Catalogs};
use ::images::digest::Digest;

/// Compares the served digests with the announced ones.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) catalogs: Catalogs,
    pub(super) announcements: Arc<dyn Announcements>,
}

impl Gate {
    /// Whether almanac itself announces the digests of a catalog.
    fn is_announcer_of(&self, name: &CatalogName) -> bool {
        let catalog = self.catalogs.get(name.as_str());
        catalog.is_some_and(|catalog| catalog.routing.announced == AnnouncedBy::Almanac)
    }

    /// Whether the served content may be an answer while this digest is announced.
    fn may_serve(&self, name: &CatalogName, digest: Digest, since: Instant) -> bool {
        let catalog = self.catalogs.get(name.as_str());
        catalog.is_some_and(|catalog| may_serve(&catalog, digest, since))
    }
}

/// Whether a catalog serves this digest, or newer content that almanac is about to
/// announce. Content from before the announcement may be older: another replica, or
/// catalogd, may have announced the digest.
fn may_serve(catalog: &Catalog, digest: Digest, since: Instant) -> bool {
    let Some(snapshot) = catalog.snapshot() else {
        return false;
    };
    snapshot.revision().digest == digest
        || catalog.routing.announced == AnnouncedBy::Almanac && catalog.was_resolved_after(since)
}

/// Passes a request on if the announced digest of its catalog is served, or what
/// almanac announces next, before and after the response is made.
pub(super) async fn only_announced(
    State(gate): State<Gate>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let route = CatalogRoute::of(&mut parts).await;
    let request = Request::from_parts(parts, body);
    let CatalogRoute::Named(name) = route else {
        return next.run(request).await;
    };
    let is_hidden = reader(&request).find(&gate.catalogs, &name).is_none();
    if is_hidden || !gate.catalogs.is_announced(&name) {
        return next.run(request).await;
    }
    let Ok(name) = name.parse::<CatalogName>() else {
        return next.run(request).await;
    };
    match gate.announcements.announced(name.as_str()).await {
        Announced::Unknown => next.run(request).await,
        // The first digest is served before it is announced.
        Announced::Nothing if gate.is_announcer_of(&name) => next.run(request).await,
        Announced::Nothing => {
            let problem = Problem::unannounced(&name);
            HttpRejection::UnknownCatalog(Box::new(problem)).into_response()
        }
        Announced::Digest { digest, since } => {
            let may_serve = || gate.may_serve(&name, digest, since);
            if may_serve() {
                let response = next.run(request).await;
                if may_serve() {
                    return response;
                }
            }
            HttpRejection::NotAnnounced(name).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::snapshot::testing::Stored;
    use crate::snapshot::{Publisher, Routing};

    const SOURCE: &str = "registry.example/catalog:v1";

    /// A catalog whose served revision is of `SOURCE`.
    async fn served(by: AnnouncedBy) -> (Arc<Catalog>, Publisher, Stored) {
        let name: CatalogName = "a".parse().unwrap();
        let stored = Stored::new(&name, SOURCE).await;
        let routing = Routing {
            announced: by,
            ..Routing::default()
        };
        let (catalogs, mut publishers) = Catalogs::new([(name, routing)], None);
        let publisher = publishers.remove(0);
        publisher.publish(stored.open());
        publisher.update(|status| status.set_source(SOURCE.to_owned()));
        (catalogs.get("a").unwrap(), publisher, stored)
    }

    #[tokio::test]
    async fn the_announcer_serves_content_that_is_newer_than_the_announced_digest() {
        let (catalog, publisher, _stored) = served(AnnouncedBy::Almanac).await;
        let (own, other) = (Digest::of(b""), Digest::of(b"other"));
        let announced = Instant::now();
        let later = announced + Duration::from_secs(1);
        // From the disk: it may be older or newer.
        assert!(may_serve(&catalog, own, announced));
        assert!(!may_serve(&catalog, other, announced));
        publisher.update(|status| status.set_resolved(later));
        assert!(may_serve(&catalog, other, announced));
        // Another replica or catalogd has announced a digest since then.
        assert!(!may_serve(&catalog, other, later + Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn content_of_another_image_is_not_newer_than_the_announced_digest() {
        let (catalog, publisher, _stored) = served(AnnouncedBy::Almanac).await;
        let announced = Instant::now();
        let other = Digest::of(b"other");
        publisher.update(|status| status.set_resolved(announced));
        assert!(may_serve(&catalog, other, announced));
        // The specification names another image, and it is not pulled yet.
        publisher.update(|status| status.set_source("registry.example/catalog:v2".to_owned()));
        assert!(!may_serve(&catalog, other, announced));
        publisher.update(|status| status.set_resolved(announced));
        assert!(!may_serve(&catalog, other, announced));
    }

    #[tokio::test]
    async fn a_follower_serves_the_announced_digest_alone() {
        let (catalog, publisher, _stored) = served(AnnouncedBy::Another).await;
        let announced = Instant::now();
        publisher.update(|status| status.set_resolved(announced));
        assert!(may_serve(&catalog, Digest::of(b""), announced));
        assert!(!may_serve(&catalog, Digest::of(b"other"), announced));
    }
}
