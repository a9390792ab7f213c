//! The settings under `[limits]`.

use ::images::layers::Limits;
use serde::Deserialize;

/// Bounds on an image while it is unpacked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    bytes: Option<u64>,
    /// Bytes of the files in the catalog folder.
    catalog_bytes: Option<u64>,
    entries: Option<u64>,
    files: Option<u64>,
    path: Option<usize>,
}

impl LimitSettings {
    /// The limits, with the defaults for what is not set.
    pub fn resolve(self) -> Limits {
        let default = Limits::default();
        Limits {
            bytes: self.bytes.unwrap_or(default.bytes),
            folder_bytes: self.catalog_bytes.unwrap_or(default.folder_bytes),
            entries: self.entries.unwrap_or(default.entries),
            files: self.files.unwrap_or(default.files),
            path: self.path.unwrap_or(default.path),
        }
    }
}
