//! Why the last attempt to read the source of a catalog failed, for those who compare
//! it with an earlier one.

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    /// The error, in words that stay the same as long as attempts fail alike.
    pub text: String,
    /// A short label of the reason.
    pub reason: &'static str,
    /// Whether the files were read, and their content could not be taken.
    pub is_of_content: bool,
}
