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
    /// The limits, with defaults for missing settings.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_in_part_and_without_unknown_keys() {
        let settings: LimitSettings = serde_json::from_str(r#"{"entries": 7}"#).unwrap();
        assert_eq!(
            settings.resolve(),
            Limits {
                entries: 7,
                ..Limits::default()
            }
        );
        let settings: LimitSettings = serde_json::from_str(r#"{"catalog_bytes": 9}"#).unwrap();
        assert_eq!(settings.resolve().folder_bytes, 9);
        assert!(serde_json::from_str::<LimitSettings>(r#"{"entry": 7}"#).is_err());
    }
}
