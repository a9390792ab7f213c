//! The files of a catalog folder on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use crate::ingest::files_error::{FilesError, reading};
use crate::ingest::folder::open_beneath::{Base, Location};
use ::images::layers::{Limits, walk_order};

/// Where Kubernetes has the current version of a mounted `ConfigMap` or Secret.
const DATA: &str = "..data";
/// The deepest nesting of folders: each is opened from the first one on.
const DEPTH: usize = 200;

/// The folder behind all links. They may be swapped while it is read, and all of
/// it must be from one version.
pub(crate) fn real(root: &Path) -> PathBuf {
    let data = root.join(DATA);
    let root = if data.is_dir() { &data } else { root };
    fs::canonicalize(root).unwrap_or_else(|_| root.to_owned())
}

/// How the files of a folder are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderOptions {
    /// Folders that links may lead to, besides the folder itself.
    pub link_folders: Vec<PathBuf>,
    /// Whether a folder that keeps changing is read anyway.
    pub read_changing: bool,
}

impl FolderOptions {
    /// Options with which links may lead anywhere.
    pub fn with_links_anywhere() -> Self {
        Self {
            link_folders: vec!["/".into()],
            ..Self::default()
        }
    }
}

/// The options and the limits for a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct FolderRules {
    pub(crate) options: FolderOptions,
    pub(crate) limits: Limits,
}

impl FolderRules {
    pub(crate) fn new(options: &FolderOptions, limits: &Limits) -> Self {
        Self {
            options: options.clone(),
            limits: limits.clone(),
        }
    }
}

/// The files of a folder in catalog order, or the one file: their paths below it,
/// and their locations behind all links.
pub(crate) fn list(
    root: &Path,
    rules: &FolderRules,
) -> Result<Vec<(String, Location)>, FilesError> {
    let mut paths = Vec::new();
    let named = root;
    // Links may be swapped meanwhile.
    let root = &real(root);
    if fs::metadata(root).map_err(reading(root))?.is_dir() {
        // Kubernetes swaps versions inside of the named folder.
        let others = rules.options.link_folders.iter().map(PathBuf::as_path);
        let inside = [named].into_iter().chain(others);
        let inside = inside.filter_map(|it| Base::new(fs::canonicalize(it).ok()?).ok());
        let walk = Walk {
            inside: inside.map(Arc::new).collect(),
            limits: &rules.limits,
        };
        let folder = walk.location(root).ok_or_else(|| FilesError::Link {
            path: DATA.to_owned(),
            target: root.clone(),
        })?;
        walk.list(&folder, "", DEPTH, &mut paths)?;
        paths.sort_by(|(a, _), (b, _)| walk_order(a, b));
    } else {
        let name = named.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| FilesError::Path(root.to_owned()))?;
        let folder = root.parent().unwrap_or(Path::new("/"));
        let base = Arc::new(Base::new(folder.to_owned()).map_err(reading(root))?);
        let location = Location::new(&base, root);
        let location = location.ok_or_else(|| FilesError::Path(root.to_owned()))?;
        paths.push((name.to_owned(), location));
    }
    Ok(paths)
}

/// A walk through a folder.
struct Walk<'a> {
    /// The folders that links may lead to, behind all links themselves. A user names
    /// them, so nobody else puts links in their place.
    inside: Vec<Arc<Base>>,
    limits: &'a Limits,
}

