//! Advice that several problems share.

/// The advice for a document that is not part of a catalog.
pub(crate) const CORRECT: &str =
    "correct it, or list a file that is no part of the catalog in .indexignore";
