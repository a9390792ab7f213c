//! A page to write queries in, for browsers. It loads nothing from elsewhere:
//! there may be no network.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

use crate::serve::http::encoding::weight;
use crate::serve::http::headers::{header, no_sniffing};
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

/// Whether a client accepts HTML.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| {
        let mut kinds = value.to_str().unwrap_or_default().split(',');
        kinds.any(|kind| {
            let mut parts = kind.split(';');
            let name = parts.next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case("text/html") && weight(parts) > 0
        })
    })
}

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

    #[test]
    fn browsers_get_the_page_and_others_do_not() {
        for (accept, wanted) in [
            ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", true),
            ("application/json, Text/HTML; q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("text/htmlx", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(is_wanted(&headers), wanted, "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
