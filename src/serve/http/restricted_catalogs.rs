//! The catalogs that require credentials, as handlers see them.

use std::sync::Arc;

use crate::serve::access::Rules;

/// The catalogs whose names a response must not suggest. The access layer adds it
/// to the extensions of a request.
#[derive(Clone, Default)]
pub(super) struct RestrictedCatalogs(Arc<Rules>);

impl RestrictedCatalogs {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self(rules)
    }

    /// Whether a catalog requires credentials.
    pub(super) fn contain(&self, catalog: &str) -> bool {
        self.0.restrict(catalog)
    }
}
