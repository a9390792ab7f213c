//! Bounds on the documents of an image.

/// The largest manifest, index or image configuration: 4 MiB, as in other
/// clients and registries.
pub const MAX_DOCUMENT: usize = 4 << 20;
/// The most layers of an image.
pub const MAX_LAYERS: usize = 512;
/// The most entries of an index.
pub const MAX_ENTRIES: usize = 4096;
