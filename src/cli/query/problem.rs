//! The errors of answers.

use std::fmt;

use anyhow::anyhow;
use http::StatusCode;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::output::Shown;
use fbc::text::display::clip;

/// The beginning of the types of almanac's problems.
const PROBLEMS: &str = "urn:almanac:problem:";
/// The kind of a problem with a path that a port does not have.
const UNKNOWN_PATH: &str = "unknown-path";
/// How much of a text that is no JSON is shown, in characters.
const MAX_SHOWN: usize = 200;

/// A port of almanac, with its default.
#[derive(Clone, Copy)]
pub(crate) enum Port {
    Http,
    Admin,
}

/// The JSON of an answer, or the failure that it tells. `subject` is the URL, and `port`
/// that of almanac which has the route.
pub(super) fn answered(
    subject: &str,
    port: Port,
    status: StatusCode,
    is_json: bool,
    body: &[u8],
) -> Result<Value, Failure> {
    let json: Option<Value> = serde_json::from_slice(body).ok().filter(|_| is_json);
    match json {
        Some(json) if status == StatusCode::OK => Ok(json),
        Some(json) if kind(&json).is_some_and(|kind| kind != UNKNOWN_PATH) => {
            Err(refused(subject, status, &json))
        }
        Some(json) if kind(&json).is_some() => Err(Failure::unreadable(anyhow!(
            "{subject}: {}: almanac has no such path on this port; is it the {port}?",
            status.as_u16()
        ))),
        _ => {
            let text = String::from_utf8_lossy(body);
            let text = clip(text.trim(), MAX_SHOWN);
            let text = match text.get(..1) {
                Some("<") => "a web page".to_owned(),
                _ => text,
            };
            let colon = if text.is_empty() { "" } else { ": " };
            Err(Failure::unreadable(anyhow!(
                "{subject}: no almanac answers there, or one of a version without this route \
                 ({}{colon}{}); is it the {port}?",
                status.as_u16(),
                Shown(&text)
            )))
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP port, by default 8080",
            Self::Admin => "admin port, by default 9090",
        })
    }
}

/// The kind of a problem of almanac.
fn kind(json: &Value) -> Option<&str> {
    let kind = json.get("type")?.as_str()?;
    match kind.strip_prefix(PROBLEMS) {
        // A status that says all.
        None => (kind == "about:blank").then_some(""),
        kind => kind,
    }
}

/// The failure for a problem, with the exit code for its cause.
fn refused(subject: &str, status: StatusCode, json: &Value) -> Failure {
    let detail = json
        .get("detail")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let detail = Shown(detail).to_string();
    match kind(json).unwrap_or_default() {
        "unknown-package" | "unknown-channel" | "unknown-bundle" => {
            Failure::run(anyhow!("{detail}"))
        }
        "invalid-parameter" | "missing-parameter" => Failure::usage(anyhow!("{detail}")),
        _ => Failure::unreadable(anyhow!("{subject}: {}: {detail}", status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, is_json: bool, body: &str) -> String {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = answered("http://a/", Port::Admin, status, is_json, body.as_bytes());
        answer.unwrap_err().to_string()
    }

    #[test]
    fn a_server_that_is_no_almanac_is_told_from_an_error() {
        for (status, is_json, body) in [
            (200, false, "<html>hello</html>"),
            (404, false, "<!DOCTYPE html>\n<p>"),
            (200, true, "{"),
            (404, false, "404 page not found"),
            (404, true, r#"{"error": "unknown"}"#),
        ] {
            let message = failure(status, is_json, body);
            assert!(message.contains("no almanac answers there"), "{message}");
            assert!(!message.contains('<'), "{message}");
        }
        let path = r#"{"type":"urn:almanac:problem:unknown-path","detail":"none"}"#;
        let message = failure(404, true, path);
        assert!(
            message.ends_with("is it the admin port, by default 9090?"),
            "{message}"
        );
        let known =
            r#"{"type":"urn:almanac:problem:unknown-package","detail":"there is no \"a\""}"#;
        assert_eq!(failure(404, true, known), "there is no \"a\"");
        let other = r#"{"type":"urn:almanac:problem:not-loaded","detail":"wait"}"#;
        assert_eq!(failure(503, true, other), "http://a/: 503: wait");
    }
}
