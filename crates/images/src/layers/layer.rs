//! One layer of an image.

/// One layer of an image.
pub struct Layer<R> {
    /// What messages call it: its digest.
    pub name: String,
    /// The bytes as they are stored: a tar archive, plain or compressed with
    /// gzip or zstd. Read to the end unless something is wrong before.
    pub reader: R,
}
