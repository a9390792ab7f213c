//! Why the policy does not admit an image.

use std::path::PathBuf;

use crate::config_files::FileError;
use crate::policy::verdict::kind;

/// Why the policy does not admit an image.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The policy rejects the image.
    #[error(transparent)]
    Rejected(#[from] PolicyRejection),
}

impl PolicyError {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::File(error) => error.reason(),
            Self::Rejected(rejection) => rejection.reason(),
        }
    }
}

/// Why the policy rejects an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRejection {
    /// The policy rejects it, with or without a signature.
    #[error("the policy {} rejects {scope}", policy.display())]
    Rejected {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
    },
    /// The policy requires something unsupported.
    #[error("the policy {} requires {what} for {scope}, which is not supported", policy.display())]
    Unsupported {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
        /// The unsupported requirement.
        what: String,
    },
    /// A requirement has a key that cannot be used, so nothing meets it.
    #[error("the policy {} requires {what} for {scope}: {problem}", policy.display())]
    Unusable {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
        /// The requirement.
        what: String,
        /// The problem of the key.
        problem: String,
    },
    /// No signature meets the requirements.
    #[error("the policy {} requires a signature for {scope}: {problem}", policy.display())]
    Unsigned {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
        /// The requirement, and the problem of the signatures.
        problem: String,
    },
}

impl PolicyRejection {
    /// The kind of the requirement that does not hold, of a small fixed set.
    pub fn requirement(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "reject",
            Self::Unsupported { what, .. } | Self::Unusable { what, .. } => kind(what),
            Self::Unsigned { problem, .. } => kind(problem),
        }
    }

    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unsigned { .. } => "signature",
            Self::Rejected { .. } | Self::Unsupported { .. } | Self::Unusable { .. } => "policy",
        }
    }
}
