//! Errors of requests to a bucket, by kind.

use std::error::Error;
use std::time::Duration;

use fbc::text::display::clip;

/// The longest message of a store that is shown, in bytes.
const MAX_SHOWN: usize = 300;
/// The codes of refusals that are about the key.
const OF_KEYS: [&str; 6] = [
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidToken",
    "SignatureDoesNotMatch",
];

/// A request that failed, with what it was about.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {subject}: {problem}")]
pub struct ObjectError {
    /// What was to be done.
    pub action: &'static str,
    /// The object or the bucket, as `s3://BUCKET/KEY`.
    pub subject: String,
    /// Why it failed.
    pub problem: ObjectProblem,
}

/// Reasons why a request fails. The texts of answers have the status, the code and the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectProblem {
    /// There is no such object.
    #[error("there is no such object")]
    Missing,
    /// An object that was to be made is there.
    #[error("the object exists")]
    Exists,
    /// There is no key to sign requests with.
    #[error("no credentials: {0}")]
    NoCredentials(String),
    /// The platform gives no key.
    #[error(
        "the platform gives no key: it answered {0}; check that the role or identity exists, and \
         that it trusts the service account"
    )]
    NotLent(String),
    /// What gives keys cannot be reached.
    #[error(
        "the service that gives keys does not answer: {0}; check that the network lets this \
         machine reach it"
    )]
    NoKeyService(String),
    /// The store does not take the key.
    #[error("the store answered {0}; check the key in credentials_file or in the environment")]
    CredentialsRefused(String),
    /// The key may not do this.
    #[error(
        "the store answered {0}; allow the key to get, put, delete and list objects of the prefix"
    )]
    AccessRefused(String),
    /// There is no such bucket.
    #[error("the store answered {0}; create the bucket, or correct objects")]
    NoBucket(String),
    /// The store refuses for another reason, with what to do about it.
    #[error("the store answered {0}{1}")]
    Refused(String, &'static str),
    /// The store cannot answer now, with what to do about it.
    #[error("the store answered {0}{1}")]
    Busy(String, &'static str),
    /// No connection to the store.
    #[error("{0}; check endpoint and region in objects, and that the store runs")]
    Unreachable(String),
    /// No response, or only a part of one.
    #[error("{0}")]
    Broken(String),
    /// No response in time.
    #[error("no answer within {}; check endpoint in objects, and that the store works", humantime::format_duration(*.0))]
    Slow(Duration),
    /// A response that cannot be used.
    #[error("the response cannot be read: {0}")]
    Unreadable(String),
}

impl ObjectError {
    /// Whether another try may succeed.
    pub fn is_temporary(&self) -> bool {
        self.problem.is_temporary()
    }

    /// Whether there is no such object.
    pub fn is_missing(&self) -> bool {
        self.problem == ObjectProblem::Missing
    }
}

impl ObjectProblem {
    /// Whether another try may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Busy(..)
                | Self::Unreachable(_)
                | Self::Broken(_)
                | Self::Slow(_)
                | Self::NoKeyService(_)
        )
    }

    /// The kind of an answer that is no success, with the code that its headers may have.
    pub(super) fn from_answer(status: u16, header: Option<&str>, document: &[u8]) -> Self {
        let document = String::from_utf8_lossy(document);
        let json = serde_json::from_str::<serde_json::Value>(&document).unwrap_or_default();
        // A service of tokens answers in JSON.
        let text = |name, key: &str| {
            let text = element(&document, name).or_else(|| json[key].as_str());
            clip(&plain(text.unwrap_or_default()), MAX_SHOWN)
        };
        let (code, message) = (text("Code", "error"), text("Message", "error_description"));
        let code = header.unwrap_or(&code);
        let blank = if code.is_empty() { "" } else { " " };
        let colon = if message.is_empty() { "" } else { ": " };
        let answer = format!("{status}{blank}{code}{colon}{message}");
        match (status, code) {
            (404, "NoSuchKey" | "BlobNotFound") => Self::Missing,
            (412, _) | (409, "BlobAlreadyExists") => Self::Exists,
            (_, "NoSuchBucket" | "ContainerNotFound") => Self::NoBucket(answer),
            (_, "RequestTimeTooSkewed") => {
                Self::Refused(answer, "; correct the clock of this machine")
            }
            (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") => {
                Self::Refused(answer, "; set region in objects")
            }
            (301 | 307, _) => Self::Refused(answer, "; set region or endpoint in objects"),
            // A store has a code for what does not exist.
            (404, "") => Self::Busy(
                answer,
                "; no store answers so: check endpoint in objects, and what stands before the store",
            ),
            (_, "SlowDown") | (408 | 409 | 429 | 500.., _) => Self::Busy(answer, ""),
            (401, _) => Self::CredentialsRefused(answer),
            (_, code) if OF_KEYS.contains(&code) => Self::CredentialsRefused(answer),
            (403, _) => Self::AccessRefused(answer),
            _ => Self::Refused(answer, ""),
        }
    }

    /// The kind of an error of the crate: a cause that `transport` or `supply` has put there,
    /// or else its last cause.
    pub(super) fn from_store(error: &object_store::Error) -> Self {
        let mut cause: &(dyn Error + 'static) = error;
        loop {
            if let Some(problem) = cause.downcast_ref::<Self>() {
                return problem.clone();
            }
            match cause.source() {
                Some(next) => cause = next,
                None => break,
            }
        }
        match error {
            object_store::Error::NotFound { .. } => Self::Missing,
            _ => Self::Unreadable(clip(&cause.to_string(), MAX_SHOWN)),
        }
    }
}

