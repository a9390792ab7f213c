//! Reading the folder from the finished tree, through symlinks. Targets are
//! looked up in the tree and never opened.

use crate::layers::error::{EntryError, Exceeded, LayerRejection, UnpackError};
use crate::layers::limits::Limits;
use crate::layers::path::{SEPARATOR, is_within, join, parent, push, relative, shown, shown_key};
use crate::layers::scope::Scope;
use crate::layers::tree::{ImageTree, Node, NodeKind};

/// The most symlinks behind one another, as in Linux.
const MAX_LINKS: usize = 40;

/// The most steps to follow all symlinks of an image.
const MAX_STEPS: u64 = 1_000_000;

/// One file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFile {
    /// The path relative to the folder, with `/` between names; or its name, if
    /// the folder is a file itself. It is a text to show and compare, not a path
    /// to open.
    pub path: String,
    /// The position of its contents in the spool file, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The result of reading the folder.
pub(super) enum Picked {
    Files(Vec<UnpackedFile>),
    /// The key of a folder that symlinks lead to and that is not in the tree.
    Elsewhere(String),
}

/// Reads the files of the folder from the tree of all layers.
pub(super) fn pick(
    tree: &ImageTree,
    scope: &Scope,
    layers: &[String],
    limits: &Limits,
) -> Result<Picked, UnpackError> {
    let mut resolver = Resolver { tree, steps: 0 };
    let label = scope.folder();
    let folder = match resolver.resolve("", label, SEPARATOR) {
        Ok(key) => key,
        Err(Unresolved::Missing(place)) if scope.concerns(place.as_bytes()) => {
            return Err(missing(&place));
        }
        Err(Unresolved::Missing(place)) => return Ok(Picked::Elsewhere(place)),
        Err(Unresolved::Loop | Unresolved::Steps) => {
            return Err(UnpackError::Folder {
                folder: scope.requested.clone(),
                rejection: LayerRejection::SymlinkLoop {
                    target: shown_key(label),
                },
            });
        }
        Err(Unresolved::Climbs) => {
            return Err(UnpackError::Folder {
                folder: scope.requested.clone(),
                rejection: LayerRejection::ParentComponent,
            });
        }
    };
    if !scope.holds(folder.as_bytes()) {
        // A symlink leads to a parent, whose contents were not kept.
        return Ok(Picked::Elsewhere(folder));
    }
    // The root exists in an empty image as well.
    let is_file = match tree.get(&folder).map(|node| &node.kind) {
        Some(NodeKind::File { .. }) => true,
        None if !folder.is_empty() => return Err(missing(&folder)),
        _ => false,
    };

    let mut files = Vec::new();
    let mut total = 0_u64;
    for (key, node) in tree.within(&folder) {
        let fail = |error: EntryError| error.at(layer_name(layers, node), shown_key(key));
        let (offset, size) = match &node.kind {
            NodeKind::Folder | NodeKind::Elsewhere => continue,
            NodeKind::File { offset, size } => (*offset, *size),
            NodeKind::Symlink(target) => {
                resolver.file_behind(key, target, &folder).map_err(fail)?
            }
        };
        // Links give a file several names.
        total = total.saturating_add(size);
        if total > limits.folder_bytes {
            return Err(fail(EntryError::Exceeded(Exceeded::FolderBytes(
                limits.folder_bytes,
            ))));
        }
        files.push(UnpackedFile {
            path: if is_file {
                relative(label, label)
            } else {
                relative(key, &folder)
            },
            offset,
            size,
        });
    }
    Ok(Picked::Files(files))
}

/// Why a path cannot be resolved.
enum Unresolved {
    /// The key does not exist.
    Missing(String),
    Loop,
    /// A `..` after a missing name.
    Climbs,
    Steps,
}

struct Resolver<'a> {
    tree: &'a ImageTree,
    steps: u64,
}

impl<'a> Resolver<'a> {
    /// The contents behind the symlink at `key`.
    fn file_behind(
        &mut self,
        key: &str,
        target: &'a str,
        folder: &str,
    ) -> Result<(u64, u64), EntryError> {
        let start = if target.starts_with('/') {
            ""
        } else {
            parent(key)
        };
        let resolved = self.resolve(start, target, '/');
        let target = shown(target.as_bytes());
        let inside = |key: &str| is_within(key.as_bytes(), folder.as_bytes());
        Err(EntryError::Rejected(match resolved {
            Ok(place) if !inside(&place) => LayerRejection::SymlinkOutside { target },
            Ok(place) => match self.tree.get(&place).map(|node| &node.kind) {
                Some(NodeKind::File { offset, size }) => return Ok((*offset, *size)),
                _ => LayerRejection::SymlinkToFolder { target },
            },
            Err(Unresolved::Missing(place)) if inside(&place) => {
                LayerRejection::SymlinkDangling { target }
            }
            Err(Unresolved::Missing(_)) => LayerRejection::SymlinkOutside { target },
            Err(Unresolved::Loop) => LayerRejection::SymlinkLoop { target },
            Err(Unresolved::Climbs) => LayerRejection::SymlinkDangling { target },
            Err(Unresolved::Steps) => {
                return Err(EntryError::Exceeded(Exceeded::LinkSteps(MAX_STEPS)));
            }
        }))
    }

    /// Resolves `path` from the folder `start`, name by name and through
    /// symlinks. `separator` is between the names.
    fn resolve(
        &mut self,
        start: &str,
        path: &'a str,
        separator: char,
    ) -> Result<String, Unresolved> {
        let mut done = start.to_owned();
        let mut pending: Vec<&str> = path.rsplit(separator).collect();
        let mut links = 0;
        while let Some(name) = pending.pop() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Unresolved::Steps);
            }
            match name {
                "" | "." => continue,
                // The root's parent is the root.
                ".." => {
                    done.truncate(parent(&done).len());
                    continue;
                }
                name => push(&mut done, name),
            }
            match self.tree.get(&done).map(|node| &node.kind) {
                Some(NodeKind::Folder) => {}
                Some(NodeKind::Symlink(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Unresolved::Loop);
                    }
                    let folder = if target.starts_with('/') {
                        ""
                    } else {
                        parent(&done)
                    };
                    done.truncate(folder.len());
                    pending.extend(target.rsplit('/'));
                }
                found => {
                    pending.retain(|name| !matches!(*name, "" | "."));
                    if found.is_some() && pending.is_empty() {
                        return Ok(done);
                    }
                    if pending.contains(&"..") {
                        return Err(Unresolved::Climbs);
                    }
                    let missing = pending
                        .iter()
                        .rev()
                        .fold(done, |key, name| join(&key, name));
                    return Err(Unresolved::Missing(missing));
                }
            }
        }
        Ok(done)
    }
}

fn missing(key: &str) -> UnpackError {
    UnpackError::MissingFolder {
        folder: format!("/{}", shown_key(key)),
    }
}

/// The name of the layer of a node.
fn layer_name<'l>(layers: &'l [String], node: &Node) -> &'l str {
    layers.get(node.layer).map_or("", String::as_str)
}
