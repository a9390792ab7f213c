//! Keys and certificates of a requirement: in a file or in the policy itself.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::config_files::{self, FileError, FileKind};

/// Key material: a file, or bytes of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOrData {
    /// The path of a file.
    File(PathBuf),
    /// The name of a field, and its bytes.
    Data(String, Vec<u8>),
}

impl FileOrData {
    /// The bytes. It blocks.
    pub(crate) fn read(&self, kind: FileKind, limit: u64) -> Result<Cow<'_, [u8]>, FileError> {
        match self {
            Self::File(path) => Ok(config_files::read(kind, path, limit)?.into()),
            Self::Data(_, bytes) => Ok(bytes.into()),
        }
    }
}

impl fmt::Display for FileOrData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Data(field, _) => f.write_str(field),
        }
    }
}
