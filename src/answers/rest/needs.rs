//! Needs of the newest version of a package.

use fbc::document::Gvk;

/// Needs of the head of a package's default channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The package.
    pub package: Box<str>,
    /// The head.
    pub bundle: String,
    /// Its version.
    pub version: String,
    /// The packages that it needs, each with a range of versions.
    pub packages: Vec<(String, String)>,
    /// The APIs that it needs.
    pub apis: Vec<Gvk>,
}
