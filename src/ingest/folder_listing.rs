//! The files of a catalog folder on disk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ingest::files_error::{FilesError, reading};
use ::images::layers::{Limits, walk_order};

/// Where Kubernetes has the current version of a mounted `ConfigMap` or Secret.
const DATA: &str = "..data";

/// The folder behind all links. They may be swapped while it is read, and all of
/// it must be from one version.
pub(super) fn real(root: &Path) -> PathBuf {
    let data = root.join(DATA);
    let root = if data.is_dir() { &data } else { root };
    fs::canonicalize(root).unwrap_or_else(|_| root.to_owned())
}

/// The files of a folder in catalog order, or the one file: their paths below it,
/// and their locations.
pub(super) fn list(root: &Path, limits: &Limits) -> Result<Vec<(String, PathBuf)>, FilesError> {
    let mut paths = Vec::new();
    let named = root;
    // Links may be swapped meanwhile.
    let root = &real(root);
    if fs::metadata(root).map_err(reading(root))?.is_dir() {
        walk(root, "", limits, &mut paths)?;
        paths.sort_by(|(a, _), (b, _)| walk_order(a, b));
    } else {
        let name = named.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| FilesError::Path(root.to_owned()))?;
        paths.push((name.to_owned(), root.to_owned()));
    }
    Ok(paths)
}

/// Lists the files below a folder. Links to files are followed, links to
/// folders are not, and names that begin with `..` are passed over: Kubernetes
/// keeps the versions of a mounted `ConfigMap` there.
fn walk(
    folder: &Path,
    prefix: &str,
    limits: &Limits,
    paths: &mut Vec<(String, PathBuf)>,
) -> Result<(), FilesError> {
    for entry in fs::read_dir(folder).map_err(reading(folder))? {
        let entry = entry.map_err(reading(folder))?;
        let location = entry.path();
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| FilesError::Path(location.clone()))?;
        if name.starts_with("..") {
            continue;
        }
        let path = match prefix {
            "" => name,
            _ => format!("{prefix}/{name}"),
        };
        let kind = entry.file_type().map_err(reading(&location))?;
        if path.len() > limits.path {
            return Err(FilesError::Limit {
                what: "the length of the path",
                path,
                limit: limits.path as u64,
            });
        }
        if kind.is_dir() {
            walk(&location, &path, limits, paths)?;
        } else if fs::metadata(&location)
            .map_err(reading(&location))?
            .is_file()
        {
            if paths.len() as u64 >= limits.files {
                return Err(FilesError::Limit {
                    what: "the number of files",
                    path,
                    limit: limits.files,
                });
            }
            paths.push((path, location));
        }
    }
    Ok(())
}
