//! Which paths of an image matter.

use crate::layers::error::{LayerRejection, UnpackError};
use crate::layers::limits::Limits;
use crate::layers::path::{is_within, shown, write_key};

/// The catalog folder, and the places that its symlinks were found to lead to.
#[derive(Debug)]
pub(super) struct Scope {
    /// The label's value as it was given, shortened for messages.
    pub(super) label: String,
    /// Keys; the label's own is the first.
    folders: Vec<String>,
}

impl Scope {
    pub(super) fn new(label: &str, limits: &Limits) -> Result<Self, UnpackError> {
        let refused = |rejection| UnpackError::Label {
            folder: shown(label.as_bytes()),
            rejection,
        };
        if label.len() > limits.path {
            return Err(refused(LayerRejection::TooLong(limits.path)));
        }
        let mut key = Vec::new();
        write_key(label.as_bytes(), &mut key).map_err(refused)?;
        // Whole names of a text are text.
        let key = String::from_utf8(key).map_err(|_| refused(LayerRejection::NotUtf8))?;
        Ok(Self {
            label: shown(label.as_bytes()),
            folders: vec![key],
        })
    }

    /// Takes in a further folder that the label leads to.
    pub(super) fn widen(&mut self, key: String) {
        self.folders.push(key);
    }

    /// The label's key.
    pub(super) fn folder(&self) -> &str {
        self.folders.first().map_or("", String::as_str)
    }

    /// Whether the contents at `key` are wanted.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.folders
            .iter()
            .any(|folder| is_within(key, folder.as_bytes()))
    }

    /// Whether what is at `key` can decide what the folder holds: it is in the
    /// folder, or above it.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        self.folders
            .iter()
            .any(|folder| is_within(key, folder.as_bytes()) || is_within(folder.as_bytes(), key))
    }
}
