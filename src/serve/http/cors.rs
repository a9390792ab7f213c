//! Cross-origin requests (CORS): none are allowed by default.

use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_RANGES, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, LINK, RANGE, RETRY_AFTER,
};
use http::{HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::serve::http::catalogd::hint::HINT;

/// How long browsers may cache a preflight.
const MAX_AGE: Duration = Duration::from_hours(1);

/// The origins whose pages may send requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// No other origin.
    #[default]
    None,
    /// Any origin.
    Any,
    /// These origins (`scheme://host[:port]`).
    These(Vec<HeaderValue>),
}

/// The layer that answers preflights and sets the headers. It is outside of the
/// access layer, since a preflight never has a token.
pub(super) fn layer(origins: Origins) -> Option<CorsLayer> {
    let allowed = match origins {
        Origins::None => return None,
        Origins::Any => AllowOrigin::any(),
        Origins::These(origins) => AllowOrigin::list(origins),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        // POST is for GraphQL. Other routes reject it.
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
            HINT,
        ])
        .max_age(MAX_AGE);
    Some(layer)
}
