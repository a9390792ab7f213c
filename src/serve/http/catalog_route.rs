//! The catalog that a request is for, as its route names it.

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams};
use http::request::Parts;

/// Routes whose first parameter is the name of a catalog begin with this.
const CATALOGS: &str = "/catalogs/{";

/// The part of the API that a request is for.
pub(super) enum CatalogRoute {
    /// A route of the catalog of this name, which may not exist.
    Named(String),
    /// A route of a catalog whose name is not UTF-8.
    Invalid,
    /// Any other path.
    Elsewhere,
}

impl CatalogRoute {
    /// Reads the name as the routes do, escapes included.
    pub(super) async fn of(parts: &mut Parts) -> Self {
        let route = parts.extensions.get::<MatchedPath>();
        if !route.is_some_and(|route| route.as_str().starts_with(CATALOGS)) {
            return Self::Elsewhere;
        }
        let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else {
            return Self::Invalid;
        };
        match parameters.iter().next() {
            Some((_, name)) => Self::Named(name.to_owned()),
            None => Self::Invalid,
        }
    }
}
