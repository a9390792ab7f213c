//! Errors of requests to an object store.

use crate::error_chain::error_chain;

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
    /// No response, or only a part of one.
    #[error("{0}")]
    Broken(String),
    /// A response that cannot be read.
    #[error("the response cannot be read: {0}")]
    Unreadable(&'static str),
    /// There is no key to sign requests with.
    #[error("no credentials: {0}")]
    Credentials(String),
}

impl ObjectError {
    /// Whether another try may succeed.
    pub fn is_temporary(&self) -> bool {
        self.problem.is_temporary()
    }
}

impl ObjectProblem {
    /// Whether another try may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Broken(_) => true,
            Self::Refused { status, code, .. } => {
                *status >= 500 || *status == 429 || *status == 408 || code == "SlowDown"
            }
            Self::Missing | Self::Unreadable(_) | Self::Credentials(_) => false,
        }
    }
}

impl From<reqwest::Error> for ObjectProblem {
    fn from(error: reqwest::Error) -> Self {
        Self::Broken(error_chain(&error.without_url()))
    }
}

/// What to do about a refusal.
fn advice(status: u16, code: &str) -> &'static str {
    match code {
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken" => {
            "; check the key in credentials_file or in the environment"
        }
        "AccessDenied" => "; allow the key to get, put, delete and list objects of the prefix",
        "NoSuchBucket" => "; create the bucket, or correct objects",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => "; set region in objects",
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
