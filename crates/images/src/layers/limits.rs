//! Limits on unpacking, and their consumed part.

/// Limits on unpacking an image. They apply to all layers together, and to
/// entries outside the folder as well, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Uncompressed bytes of all layers. Default: 8 GiB.
    pub bytes: u64,
    /// Bytes of the files in the folder: in the spool file, and in total when
    /// links give a file several names. Default: 2 GiB.
    pub folder_bytes: u64,
    /// Archive entries, including headers that extend another. Default:
    /// 1,000,000.
    pub entries: u64,
    /// Files, folders and links in the folder. Default: 100,000.
    pub files: u64,
    /// Bytes of one path or link target. Default: 4,096.
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
    /// Small limits for tests.
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

/// The bytes and entries of all layers so far, counted against [`Limits`].
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}
