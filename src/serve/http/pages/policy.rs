//! The headers of all pages: nothing from elsewhere, no inline code, no frames.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};

/// The media type of pages.
pub(super) const HTML: &str = "text/html; charset=utf-8";
/// Permissions of a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Adds them to the pages of routes.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let private = is_private(&request);
    let mut response = next.run(request).await;
    set(&mut response, private);
    response
}

/// Whether the response may depend on the client's credentials.
pub(super) fn is_private(request: &Request) -> bool {
    request.headers().contains_key(AUTHORIZATION)
}

/// Marks the response to a request for a page. An answer 304 has no media type, and
/// caches take its headers for the stored response.
#[derive(Clone, Copy)]
pub(super) struct OfPage;

/// Adds them to a response, if it is a page.
pub(super) fn set(response: &mut Response, private: bool) {
    let not_modified = response.status() == StatusCode::NOT_MODIFIED;
    let of_page = response.extensions().get::<OfPage>().is_some();
    let headers = response.headers_mut();
    let is_page = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == HTML);
    if !(is_page || not_modified && of_page) {
        return;
    }
    for (name, value) in [
        (CONTENT_SECURITY_POLICY.as_str(), POLICY),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if private {
        let control = HeaderValue::from_static("private, no-cache");
        headers.insert(CACHE_CONTROL, control);
    }
}
