//! Answers for catalogs of a cluster: exactly the content that the cluster
//! announces, or 503. A client asks once per announced reference and keeps the
//! answer, so older content under a newer reference would stay there.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::name::CatalogName;
use crate::serve::http::guard::CatalogRoute;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::rejection::HttpRejection;
use crate::snapshot::{Announced, Announcements, Catalogs};
use ::images::digest::Digest;

/// Compares the served digests with the announced ones.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) catalogs: Catalogs,
    pub(super) announcements: Arc<dyn Announcements>,
}

impl Gate {
    fn served(&self, catalog: &CatalogName) -> Option<Digest> {
        let snapshot = self.catalogs.get(catalog.as_str())?.snapshot()?;
        Some(snapshot.revision().digest)
    }
}

/// Passes a request on if the announced digest of its catalog is served, before
/// and after the response is made.
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
    if !gate.catalogs.is_announced(&name) {
        return next.run(request).await;
    }
    let Ok(name) = name.parse::<CatalogName>() else {
        return next.run(request).await;
    };
    match gate.announcements.announced(name.as_str()).await {
        Announced::Unknown => next.run(request).await,
        Announced::Nothing => {
            let problem = Problem::unannounced(&name);
            HttpRejection::UnknownCatalog(Box::new(problem)).into_response()
        }
        Announced::Digest(digest) => {
            let is_served = || gate.served(&name) == Some(digest);
            if is_served() {
                let response = next.run(request).await;
                if is_served() {
                    return response;
                }
            }
            HttpRejection::NotAnnounced(name).into_response()
        }
    }
}
