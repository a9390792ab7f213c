//! Answers of a host: images under each name, tokens, and failures.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use images::Digest;
use serde_json::json;

use super::network::{Access, Host};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A user or password that is shown as none.
pub(super) const NOBODY: &str = "nobody";

/// The answer of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Each image: by tag one of its own, by digest the one of all hosts.
    Image,
    /// No image.
    NotFound,
    /// This status for each image.
    Status(u16),
    /// Another image than the digest says.
    WrongBytes,
}

/// A request.
pub(super) struct Asked {
    path: String,
    form: String,
    pub(super) credentials: Option<String>,
}

impl Asked {
    pub(super) fn new(parts: &Parts, body: &[u8]) -> Self {
        let header = parts.headers.get(AUTHORIZATION);
        let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let form = String::from_utf8_lossy(body).into_owned();
        let refresh = form
            .split('&')
            .find_map(|pair| pair.strip_prefix("refresh_token="));
        Self {
            path: parts.uri.path().to_owned(),
            credentials: header
                .map(|header| readable(&header))
                .or_else(|| refresh.map(|token| format!("refresh {token}"))),
            form,
        }
    }

    pub(super) fn is_for_token(&self) -> bool {
        self.path == "/token"
    }

    /// The repository and the reference of a manifest.
    fn manifest(&self) -> Option<(&str, &str)> {
        self.path.strip_prefix("/v2/")?.split_once("/manifests/")
    }

    pub(super) fn repository(&self) -> Option<String> {
        Some(self.manifest()?.0.to_owned())
    }
}

/// A header with its secret, such as `Basic me:secret`.
fn readable(header: &str) -> String {
    let Some(pair) = header.strip_prefix("Basic ") else {
        return header.to_owned();
    };
    let bytes = BASE64_STANDARD.decode(pair).unwrap_or_default();
    let text = bytes.escape_ascii().to_string();
    format!(
        "Basic {}",
        text.trim_start_matches(NOBODY).trim_end_matches(NOBODY)
    )
}

/// The image that all hosts have.
pub(super) fn common() -> (String, Bytes) {
    image("all hosts")
}

fn image(text: &str) -> (String, Bytes) {
    let document = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": Digest::of(b"{}").to_string(),
            "size": 2,
        },
        "layers": [],
        "annotations": {"of": text},
    });
    let bytes = Bytes::from(document.to_string());
    (Digest::of(&bytes).to_string(), bytes)
}

pub(super) fn answer(asked: &Asked, origin: &str, host: &Host) -> Response<Full<Bytes>> {
    if asked.is_for_token() {
        return token(asked, host);
    }
    if host.access == Access::Unauthorized && asked.manifest().is_some() {
        return status(401);
    }
    if let Some(challenge) = challenge(asked, origin, host) {
        return with(
            StatusCode::UNAUTHORIZED,
            &[(WWW_AUTHENTICATE.as_str(), &challenge)],
            json!({"errors": [{"code": "UNAUTHORIZED"}]})
                .to_string()
                .into(),
        );
    }
    let Some((repository, reference)) = asked.manifest() else {
        // The configuration of each image is an empty object.
        let is_there = asked.path == "/v2/" || asked.path.contains("/blobs/");
        let status = if is_there { 200 } else { 404 };
        return with(
            StatusCode::from_u16(status).unwrap(),
            &[],
            Bytes::from("{}"),
        );
    };
    let own = image(&format!("{origin}/{repository}"));
    let found = [own.clone(), common()]
        .into_iter()
        .find(|(digest, _)| digest == reference);
    let (digest, mut bytes) = match found {
        Some(found) => found,
        None if reference.contains(':') => return status(404),
        None => own,
    };
    match host.answer {
        Answer::NotFound => return status(404),
        Answer::Status(code) => return status(code),
        Answer::WrongBytes if reference == common().0 => bytes = image("something else").1,
        Answer::WrongBytes | Answer::Image => {}
    }
    let headers = [
        (CONTENT_TYPE.as_str(), MANIFEST),
        ("docker-content-digest", &*digest),
    ];
    with(StatusCode::OK, &headers, bytes)
}

/// The challenge that a request is answered with.
fn challenge(asked: &Asked, origin: &str, host: &Host) -> Option<String> {
    let sent = asked.credentials.as_deref().unwrap_or_default();
    match &host.access {
        Access::Open | Access::Unauthorized => None,
        Access::Basic if sent.starts_with("Basic ") && sent != "Basic :" => None,
        Access::Basic | Access::BasicRefused => Some("Basic realm=\"registry\"".to_owned()),
        Access::Token(_) if sent.starts_with("Bearer ") => None,
        Access::Token(service) => {
            let service = service.map(|host| format!("https://{host}"));
            let service = service.unwrap_or_else(|| origin.to_owned());
            Some(format!(
                "Bearer realm=\"{service}/token\",service=\"registry\""
            ))
        }
        Access::TokenRefused => Some(format!(
            "Bearer realm=\"{origin}/token\",service=\"registry\""
        )),
    }
}

/// A token names the credentials that it was given for.
fn token(asked: &Asked, host: &Host) -> Response<Full<Bytes>> {
    let sent = asked.credentials.as_deref();
    if host.access == Access::TokenRefused && sent.is_some() {
        return status(401);
    }
    let kind = if asked.form.is_empty() { "get" } else { "post" };
    let name = format!("{kind} {}", sent.unwrap_or("anonymous"));
    let token = Digest::of(name.as_bytes()).to_string()[7..19].to_owned();
    let document = json!({"token": token, "access_token": token, "expires_in": 300});
    with(StatusCode::OK, &[], document.to_string().into())
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let document = json!({"errors": [{"code": "UNKNOWN", "message": "as the case says"}]});
    with(
        StatusCode::from_u16(code).unwrap(),
        &[],
        document.to_string().into(),
    )
}

fn with(status: StatusCode, headers: &[(&str, &str)], body: Bytes) -> Response<Full<Bytes>> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::from(body)).unwrap()
}
