//! Errors of requests to an object store.

use std::time::Duration;

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

/// Reasons why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum ObjectProblem {
    /// There is no such object.
    #[error("there is no such object")]
    Missing,
    /// The store refused the request: the status, its code, its message.
    #[error("the store answered {status}{}{}", shown(code, message), advice(*status, code))]
    Refused {
        /// The status of the response.
        status: u16,
        /// The code, such as `AccessDenied`; empty when there was none.
        code: String,
        /// The message; empty when there was none.
        message: String,
    },
    /// No connection to the store.
    #[error("{0}; check endpoint and region in objects")]
    NotConnected(String),
    /// No response, or only a part of one.
    #[error("{0}")]
    Broken(String),
    /// No response in time.
    #[error("no answer within {}; check endpoint in objects, and that the store works", humantime::format_duration(*.0))]
    Late(Duration),
    /// A response that cannot be read.
    #[error("the response cannot be read: {0}")]
    Unreadable(&'static str),
    /// There is no key to sign requests with.
    #[error("no credentials: {0}")]
    Credentials(String),
    /// The platform gives no key.
    #[error(
        "the platform gives no key: it answered {status}{}; check that the role exists, and that \
         it trusts the service account",
        shown(code, message)
    )]
    Lender {
        /// The status of the response.
        status: u16,
        /// The code; empty when there was none.
        code: String,
        /// The message; empty when there was none.
        message: String,
    },
}

impl ObjectError {
    /// Whether another try may succeed.
    pub fn is_temporary(&self) -> bool {
        self.problem.is_temporary()
    }

    /// Whether there is no such object.
    pub fn is_missing(&self) -> bool {
        matches!(self.problem, ObjectProblem::Missing)
    }
}

impl ObjectProblem {
    /// Whether another try may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Broken(_) | Self::Late(_) => true,
            Self::Refused { status, code, .. } => {
                // 409: another request for the same object is at work.
                *status >= 500
                    || matches!(*status, 408 | 409 | 429)
                    || code == "SlowDown"
                    || is_of_another(*status, code)
            }
            Self::Lender { status, .. } => *status >= 500 || *status == 429,
            Self::Missing | Self::Unreadable(_) | Self::Credentials(_) => false,
        }
    }
}

impl From<reqwest::Error> for ObjectProblem {
    fn from(error: reqwest::Error) -> Self {
        Self::Broken(without_path(error))
    }
}

/// The text of an error with its server, but without the path and the parameters of
/// the request.
pub(super) fn without_path(error: reqwest::Error) -> String {
    let server = error.url().and_then(|url| {
        let port = url.port_or_known_default()?;
        Some(format!("{}:{port}: ", url.host_str()?))
    });
    let server = server.unwrap_or_default();
    // The causes before the last one name the layers of this program.
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("{server}{cause}")
}

/// Whether a refusal is about the key of a request.
pub(super) fn is_of_key(code: &str) -> bool {
    [
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
    ]
    .contains(&code)
}

/// Whether something before the store has answered: a store names what does not exist.
fn is_of_another(status: u16, code: &str) -> bool {
    status == 404 && code.is_empty()
}

/// What to do about a refusal.
fn advice(status: u16, code: &str) -> &'static str {
    match code {
        code if is_of_key(code) => "; check the key in credentials_file or in the environment",
        "AccessDenied" => "; allow the key to get, put, delete and list objects of the prefix",
        "NoSuchBucket" => "; create the bucket, or correct objects",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => "; set region in objects",
        _ if is_of_another(status, code) => {
            "; no store answers so: check endpoint in objects, and what stands before the store"
        }
        _ if status == 301 || status == 307 => "; set region or endpoint in objects",
        _ => "",
    }
}

fn shown(code: &str, message: &str) -> String {
    match (code, message) {
        ("", "") => String::new(),
        (code, "") => format!(" {code}"),
        ("", message) => format!(": {message}"),
        (code, message) => format!(" {code}: {message}"),
    }
}
