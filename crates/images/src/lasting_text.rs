//! The text of an error for those who compare it with an earlier one.

use http::StatusCode;

use crate::display::clip;
use crate::error::{Error, MAX_CAUSES, causes};
use crate::reference::Reference;

impl Error {
    /// The error with its causes, on one line and bounded, without what differs
    /// between attempts that fail alike: pauses, positions, the state of a broken
    /// connection, and what a registry adds to 429 and 5xx.
    pub fn lasting_text(&self) -> String {
        match self {
            Self::Paused { reference, .. } => too_many_requests(reference),
            Self::Status {
                reference, status, ..
            } if *status == StatusCode::TOO_MANY_REQUESTS => too_many_requests(reference),
            Self::Status {
                reference,
                url,
                status,
                ..
            } if status.is_server_error() => format!("{reference}: {url} answered {status}"),
            Self::Range { reference, url, .. } => {
                format!("{reference}: {url} returned another part than the requested one")
            }
            Self::BlobMismatch { reference, url, .. } if self.cut_short() => {
                format!("{reference}: the blob of {url} ends too early")
            }
            Self::Interrupted { .. } => self.to_string(),
            Self::AllFailed {
                reference,
                failures,
                ..
            } => {
                let all: Vec<String> = failures.iter().map(Self::lasting_text).collect();
                let text = format!("{reference}: no location can serve it: {}", all.join("; "));
                clip(&text, MAX_CAUSES)
            }
            _ => causes(self),
        }
    }
}

fn too_many_requests(reference: &Reference) -> String {
    format!("{reference}: its registry limits requests (429 Too Many Requests)")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Login;
    use crate::registry::message::RegistryMessage;

    #[test]
    fn attempts_that_fail_alike_have_one_text() {
        let reference: Reference = "registry.example/a:v1".parse().unwrap();
        let status = |status, document: &[u8]| Error::Status {
            reference: reference.clone(),
            url: "https://registry.example/v2/a/manifests/v1".to_owned(),
            status,
            message: RegistryMessage::parse(status, document),
            retry_after: Some(Duration::from_secs(45)),
            login: Login::Unsent,
            expects_tls: false,
        };
        let paused = |seconds| Error::Paused {
            reference: reference.clone(),
            url: "https://registry.example/v2/a/blobs/x".to_owned(),
            wait: Duration::from_secs(seconds),
        };
        let limited = status(StatusCode::TOO_MANY_REQUESTS, b"");
        let text = limited.lasting_text();
        assert_eq!(text, paused(23).lasting_text());
        assert_eq!(text, paused(21).lasting_text());
        assert!(text.contains("429 Too Many Requests"), "{text}");
        let all = |failures| Error::AllFailed {
            reference: reference.clone(),
            summary: "its own".to_owned(),
            failures,
        };
        let one = all(vec![limited]).lasting_text();
        assert_eq!(one, all(vec![paused(7)]).lasting_text());
        let failing = |id: u8| {
            let document =
                format!(r#"{{"errors":[{{"code":"UNKNOWN","message":"request {id}"}}]}}"#);
            status(StatusCode::BAD_GATEWAY, document.as_bytes()).lasting_text()
        };
        assert_eq!(failing(1), failing(2));
        let range = |from| Error::Range {
            reference: reference.clone(),
            url: "https://registry.example/v2/a/blobs/x".to_owned(),
            from,
            size: 9,
        };
        assert_eq!(range(3).lasting_text(), range(4).lasting_text());
    }
}
