//! Files that say how to speak to registries, read whole and within bounds.
//!
//! What stands in them is a matter of the modules that ask for them; here is
//! only how a file is read, and what is said when that cannot be done.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most files of one folder that are looked at.
const MAX_FILES: usize = 1000;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Certificates and their keys.
    Certificates,
    /// Mirrors, and registries that are blocked or insecure.
    Mirrors,
    /// Which images are let in.
    Policy,
    /// A key that images are signed with.
    Key,
}

/// A file that cannot be used. No variant repeats what stands in the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Missing, or not readable.
    #[error("{kind} {} cannot be read", path.display())]
    Read {
        /// What it is for.
        kind: FileKind,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// In a folder that may not be entered, so that nobody knows whether it is
    /// there.
    #[error("{kind} {} cannot be looked for: its folder is closed", path.display())]
    Hidden {
        /// What it is for.
        kind: FileKind,
        /// The file.
        path: PathBuf,
    },
    /// Larger than it may be.
    #[error("{kind} {} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// What it is for.
        kind: FileKind,
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Not what it should be.
    #[error("{kind} {} cannot be used: {problem}", path.display())]
    Content {
        /// What it is for.
        kind: FileKind,
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
}

impl FileError {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        let (Self::Read { kind, .. }
        | Self::Hidden { kind, .. }
        | Self::TooLarge { kind, .. }
        | Self::Content { kind, .. }) = self;
        match kind {
            FileKind::Certificates => "certificates",
            FileKind::Mirrors => "mirrors",
            FileKind::Policy | FileKind::Key => "policy",
        }
    }

    /// An error about what stands in a file.
    pub(crate) fn content(kind: FileKind, path: &Path, problem: impl fmt::Display) -> Self {
        Self::Content {
            kind,
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificates => "the certificate file",
            Self::Mirrors => "the registry configuration",
            Self::Policy => "the signature policy",
            Self::Key => "the public key",
        })
    }
}

/// The first of the files that is there. One of which nobody knows whether it
/// is there is passed over, but for the last: that is the system's, and whoever
/// has one counts on it.
pub(crate) fn first(
    kind: FileKind,
    paths: &[PathBuf],
    limit: u64,
) -> Result<Option<(&Path, Vec<u8>)>, FileError> {
    for (index, path) in paths.iter().enumerate() {
        match read(kind, path, limit) {
            Err(error) if error.is_missing() => {}
            Err(FileError::Hidden { .. }) if index + 1 < paths.len() => {}
            bytes => return Ok(Some((path, bytes?))),
        }
    }
    Ok(None)
}

/// A whole file of at most `limit` bytes. It blocks, so callers that must not
/// are on a thread for that.
pub(crate) fn read(kind: FileKind, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read {
        kind,
        path: path.to_owned(),
        source,
    };
    // Opening a pipe that nobody writes to would wait for ever.
    if !look(kind, path)?.is_file() {
        return Err(failed(io::Error::other("it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge {
            kind,
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

/// The files of a folder whose names end in one of `endings` (with the dot),
/// by name. Names that begin with a dot are passed over, as Kubernetes keeps
/// the real files of a mounted volume under such.
pub(crate) fn list(
    kind: FileKind,
    folder: &Path,
    endings: &[&str],
) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError::Read {
        kind,
        path: folder.to_owned(),
        source,
    };
    look(kind, folder)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let wanted = endings.iter().any(|ending| name.ends_with(ending));
        if !wanted || name.starts_with('.') || path.is_dir() {
            continue;
        }
        if files.len() == MAX_FILES {
            let problem = format!("there are more than {MAX_FILES} files in it");
            return Err(FileError::content(kind, folder, problem));
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

fn look(kind: FileKind, path: &Path) -> Result<fs::Metadata, FileError> {
    let path = path.to_owned();
    fs::metadata(&path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => FileError::Hidden { kind, path },
        _ => FileError::Read { kind, path, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let missing = read(FileKind::Policy, &path, 4).unwrap_err();
        assert!(missing.is_missing(), "{missing}");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read(FileKind::Policy, &path, 4).unwrap(), b"1234");
        let error = read(FileKind::Policy, &path, 3).unwrap_err();
        assert!(error.to_string().ends_with("is larger than 3 bytes"));
        assert!(!error.is_missing());
        let error = read(FileKind::Mirrors, folder.path(), 3).unwrap_err();
        assert_eq!(error.reason(), "mirrors");
    }

    #[test]
    fn the_files_of_a_folder_come_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt", ".hidden.conf", "..data.conf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("d.conf")).unwrap();
        let files = list(FileKind::Mirrors, folder.path(), &[".conf"]).unwrap();
        let expected = ["a.conf", "b.conf"].map(|name| folder.path().join(name));
        assert_eq!(files, expected);
    }
}
