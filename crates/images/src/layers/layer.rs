//! One layer of an image.

/// One layer of an image.
pub struct Layer<R> {
    /// The name in messages: its digest.
    pub name: String,
    /// The stored bytes: a tar archive, plain or compressed with gzip or zstd.
    /// It is read to the end unless an error occurs.
    pub reader: R,
}