/// The text of the first element of a name. The documents have no attributes on those that
/// are read.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// The first line of a text, without its entities: Azure adds lines with numbers and times.
fn plain(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    let line = text.lines().next().unwrap_or_default();
    let decoded = |text: String, (entity, sign): &(&str, &str)| text.replace(entity, sign);
    entities.iter().fold(line.to_owned(), decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16, code: &str) -> ObjectProblem {
        let document = format!("<Error><Code>{code}</Code><Message>a</Message></Error>");
        ObjectProblem::from_answer(status, None, document.as_bytes())
    }

    #[test]
    fn a_refusal_is_shown_as_the_store_words_it() {
        let document = b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>No \
            &quot;b&quot;\nRequestId:1</Message></Error>";
        let refused = ObjectProblem::from_answer(403, None, document).to_string();
        let shown = "the store answered 403 AccessDenied: No \"b\"; allow ";
        assert!(refused.starts_with(shown), "{refused}");
        let empty = ObjectProblem::from_answer(500, None, b"");
        assert_eq!(empty.to_string(), "the store answered 500");
        let token = br#"{"error": "invalid_grant", "error_description": "b"}"#;
        let refused = ObjectProblem::from_answer(400, None, token).to_string();
        assert_eq!(refused, "the store answered 400 invalid_grant: b");
        let head = ObjectProblem::from_answer(404, Some("BlobNotFound"), b"");
        assert_eq!(head, ObjectProblem::Missing);
    }

    #[test]
    fn answers_of_the_three_stores_have_their_kinds() {
        for (status, code) in [(404, "NoSuchKey"), (404, "BlobNotFound")] {
            assert_eq!(problem(status, code), ObjectProblem::Missing, "{code}");
        }
        for (status, code) in [(412, "PreconditionFailed"), (409, "BlobAlreadyExists")] {
            assert_eq!(problem(status, code), ObjectProblem::Exists, "{code}");
        }
        for (status, code, advice, is_temporary) in [
            (404, "NoSuchBucket", "create the bucket", false),
            (404, "ContainerNotFound", "create the bucket", false),
            (404, "", "check endpoint", true),
            (403, "AccessDenied", "allow the key", false),
            (
                403,
                "AuthorizationPermissionMismatch",
                "allow the key",
                false,
            ),
            (403, "InvalidAccessKeyId", "check the key", false),
            (403, "AuthenticationFailed", "check the key", false),
            (401, "InvalidAuthenticationInfo", "check the key", false),
            (
                403,
                "RequestTimeTooSkewed",
                "the clock of this machine",
                false,
            ),
            (400, "AuthorizationHeaderMalformed", "set region", false),
            (301, "PermanentRedirect", "set region", false),
            (409, "ConditionalRequestConflict", "409", true),
            (503, "SlowDown", "503 SlowDown", true),
        ] {
            let problem = problem(status, code);
            assert!(problem.to_string().contains(advice), "{problem}");
            assert_eq!(problem.is_temporary(), is_temporary, "{problem}");
        }
    }

    #[test]
    fn a_kind_is_found_among_the_causes_of_an_error() {
        let problem = ObjectProblem::Slow(Duration::from_secs(10));
        let error = object_store::Error::Generic {
            store: "S3",
            source: Box::new(object_store::Error::NotFound {
                path: "a".into(),
                source: Box::new(problem.clone()),
            }),
        };
        assert_eq!(ObjectProblem::from_store(&error), problem);
        let other = object_store::Error::NotSupported {
            source: "of no use".into(),
        };
        let shown = ObjectProblem::from_store(&other).to_string();
        assert_eq!(shown, "the response cannot be read: of no use");
    }
}
