//! An icon, by the digest of its bytes. Its media type comes from the bytes, since catalogs
//! declare wrong ones. A policy keeps scripts of an SVG icon from running when it is opened
//! by itself; in a page it is a picture, where nothing runs.

use axum::response::Response;
use http::HeaderValue;
use http::header::CACHE_CONTROL;

use crate::serve::http::pages::request::Shown;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::serve::http::queries::response::QueryResponse;
use ::images::digest::Digest;

pub(super) async fn show(request: QueryRequest) -> Response {
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
    if response.status().is_success() {
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
    } else if is_svg(bytes) {
        "image/svg+xml"
    } else {
        "application/octet-stream"
    }
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
}
