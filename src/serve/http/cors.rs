//! Pages of other origins that may ask: none, unless some are configured.

use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_RANGES, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, LINK, RANGE, RETRY_AFTER,
};
use http::{HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How long a browser may keep what it was allowed.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Pages that may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// None of another origin.
    #[default]
    None,
    /// All.
    Any,
    /// Those of these origins (`scheme://host[:port]`).
    These(Vec<HeaderValue>),
}

/// The layer that answers preflights and marks answers. It stands outside of
/// what asks for tokens, since a preflight never brings one.
pub(super) fn layer(origins: Origins) -> Option<CorsLayer> {
    let allowed = match origins {
        Origins::None => return None,
        Origins::Any => AllowOrigin::any(),
        Origins::These(origins) => AllowOrigin::list(origins),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        // POST is for questions that do not fit into a URL; a route that has
        // no use for it refuses it.
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers([
            ACCEPT,
            AUTHORIZATION,
            CONTENT_TYPE,
            IF_MATCH,
            IF_MODIFIED_SINCE,
            IF_NONE_MATCH,
            IF_RANGE,
            IF_UNMODIFIED_SINCE,
            RANGE,
        ])
        .expose_headers([
            ACCEPT_RANGES,
            CONTENT_ENCODING,
            CONTENT_LENGTH,
            CONTENT_RANGE,
            ETAG,
            LAST_MODIFIED,
            LINK,
            RETRY_AFTER,
        ])
        .max_age(MAX_AGE);
    Some(layer)
}
