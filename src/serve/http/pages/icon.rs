//! An icon, by the digest of its bytes. Its media type comes from the bytes, since catalogs
//! declare wrong ones. A policy keeps scripts of an SVG icon from running when it is opened
//! by itself; in a page it is a picture, where nothing runs.

use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};

use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::pages::request::Shown;
use ::images::digest::Digest;

/// How many parts of a drawing may be drawn again; icons of real catalogs have 8.
const MOST_USES: usize = 16;

pub(crate) async fn show(request: QueryRequest) -> Response {
    let sent = request.run_across(&LOOKUPS, &[], |query| {
        let shown = Shown::of(query)?;
        let digits = query.path("digest");
        let digest: Option<Digest> = format!("sha256:{digits}").parse().ok();
        let bytes = digest.and_then(|digest| shown.snapshot.icon_bytes(&digest));
        let bytes = bytes.ok_or_else(|| Problem::no_icon_of_digest(digits))?;
        Ok(QueryResponse::Picture {
            media_type: media_type(&bytes).to_owned(),
            bytes,
        })
    });
    let mut response = sent.await;
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        // The catalog may be closed, so only the browser keeps it.
        let control = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, control);
    }
    response
}

/// The type of a picture by its first bytes.
fn media_type(bytes: &[u8]) -> &'static str {
    let begins = |start: &[u8]| bytes.starts_with(start);
    if begins(b"\x89PNG\r\n\x1a\n") {
        "image/png"
    } else if begins(b"\xff\xd8\xff") {
        "image/jpeg"
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        "image/gif"
    } else if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        "image/webp"
    } else if begins(b"\0\0\x01\0") {
        "image/vnd.microsoft.icon"
    } else if is_svg(bytes) && !grows(bytes) {
        "image/svg+xml"
    } else {
        "application/octet-stream"
    }
}

/// Whether a drawing may repeat itself without an end, which would stop the browser on
/// every page with the icon: pictures of pictures, or names of names. A type that is no
/// picture's keeps browsers from drawing it.
fn grows(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let is_use = |tag: &&str| {
        let name = tag.split(|sign: char| sign.is_whitespace() || matches!(sign, '/' | '>'));
        let name = name.into_iter().next().unwrap_or_default();
        name.rsplit(':').next() == Some("use")
    };
    text.to_ascii_lowercase().contains("<!entity")
        || text.split('<').filter(is_use).count() > MOST_USES
}

fn is_svg(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes.get(..4_096).unwrap_or(bytes));
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('<') && text.contains("<svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_tell_the_type_of_a_picture() {
        for (bytes, wanted) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            (b"\0\0\x01\0\x03\0", "image/vnd.microsoft.icon"),
            (b" <?xml version=\"1.0\"?><!-- a --><svg/>", "image/svg+xml"),
            (b"<html><script>", "application/octet-stream"),
            (b"svg", "application/octet-stream"),
            (b"", "application/octet-stream"),
        ] {
            assert_eq!(media_type(bytes), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn a_drawing_that_repeats_itself_without_an_end_is_no_picture() {
        let uses = |count: usize, tag: &str| {
            let uses = format!("<{tag} href=\"#a\"/>").repeat(count);
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{uses}</svg>").into_bytes()
        };
        assert_eq!(media_type(&uses(16, "use")), "image/svg+xml");
        assert_eq!(media_type(&uses(99, "user")), "image/svg+xml");
        for bad in [
            uses(17, "use"),
            uses(17, "s:use"),
            b"<!DOCTYPE svg [<!entity a \"&b;&b;\">]><svg/>".to_vec(),
        ] {
            assert_eq!(media_type(&bad), "application/octet-stream", "{bad:?}");
        }
    }
}
