//! Reading the configuration files about registries: certificates, credentials,
//! mirrors, policy. All sizes and counts are bounded.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most files of one folder.
const MAX_FILES: usize = 1000;

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Certificates and their keys.
    Certificates,
    /// Credentials for registries.
    Credentials,
    /// Mirrors, and registries that are blocked or insecure.
    Mirrors,
    /// The policy that admits images.
    Policy,
    /// A public key for signatures of images.
    Key,
    /// A private key that signs images.
    SigningKey,
    /// The password of that key.
    Password,
    /// The places of signatures (`registries.d`).
    SignatureStores,
    /// A signature of an image.
    Signature,
}

/// A file that another program writes once it knows the content. Until then there is
/// none, which is an error with this reason; a file without objects is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedFile {
    /// Its path.
    pub path: PathBuf,
    /// The reason to tell while it is missing.
    pub unknown: String,
}

/// A file that cannot be used. It does not repeat the file's content.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {} {problem}", path.display())]
pub struct FileError {
    /// Its purpose.
    pub kind: FileKind,
    /// The file or folder.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: FileProblem,
}

/// Why a file cannot be used, as the end of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// Missing or unreadable.
    #[error("cannot be read")]
    Read(#[from] io::Error),
    /// In a folder without search permission, so it may or may not exist.
    #[error("cannot be reached: its folder denies access")]
    Hidden,
    /// Larger than this many bytes.
    #[error("is larger than {0} bytes")]
    TooLarge(u64),
    /// With invalid content: the problem and its position.
    #[error("cannot be used: {0}")]
    Content(String),
}

impl FileError {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            FileKind::Certificates => "certificates",
            FileKind::Credentials => "credentials",
            FileKind::Mirrors => "mirrors",
            FileKind::Policy | FileKind::Key | FileKind::SignatureStores => "policy",
            FileKind::Signature => "signature_store",
            FileKind::SigningKey | FileKind::Password => "signing",
        }
    }

    pub(crate) fn new(kind: FileKind, path: &Path, problem: impl Into<FileProblem>) -> Self {
        Self {
            kind,
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    /// An error about the content of a file.
    pub(crate) fn content(kind: FileKind, path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(kind, path, FileProblem::Content(problem.to_string()))
    }

    /// The error of an awaited file that is not there yet.
    pub(crate) fn unknown_if_missing(self, file: &AwaitedFile) -> Self {
        if self.is_missing() {
            return Self::content(self.kind, &file.path, &file.unknown);
        }
        self
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.problem, FileProblem::Read(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the file is in a folder without search permission.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self.problem, FileProblem::Hidden)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificates => "the certificate file",
            Self::Credentials => "the credentials file",
            Self::Mirrors => "the registry configuration",
            Self::Policy => "the signature policy",
            Self::Key => "the public key",
            Self::SigningKey => "the signing key",
            Self::Password => "the password file of the signing key",
            Self::SignatureStores => "the configuration of signatures",
            Self::Signature => "the signature",
        })
    }
}

/// The first file that exists. A file in a folder without search permission is
/// skipped, except the last: that is the system's, and it must not be ignored
/// silently.
pub(crate) fn first(
    kind: FileKind,
    paths: &[PathBuf],
    limit: u64,
) -> Result<Option<(&Path, Vec<u8>)>, FileError> {
    for (index, path) in paths.iter().enumerate() {
        match read(kind, path, limit) {
            Err(error) if error.is_missing() => {}
            Err(error) if error.is_hidden() && index + 1 < paths.len() => {}
            bytes => return Ok(Some((path, bytes?))),
        }
    }
    Ok(None)
}

/// Reads a whole file of at most `limit` bytes. It blocks.
pub(crate) fn read(kind: FileKind, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |error: io::Error| FileError::new(kind, path, error);
    // Opening a pipe without a writer would block for ever.
    if !metadata(kind, path)?.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::new(kind, path, FileProblem::TooLarge(limit)));
    }
    Ok(bytes)
}

/// Lists the files of a folder whose names end in one of `endings` (with the
/// dot), sorted by name. Names that begin with two dots are skipped: Kubernetes
/// keeps the real files of a mounted volume under such names.
pub(crate) fn list(
    kind: FileKind,
    folder: &Path,
    endings: &[&str],
) -> Result<Vec<PathBuf>, FileError> {
    let failed = |error: io::Error| FileError::new(kind, folder, error);
    metadata(kind, folder)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // Entries of a folder always have a name.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let wanted = endings.iter().any(|ending| name.ends_with(ending));
        if !wanted || name.starts_with("..") || path.is_dir() {
            continue;
        }
        if files.len() == MAX_FILES {
            let problem = format!("it contains more than {MAX_FILES} files");
            return Err(FileError::content(kind, folder, problem));
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

fn metadata(kind: FileKind, path: &Path) -> Result<fs::Metadata, FileError> {
    fs::metadata(path).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::PermissionDenied => FileProblem::Hidden,
            _ => error.into(),
        };
        FileError::new(kind, path, problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_completely_or_rejected() {
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
    fn the_files_of_a_folder_are_sorted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt", ".hidden.conf", "..data.conf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("d.conf")).unwrap();
        let files = list(FileKind::Mirrors, folder.path(), &[".conf"]).unwrap();
        let expected = [".hidden.conf", "a.conf", "b.conf"].map(|name| folder.path().join(name));
        assert_eq!(files, expected);
    }
}
