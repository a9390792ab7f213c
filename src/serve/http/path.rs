//! Normalised paths: as in catalogd, paths with `..`, `.` or empty segments
//! redirect to the path without them. So does the index of catalogs with a slash at its end,
//! which is what remains of a catalog's address without its name.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

pub(super) async fn clean(request: Request, next: Next) -> Response {
    let Some(mut shorter) = cleaned(request.uri().path()) else {
        return next.run(request).await;
    };
    if let Some(query) = request.uri().query() {
        shorter.push('?');
        shorter.push_str(query);
    }
    match HeaderValue::try_from(shorter) {
        Ok(location) => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, location)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// The normalised path, if it differs. It begins with a single slash, so it
/// never redirects to another host. Escapes are kept.
fn cleaned(path: &str) -> Option<String> {
    if path == "/catalogs/" {
        return Some("/catalogs".to_owned());
    }
    if !path.starts_with('/') || !(path.contains("//") || path.contains("/.")) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let mut cleaned = String::with_capacity(path.len());
    for part in &parts {
        cleaned.push('/');
        cleaned.push_str(part);
    }
    if parts.is_empty() || path.ends_with('/') {
        cleaned.push('/');
    }
    (cleaned != path).then_some(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_as_short_as_it_can_be() {
        for (path, wanted) in [
            ("/", None),
            ("/a/b", None),
            ("/a/b/", None),
            ("/a/.b/..c/d..", None),
            ("/a%2F..%2Fb", None),
            ("*", None),
            ("//", Some("/")),
            ("//example.com/a", Some("/example.com/a")),
            ("/a//b", Some("/a/b")),
            ("/a/./b/", Some("/a/b/")),
            ("/a/../b", Some("/b")),
            ("/../../b", Some("/b")),
            ("/a/..", Some("/")),
            ("/catalogs/", Some("/catalogs")),
            ("/catalogs/a/", None),
        ] {
            assert_eq!(cleaned(path).as_deref(), wanted, "{path}");
        }
    }
}
