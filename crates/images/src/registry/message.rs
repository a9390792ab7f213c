//! The message in the body of a failed response.

use std::fmt;

use serde::Deserialize;

/// The longest message that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

/// A registry's message about a failure, bounded and without control
/// characters; empty if the body has no known format.
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
    pub(crate) fn parse(body: &[u8]) -> Self {
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
        Self(
            text.chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(MAX_MESSAGE)
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_registry_is_repeated_and_bounded() {
        let message = |body: &str| RegistryMessage::parse(body.as_bytes()).to_string();
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
        for body in ["", "<html>", "[]", r#"{"errors":7}"#, r#"{"errors":[]}"#] {
            assert_eq!(message(body), "", "{body}");
        }
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(10_000));
        assert!(message(&long).chars().count() <= MAX_MESSAGE + 2);
    }
}
