//! The consumed part of the limits.

/// The bytes and entries of all layers so far, counted against
/// [`Limits`](crate::layers::Limits).
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}
