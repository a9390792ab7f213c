//! Errors of writing lists of images.

/// An error of writing a list in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// No such form.
    #[error("{0:?} is no form of a list; there are list, json, mapping, skopeo and image-set")]
    Unknown(String),
    /// A mapping without a destination.
    #[error("a mapping needs to know where to; name the registry, such as mirror.example.com:5000")]
    NoDestination,
    /// A destination that is not a registry.
    #[error("{0:?} is no registry to map to; write it like mirror.example.com:5000/path")]
    Destination(String),
    /// Two images that would have the same path in the mirror.
    #[error("{first} and {second} would both be {place} in a mirror; copy one of them elsewhere")]
    SamePlace {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The common path.
        place: String,
    },
}
