//! Which image of a catalog is made, and how.

/// The image of a catalog that clients can pull.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mirror {
    /// An image of the catalog's files alone.
    #[default]
    Slim,
    /// The source's image: all platforms, signatures and other attachments.
    Full,
}

/// How the image of a catalog is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageOptions {
    /// Its kind.
    pub mirror: Mirror,
    /// The name outside of almanac (`HOST/REPOSITORY`) under which an image made
    /// here is signed, if there is a signing key.
    pub signed_name: Option<String>,
}
