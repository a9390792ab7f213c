//! Pages for browsers. A page has its style and its script in itself and loads
//! nothing from elsewhere: there may be no network. The policy allows this style
//! and this script only.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

use crate::serve::fields::header;
use crate::serve::http::headers::no_sniffing;
use ::images::digest::Digest;

/// A page with its policy.
pub(super) struct HtmlPage {
    /// The text.
    pub(super) text: String,
    policy: HeaderValue,
}

impl HtmlPage {
    /// A page with a style and a script in place of the comments `/* style */` and
    /// `/* script */`. Without a script, none is allowed.
    pub(super) fn new(page: &str, style: &str, script: Option<&str>) -> Self {
        let hash = |text: &str| BASE64.encode(Digest::of(text.as_bytes()).as_bytes());
        let mut policy = String::from("default-src 'none'");
        let mut text = page.replace("/* style */", style);
        if let Some(script) = script {
            text = text.replace("/* script */", script);
            let allowed = format!("; script-src 'sha256-{}'; connect-src 'self'", hash(script));
            policy.push_str(&allowed);
        }
        let allowed = format!("; style-src 'sha256-{}'", hash(style));
        policy.push_str(&allowed);
        let forms = if page.contains("<form") {
            "'self'"
        } else {
            "'none'"
        };
        let allowed = format!("; base-uri 'none'; form-action {forms}; frame-ancestors 'none'");
        policy.push_str(&allowed);
        Self {
            text,
            policy: header(policy),
        }
    }

    /// The response with `text`: that of the page, or one made of it outside of the
    /// style and the script. `vary` names the headers of requests that it depends on.
    pub(super) fn respond(&self, text: impl Into<Body>, vary: &'static str) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-cache"),
            (VARY, vary),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
        no_sniffing(&mut headers);
        (headers, text.into()).into_response()
    }
}

#[cfg(test)]
impl HtmlPage {
    /// Fails if the page needs anything from elsewhere, or if its style or script
    /// ends early.
    pub(super) fn assert_whole(&self, style: &str, script: Option<&str>) {
        let policy = self.policy.to_str().unwrap();
        assert!(self.text.contains(style) && !style.contains("</"));
        assert!(policy.starts_with("default-src 'none'; s"));
        assert!(policy.contains("; style-src 'sha256-"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(policy.contains("script-src 'sha256-"), script.is_some());
        if let Some(script) = script {
            assert!(self.text.contains(script) && !script.contains("</"));
        }
        for foreign in [
            "http://",
            "https://",
            "src=",
            "href=\"//",
            "@import",
            "url(",
            "style=",
            "onclick",
        ] {
            assert!(!self.text.contains(foreign), "{foreign}");
        }
    }
}
