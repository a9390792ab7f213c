//! Why a text is not JSON.

/// A position in the input that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// Bytes from the start of the input.
    pub offset: usize,
    /// What was expected or found there.
    pub message: String,
}
