//! The relevant paths of an image.

use crate::layers::error::{LayerRejection, UnpackError};
use crate::layers::limits::Limits;
use crate::layers::path::{is_within, relative, shown, write_key};

/// The folder, and the targets of its symlinks so far.
#[derive(Debug)]
pub(super) struct Scope {
    /// The requested folder, shortened for messages.
    pub(super) requested: String,
    /// Keys; the first is that of the requested folder.
    folders: Vec<String>,
}

impl Scope {
    pub(super) fn new(requested: &str, limits: &Limits) -> Result<Self, UnpackError> {
        let rejected = |rejection| UnpackError::Folder {
            folder: shown(requested.as_bytes()),
            rejection,
        };
        if requested.len() > limits.path {
            return Err(rejected(LayerRejection::TooLong(limits.path)));
        }
        let mut key = Vec::new();
        write_key(requested.as_bytes(), &mut key).map_err(rejected)?;
        // A key of a UTF-8 path is UTF-8.
        let key = String::from_utf8(key).map_err(|_| rejected(LayerRejection::NotUtf8))?;
        Ok(Self {
            requested: shown(requested.as_bytes()),
            folders: vec![key],
        })
    }

    /// Adds a folder that the requested one leads to.
    pub(super) fn widen(&mut self, key: String) {
        self.folders.push(key);
    }

    /// The key of the requested folder.
    pub(super) fn folder(&self) -> &str {
        self.folders.first().map_or("", String::as_str)
    }

    /// Whether the contents at `key` are kept.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.folders
            .iter()
            .any(|folder| is_within(key, folder.as_bytes()))
    }

    /// The path of contents that are kept, relative to the folder that has them.
    pub(super) fn relative(&self, key: &str) -> String {
        let holds = |folder: &&String| is_within(key.as_bytes(), folder.as_bytes());
        let folder = self.folders.iter().find(holds);
        relative(key, folder.map_or("", String::as_str))
    }

    /// Whether the entry at `key` can affect the folder: it is in the folder, or
    /// a parent of it.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        self.folders
            .iter()
            .any(|folder| is_within(key, folder.as_bytes()) || is_within(folder.as_bytes(), key))
    }
}
