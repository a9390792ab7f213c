//! Bounds on the documents of an image.

/// The largest manifest, index or image configuration: 4 MiB, the bound that
/// other pullers and registries use.
pub const MAX_DOCUMENT: usize = 4 << 20;
/// The most layers of one image.
pub const MAX_LAYERS: usize = 512;
/// The most entries of one index.
pub const MAX_ENTRIES: usize = 4096;
