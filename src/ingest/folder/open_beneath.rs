//! Opening files below a folder. No link is followed on the way, also not one that
//! takes the place of a folder meanwhile. `openat2` can do this in one call, but not
//! every kernel and sandbox has it; here each folder is opened in the one above.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

/// A folder whose content is opened without leaving it.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    folder: OwnedFd,
}

/// A file or folder below a base. It has no links.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    base: Arc<Base>,
    below: PathBuf,
}

/// Folders on the way: only to look up names in them, which needs no permission to
/// list them.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

impl Base {
    /// A folder; its path has no links.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let folder = rustix::fs::open(
            &path,
            ON_THE_WAY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { path, folder })
    }
}

impl Location {
    /// The location of a path without links, if it is below the base.
    pub(crate) fn new(base: &Arc<Base>, path: &Path) -> Option<Self> {
        let below = path.strip_prefix(&base.path).ok()?.to_owned();
        let base = Arc::clone(base);
        Some(Self { base, below })
    }

    /// The location of an entry of this folder.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self {
            base: Arc::clone(&self.base),
            below: self.below.join(name),
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        if self.below.as_os_str().is_empty() {
            return self.base.path.clone();
        }
        self.base.path.join(&self.below)
    }

    /// Opens a file to read it. A pipe in place of the file does not block.
    pub(crate) fn open(&self) -> io::Result<File> {
        Ok(self.opened(OFlags::RDONLY | OFlags::NONBLOCK)?.into())
    }

    /// The metadata of a file or folder.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.opened(OFlags::PATH)?).metadata()
    }

    /// The entries of a folder, without itself and the one above.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let folder = self.opened(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not tell.
                FileType::Unknown => {
                    let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                kind => kind,
            };
            entries.push((OsString::from_vec(name.to_bytes().to_vec()), kind));
        }
        Ok(entries)
    }

    fn opened(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let mut folder = None;
        let mut names = self.below.components().peekable();
        if names.peek().is_none() {
            return self.next(None, Path::new("."), flags);
        }
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            let is_last = names.peek().is_none();
            let flags = if is_last { flags } else { ON_THE_WAY };
            folder = Some(self.next(folder.as_ref(), Path::new(name), flags)?);
        }
        folder.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }

    fn next(&self, folder: Option<&OwnedFd>, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let folder = folder.unwrap_or(&self.base.folder).as_fd();
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, name, flags, Mode::empty())?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_is_swapped_for_a_link_leads_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (root, other) = (place.join("catalog"), place.join("other"));
        for (folder, content) in [(root.join("a/b"), "own"), (other.join("b"), "secret")] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("c"), content).unwrap();
        }
        let base = Arc::new(Base::new(root.clone()).unwrap());
        let file = Location::new(&base, &root.join("a/b/c")).unwrap();
        let folder = Location::new(&base, &root.join("a/b")).unwrap();
        let read = || {
            let mut content = String::new();
            file.open()?.read_to_string(&mut content).map(|_| content)
        };
        assert_eq!(read().unwrap(), "own");
        assert_eq!(file.metadata().unwrap().len(), 3);
        assert_eq!(
            folder.entries().unwrap(),
            [("c".into(), FileType::RegularFile)]
        );

        // Also of the last but one folder, of the last one, and of the file.
        let swaps = [
            ("a", &other),
            ("a/b", &other.join("b")),
            ("a/b/c", &other.join("b/c")),
        ];
        for (name, target) in swaps {
            let (path, aside) = (root.join(name), place.join("aside"));
            fs::rename(&path, &aside).unwrap();
            symlink(target, &path).unwrap();
            assert_eq!(fs::read_to_string(file.path()).unwrap(), "secret", "{name}");
            assert!(read().is_err(), "{name}");
            assert!(file.metadata().is_ok_and(|it| it.is_symlink()) == (name == "a/b/c"));
            assert!(folder.entries().is_err() == (name != "a/b/c"), "{name}");
            fs::remove_file(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
        }
        assert_eq!(read().unwrap(), "own");
    }

    #[test]
    fn a_path_elsewhere_or_with_dots_is_no_location() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        fs::create_dir(place.join("a")).unwrap();
        fs::write(place.join("b"), "").unwrap();
        let base = Arc::new(Base::new(place.join("a")).unwrap());
        assert!(Location::new(&base, &place.join("ab")).is_none());
        let above = Location::new(&base, &place.join("a/../b")).unwrap();
        assert!(above.open().is_err());
        let own = Location::new(&base, &place.join("a")).unwrap();
        assert_eq!(own.path(), place.join("a"));
        assert!(own.entries().unwrap().is_empty());
    }
}
