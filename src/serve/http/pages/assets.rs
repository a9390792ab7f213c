//! The style sheet, the script and the mark of the program. They are part of it, and
//! their addresses have a digest of their bytes, so that browsers keep them.

use std::sync::LazyLock;
use std::time::SystemTime;

use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, Method};

use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::Origin;
use crate::serve::http::api::response::{QueryResponse, ResponseContext};
use crate::serve::http::headers::vary_by_host;
use crate::serve::http::options::PageOptions;
use crate::serve::http::pages::text::short;
use crate::serve::http::rejection::HttpRejection;
use ::images::digest::Digest;

/// A file of the program.
pub(super) struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    hash: LazyLock<String>,
}

macro_rules! asset {
    ($static:ident, $name:literal, $type:literal) => {
        /// A file of the program.
        pub(super) static $static: Asset = Asset {
            name: $name,
            media_type: $type,
            bytes: include_bytes!($name),
            hash: LazyLock::new(|| short(&Digest::of(include_bytes!($name)).hex()).to_owned()),
        };
    };
}

asset!(STYLE, "almanac.css", "text/css; charset=utf-8");
asset!(SCRIPT, "almanac.js", "text/javascript; charset=utf-8");
asset!(MARK, "almanac.svg", "image/svg+xml");

impl Asset {
    /// Its address.
    pub(super) fn path(&self) -> String {
        format!("/assets/{}/{}", *self.hash, self.name)
    }
}

/// Sends an asset. Under another digest there is none: it would be kept for a year.
pub(crate) async fn show(
    Path((hash, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let mut assets = [&STYLE, &SCRIPT, &MARK].into_iter();
    let found = assets.find(|asset| asset.name == name && *asset.hash == hash);
    let Some(asset) = found else {
        return HttpRejection::UnknownPath.into_response();
    };
    let mut response = send(
        Bytes::from_static(asset.bytes),
        asset.media_type,
        &method,
        &headers,
    );
    if response.status().is_success() {
        let control = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, control);
    }
    response
}

/// The rules for crawlers: they get single pages, not each combination of filters.
pub(crate) async fn robots(method: Method, headers: HeaderMap) -> Response {
    let text = b"User-agent: *\nDisallow: /search\nDisallow: /compare\nDisallow: /mirror\n\
                 Disallow: /*?\n";
    send(
        Bytes::from_static(text),
        "text/plain; charset=utf-8",
        &method,
        &headers,
    )
}

/// Describes the search to browsers, which want a whole address.
pub(crate) async fn opensearch(
    origin: Origin,
    options: Option<Extension<PageOptions>>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <OpenSearchDescription xmlns=\"http://a9.com/-/spec/opensearch/1.1/\">\n\
        <ShortName>almanac</ShortName>\n\
        <Description>Search the operators of all catalogs</Description>\n\
        <Url type=\"text/html\" template=\"{}/search?q={{searchTerms}}\"/>\n\
        </OpenSearchDescription>\n",
        origin.0
    );
    let media_type = "application/opensearchdescription+xml";
    let mut response = send(text.into(), media_type, &method, &headers);
    let options = options.map(|Extension(options)| options);
    vary_by_host(response.headers_mut(), &options.unwrap_or_default());
    response
}

fn send(bytes: Bytes, media_type: &'static str, method: &Method, headers: &HeaderMap) -> Response {
    static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let response = QueryResponse::Text { bytes, media_type };
    let sent = ResponseContext::of(method, headers).and_then(|context| {
        context.send(response, &Parameters::default(), Some((*STARTED).into()))
    });
    sent.unwrap_or_else(Problem::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_small_and_need_nothing_from_elsewhere() {
        for (asset, most) in [(&STYLE, 40_000), (&SCRIPT, 20_000), (&MARK, 2_000)] {
            assert!(asset.bytes.len() < most, "{}", asset.name);
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for foreign in ["https://", "@import", "url(", "innerHTML", "eval("] {
                assert!(!text.contains(foreign), "{}: {foreign}", asset.name);
            }
        }
    }
}
