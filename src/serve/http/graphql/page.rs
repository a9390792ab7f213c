//! A page to write queries in, for browsers. It loads nothing from elsewhere:
//! there may be no network.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};

use crate::serve::fields::header;
use crate::serve::http::headers::no_sniffing;
use ::images::digest::Digest;

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The page with its script and style, and the policy that allows only these.
static PAGE: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
    let page = include_str!("page.html")
        .replace("/* style */", STYLE)
        .replace("/* script */", SCRIPT);
    let hash = |text: &str| BASE64.encode(Digest::of(text.as_bytes()).as_bytes());
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    (page, header(policy))
});

/// The page.
pub(super) fn respond() -> Response {
    let (page, policy) = &*PAGE;
    let mut response = Response::new(Body::from(page.as_str()));
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "Accept"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    no_sniffing(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
        let (page, policy) = &*PAGE;
        assert!(page.contains(SCRIPT) && page.contains(STYLE));
        for foreign in [
            "http://", "https://", "src=", "href=", "@import", "url(", "style=", "onclick",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        // What would end the script or the style before its end.
        assert!(!SCRIPT.contains("</") && !STYLE.contains("</"));
        assert!(policy.to_str().unwrap().contains("script-src 'sha256-"));
    }
}
