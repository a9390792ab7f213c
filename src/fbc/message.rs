//! Registry messages of bundles (stub to be filled).

/// Where the encoded parts of a bundle's message lie, relative to the start of
/// the catalog's message file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BundleMessage {}
