//! Naming an image in a layout.

use std::fmt;

use crate::digest::Digest;

/// The format of a layout on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder.
    Folder,
    /// A tar archive of a layout folder.
    Archive,
    /// A tar archive of `docker save`.
    DockerArchive,
}

/// The choice of an image in a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The image with this tag, or with a reference that ends in it.
    Name(String),
    /// The image with this digest.
    Digest(Digest),
}

/// `:TAG` or `@DIGEST`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ":{name}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}
