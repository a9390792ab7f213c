//! The message in the body of a failed response.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::display::clip;

/// The longest message that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

/// A registry's message about a failure, bounded and without control
/// characters; empty if the body is a page or a document of an unknown format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryMessage(String);

impl fmt::Display for RegistryMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.0)
    }
}

/// The error document of the distribution-spec, and the formats of token
/// services.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDocument {
    errors: Vec<ErrorEntry>,
    details: Option<String>,
    message: Option<String>,
    error_description: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorEntry {
    code: Option<String>,
    message: Option<String>,
}

impl RegistryMessage {
    /// Reads the body of a failed response; of several errors the first.
    pub(crate) fn parse(status: StatusCode, body: &[u8]) -> Self {
        if let Some(text) = plain_text(status, body) {
            return Self::shortened(text);
        }
        // Any body is allowed; one in another format has no message.
        let document: ErrorDocument = serde_json::from_slice(body).unwrap_or_default();
        let first = document.errors.into_iter().next().unwrap_or_default();
        let said = first
            .message
            .or(document.details)
            .or(document.message)
            .or(document.error_description);
        let text = [first.code, said]
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        Self::shortened(&text)
    }

    fn shortened(text: &str) -> Self {
        let signs = text.chars().take(MAX_MESSAGE + 1);
        let plain: String = signs
            .map(|sign| if sign.is_control() { ' ' } else { sign })
            .collect();
        // One character is the mark of a cut.
        Self(clip(&plain, MAX_MESSAGE - 1))
    }
}

/// The text of a body that is neither a document nor a page. The status is shown
/// beside it.
fn plain_text(status: StatusCode, body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?.trim();
    if text.starts_with('<') || serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return None;
    }
    let text = text.strip_prefix(status.as_str()).unwrap_or(text).trim();
    let reason = status.canonical_reason().unwrap_or_default();
    Some(text.strip_prefix(reason).unwrap_or(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_registry_is_repeated_and_bounded() {
        let message =
            |body: &str| RegistryMessage::parse(StatusCode::NOT_FOUND, body.as_bytes()).to_string();
        assert_eq!(
            message(
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such\ntag","detail":{}}]}"#
            ),
            ": MANIFEST_UNKNOWN: no such tag"
        );
        assert_eq!(
            message(r#"{"details":"wrong password"}"#),
            ": wrong password"
        );
        for (body, said) in [
            ("404 page not found\n", ": page not found"),
            ("404 Not Found", ""),
            ("Too many\r\nrequests", ": Too many  requests"),
        ] {
            assert_eq!(message(body), said, "{body}");
        }
        for body in ["", "<html>", "[]", r#"{"errors":7}"#, r#"{"errors":[]}"#] {
            assert_eq!(message(body), "", "{body}");
        }
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(10_000));
        assert!(message(&long).chars().count() <= MAX_MESSAGE + 2);
    }
}
