//! How much of an image is taken.

use serde::Deserialize;

/// Bounds on an image while it is unpacked. They hold for all layers together
/// and count also what is outside the folder, except where said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Uncompressed bytes of all layers. 8 GiB unless set.
    pub bytes: u64,
    /// Bytes of files under the folder: what is spooled, and also what
    /// the files add up to when links let one be read under several names.
    /// 2 GiB unless set.
    pub folder_bytes: u64,
    /// Archive entries, headers that only extend another counted as well.
    /// 1,000,000 unless set.
    pub entries: u64,
    /// Files, folders and links under the folder. 100,000 unless set.
    pub files: u64,
    /// Bytes of one path, or of one link's target. 4,096 unless set.
    pub path: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 8 << 30,
            folder_bytes: 2 << 30,
            entries: 1_000_000,
            files: 100_000,
            path: 4096,
        }
    }
}

impl Limits {
    /// Bounds that a test reaches quickly.
    pub fn for_testing() -> Self {
        Self {
            bytes: 4 << 20,
            folder_bytes: 1 << 20,
            entries: 200,
            files: 100,
            path: 300,
        }
    }
}
