//! ingest
mod ordered;
mod source;
pub use source::{Source, SourceError};

/// What becomes of a revision with packages that are not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInvalid {
    /// They are left out of the registry API; the rest is served.
    #[default]
    Quarantine,
    /// The revision is refused.
    Reject,
}
