//! The paths to watch for a file or folder that may be behind links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use notify::event::ModifyKind::Name;
use notify::{Event, EventKind, RecursiveMode, Watcher};

/// The most links of a path that are followed.
const MAX_LINKS: usize = 32;

/// The paths whose events may change the target of a path. Other files in the
/// same folders do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedPaths {
    /// The target, if it is a folder, behind all links.
    folder: Option<PathBuf>,
    /// The target, if it is a file; links in the path; the first missing part of
    /// it. Each is in a folder behind all links.
    names: BTreeSet<PathBuf>,
}

impl WatchedPaths {
    /// The paths to watch for a file or folder.
    pub(crate) fn new(path: &Path) -> Self {
        let mut watched = Self::default();
        let (links, routes) = links(path);
        watched.names.extend(links);
        match fs::canonicalize(path) {
            Ok(path) if path.is_dir() => watched.folder = Some(path),
            // Only the folder reports that a file was replaced.
            Ok(path) => watched.names.extend([path]),
            Err(_) => watched
                .names
                .extend(routes.iter().filter_map(|route| missing(route))),
        }
        watched
    }

    /// Watches them.
    pub(crate) fn add(&self, watcher: &mut impl Watcher) -> notify::Result<()> {
        let folders: BTreeSet<&Path> = self.names.iter().filter_map(|name| name.parent()).collect();
        for folder in folders {
            // The folder itself is watched recursively.
            if self.folder.as_deref() != Some(folder) {
                watcher.watch(folder, RecursiveMode::NonRecursive)?;
            }
        }
        match &self.folder {
            Some(folder) => watcher.watch(folder, RecursiveMode::Recursive),
            None => Ok(()),
        }
    }

    /// Whether an event may have changed the target.
    pub(crate) fn is_changed_by(&self, event: &Event) -> bool {
        // Reading is no change.
        if event.kind.is_access() {
            return false;
        }
        // Events were lost, or a watched folder is gone.
        if event.need_rescan() || event.paths.is_empty() {
            return true;
        }
        let gone = event.kind.is_remove() || matches!(event.kind, EventKind::Modify(Name(_)));
        event.paths.iter().any(|path| {
            let inside = |folder| path.starts_with(folder);
            self.names.contains(path)
                || self.folder.as_deref().is_some_and(inside)
                || gone && self.names.iter().any(|name| name.starts_with(path))
        })
    }
}

/// The links in a path, and the paths that they lead to: programs swap links to
/// replace a target.
fn links(path: &Path) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
    let mut links = BTreeSet::new();
    let mut routes = vec![path.to_owned()];
    let mut next = 0;
    while next < routes.len() && next < MAX_LINKS {
        let route = routes[next].clone();
        next += 1;
        for part in route.ancestors() {
            let (Ok(target), Some(folder)) = (fs::read_link(part), part.parent()) else {
                continue;
            };
            let (Some(name), Ok(folder)) = (part.file_name(), folder.canonicalize()) else {
                continue;
            };
            if links.insert(folder.join(name)) {
                let rest = route.strip_prefix(part).unwrap_or(Path::new(""));
                routes.push(folder.join(target).join(rest));
            }
        }
    }
    (links, routes)
}

/// The first missing part of a path, in a folder behind all links.
fn missing(path: &Path) -> Option<PathBuf> {
    let mut parts = path.ancestors().peekable();
    while let Some(part) = parts.next() {
        let above = parts.peek()?;
        if above.is_dir() {
            return Some(above.canonicalize().ok()?.join(part.file_name()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_links_in_a_path_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::create_dir(root.join("links")).unwrap();
        symlink("../real", root.join("links/second")).unwrap();
        symlink("links/second", root.join("first")).unwrap();
        symlink("first/deep", root.join("zeroth")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let found = |path: &str| Vec::from_iter(links(&root.join(path)).0);
        let wanted = [root.join("first"), root.join("links/second")];
        assert_eq!(found("first/deep"), wanted);
        let wanted = ["first", "links/second", "zeroth"].map(|name| root.join(name));
        assert_eq!(found("zeroth"), wanted);
        assert_eq!(found("real"), [] as [PathBuf; 0]);
        assert_eq!(found("loop/a"), [root.join("loop")]);
    }

    #[test]
    fn the_next_missing_part_of_a_path_is_found_behind_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("there")).unwrap();
        symlink("there/not/yet", root.join("link")).unwrap();
        let names = |path: &str| Vec::from_iter(WatchedPaths::new(&root.join(path)).names);
        assert_eq!(names("there/a/b/c"), [root.join("there/a")]);
        let wanted = [root.join("link"), root.join("there/not")];
        assert_eq!(names("link/a"), wanted);
    }
}