impl Walk<'_> {
    /// The location of a path without links, if it is in one of the folders.
    fn location(&self, path: &Path) -> Option<Location> {
        let mut inside = self.inside.iter();
        inside.find_map(|base| Location::new(base, path))
    }

    /// Lists the files below a folder. Links to files are followed, links to
    /// folders are not, and names that begin with `..` are passed over:
    /// Kubernetes keeps the versions of a mounted `ConfigMap` there.
    fn list(
        &self,
        folder: &Location,
        prefix: &str,
        depth: usize,
        paths: &mut Vec<(String, Location)>,
    ) -> Result<(), FilesError> {
        for (name, kind) in folder.entries().map_err(reading(&folder.path()))? {
            let name = name
                .into_string()
                .map_err(|name| FilesError::Path(folder.path().join(name)))?;
            if name.starts_with("..") {
                continue;
            }
            let location = folder.join(&name);
            let path = match prefix {
                "" => name,
                _ => format!("{prefix}/{name}"),
            };
            if path.len() > self.limits.path {
                return Err(FilesError::Limit {
                    what: "the length of the path",
                    path,
                    limit: self.limits.path as u64,
                });
            }
            let location = match kind {
                FileType::Directory if depth == 0 => {
                    return Err(FilesError::Limit {
                        what: "the nesting of folders",
                        path,
                        limit: DEPTH as u64,
                    });
                }
                FileType::Directory => {
                    self.list(&location, &path, depth - 1, paths)?;
                    continue;
                }
                FileType::RegularFile => location,
                FileType::Symlink => match self.behind_link(&location, &path)? {
                    Some(target) => target,
                    None => continue,
                },
                _ => continue,
            };
            if paths.len() as u64 >= self.limits.files {
                return Err(FilesError::Limit {
                    what: "the number of files",
                    path,
                    limit: self.limits.files,
                });
            }
            paths.push((path, location));
        }
        Ok(())
    }

    /// The file behind a link; `None` for a folder and the like.
    fn behind_link(&self, link: &Location, path: &str) -> Result<Option<Location>, FilesError> {
        let link = link.path();
        if !fs::metadata(&link).map_err(reading(&link))?.is_file() {
            return Ok(None);
        }
        let target = fs::canonicalize(&link).map_err(reading(&link))?;
        match self.location(&target) {
            Some(location) => Ok(Some(location)),
            None => Err(FilesError::Link {
                path: path.to_owned(),
                target,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_out_of_the_folder_is_refused_unless_a_setting_allows_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (root, shared) = (place.join("catalog"), place.join("shared"));
        for folder in [&root, &shared] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(shared.join("other.yaml"), "").unwrap();
        fs::write(root.join("own.yaml"), "").unwrap();
        symlink("own.yaml", root.join("again.yaml")).unwrap();
        // Links to folders are not followed.
        symlink("/etc", root.join("folder")).unwrap();
        let mut rules = FolderRules::default();
        assert_eq!(list(&root, &rules).unwrap().len(), 2);

        symlink("../shared/other.yaml", root.join("other.yaml")).unwrap();
        let refused = list(&root, &rules).unwrap_err();
        assert_eq!(refused.reason(), "link");
        let message = refused.to_string();
        assert!(message.contains("\"other.yaml\"") && message.contains("shared/other.yaml"));
        rules.options.link_folders = vec![place.join("nowhere"), shared.clone()];
        let files = list(&root, &rules).unwrap();
        let [_, (path, location), _] = &files[..] else {
            panic!("{files:?}");
        };
        assert_eq!(
            (path.as_str(), location.path()),
            ("other.yaml", shared.join("other.yaml"))
        );
        // A folder whose name begins alike is another one.
        rules.options.link_folders = vec![place.join("share")];
        assert!(list(&root, &rules).is_err());
        // The one file of a catalog is named by the user.
        assert_eq!(
            list(&root.join("other.yaml"), &FolderRules::default())
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn folders_nested_too_deep_are_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let (root, next) = (place.path().join("n"), place.path().join("next"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("catalog.yaml"), "").unwrap();
        let wrap = |times: usize| {
            for _ in 0..times {
                fs::create_dir(&next).unwrap();
                fs::rename(&root, next.join("n")).unwrap();
                fs::rename(&next, &root).unwrap();
            }
        };
        wrap(DEPTH);
        let rules = FolderRules::default();
        assert_eq!(list(&root, &rules).unwrap().len(), 1);
        wrap(3000 - DEPTH);
        let refused = list(&root, &rules).unwrap_err();
        let FilesError::Limit { path, .. } = refused else {
            panic!("{refused}")
        };
        assert_eq!(path.split('/').count(), DEPTH + 1, "nothing below is read");
        // A removal of all of it at once would open too many folders.
        for _ in 0..3000 {
            fs::rename(root.join("n"), &next).unwrap();
            fs::remove_dir(&root).unwrap();
            fs::rename(&next, &root).unwrap();
        }
    }

    #[test]
    fn the_links_of_a_mounted_config_map_lead_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("etcd/..v1")).unwrap();
        fs::write(root.join("etcd/..v1/catalog.yaml"), "").unwrap();
        symlink("..v1", root.join("etcd/..data")).unwrap();
        symlink("..data/catalog.yaml", root.join("etcd/catalog.yaml")).unwrap();
        let rules = FolderRules::default();
        assert_eq!(list(root, &rules).unwrap()[0].0, "etcd/catalog.yaml");
        assert_eq!(
            list(&root.join("etcd"), &rules).unwrap()[0].0,
            "catalog.yaml"
        );
        // A link of the version to a file beside it.
        fs::write(root.join("etcd/shared.yaml"), "").unwrap();
        symlink("../shared.yaml", root.join("etcd/..v1/more.yaml")).unwrap();
        assert_eq!(list(&root.join("etcd"), &rules).unwrap().len(), 2);

        fs::create_dir(root.join("shared")).unwrap();
        fs::write(root.join("shared/other.yaml"), "").unwrap();
        fs::remove_file(root.join("etcd/..data")).unwrap();
        symlink("../shared", root.join("etcd/..data")).unwrap();
        let refused = list(&root.join("etcd"), &rules).unwrap_err();
        assert_eq!(refused.reason(), "link", "{refused}");
        assert!(refused.to_string().contains("\"..data\""), "{refused}");
    }

    #[test]
    fn a_version_of_a_config_map_that_is_swapped_for_a_link_leads_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (root, secret) = (place.join("catalog"), place.join("secret"));
        for folder in [&root.join("..v1"), &secret] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("catalog.yaml"), "").unwrap();
        }
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/catalog.yaml", root.join("catalog.yaml")).unwrap();
        let rules = FolderRules::default();
        let files = list(&root, &rules).unwrap();
        let [(path, location)] = &files[..] else {
            panic!("{files:?}");
        };
        assert_eq!(path, "catalog.yaml");
        assert!(location.open().is_ok());
        fs::rename(root.join("..v1"), root.join("..v0")).unwrap();
        symlink(&secret, root.join("..v1")).unwrap();
        assert!(location.open().is_err());
        assert_eq!(list(&root, &rules).unwrap_err().reason(), "link");
    }
}
