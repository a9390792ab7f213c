//! The icon of a package. Its media type comes from its bytes, since catalogs declare
//! wrong ones. A policy keeps scripts of an SVG icon from running when it is opened by
//! itself; in a page it is a picture, where nothing runs.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::serve::http::pages::request::Shown;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest};
use crate::serve::http::queries::response::QueryResponse;
use fbc::presentation::PackageView;

pub(super) async fn show(request: QueryRequest) -> Response {
    request
        .run_across(&LOOKUPS, &[], |query| {
            let shown = Shown::of(query)?;
            let name = query.path("package");
            let package = shown.snapshot.package_answers(name);
            let package = package.ok_or_else(|| Problem::no_icon(name, "is unknown"))?;
            let line = shown.snapshot.line(package.meta);
            let (data, _) = PackageView::of(&line)
                .icon
                .ok_or_else(|| Problem::no_icon(name, "has no icon"))?;
            let bytes = STANDARD
                .decode(data.replace(['\r', '\n'], ""))
                .map_err(|_| Problem::no_icon(name, "has an icon that is not base64"))?;
            let media_type = media_type(&bytes);
            Ok(QueryResponse::Picture {
                bytes: bytes.into(),
                media_type: media_type.to_owned(),
            })
        })
        .await
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
            (b" <?xml version=\"1.0\"?><!-- a --><svg/>", "image/svg+xml"),
            (b"<html><script>", "application/octet-stream"),
            (b"svg", "application/octet-stream"),
            (b"", "application/octet-stream"),
        ] {
            assert_eq!(media_type(bytes), wanted, "{bytes:?}");
        }
    }
}
