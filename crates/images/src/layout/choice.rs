//! Naming an image in a layout.

use std::fmt;

use crate::digest::Digest;

/// How a layout lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder.
    Folder,
    /// A tar archive of such a folder.
    Archive,
    /// A tar archive that `docker save` wrote.
    DockerArchive,
}

/// Which image of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one with a tag, or a reference that ends in it.
    Name(String),
    /// The one with a digest.
    Digest(Digest),
}

/// Written as behind the path in a source: `:TAG` or `@DIGEST`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ":{name}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}
