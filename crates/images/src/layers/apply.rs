//! Applying one layer to the image's tree.

use std::io::Read;

use crate::layers::compression::{Layer, decompress};
use crate::layers::error::{EntryError, Exceeded, LayerRejection, UnpackError};
use crate::layers::limits::{Budget, Limits};
use crate::layers::path::{SEPARATOR, shown, split_last, write_key};
use crate::layers::scope::Scope;
use crate::layers::spool::Contents;
use crate::layers::tar_entries::{EntryKind, Fault, TarEntries, TarEntry, TarSource};
use crate::layers::tree::{ImageTree, NodeKind};
use crate::layers::whiteout::{BOOKKEEPING, WHITEOUT, Whiteout, whiteout};

/// Applies the layer number `index` to `tree`, and its contents to
/// `contents`.
pub(super) fn apply_layer<R: Read>(
    layer: Layer<R>,
    index: usize,
    scope: &Scope,
    limits: &Limits,
    budget: &mut Budget,
    tree: &mut ImageTree,
    contents: &mut Contents<'_>,
) -> Result<(), UnpackError> {
    let Layer { name, reader } = layer;
    let source = decompress(&name, reader)?;
    let mut archive = TarEntries::new(source, limits, budget);
    let mut target = Target {
        name: &name,
        index,
        scope,
        limits,
        tree,
        contents,
    };
    // The key is reused: irrelevant entries allocate nothing.
    let mut key = Vec::new();
    loop {
        let entry = match archive.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => return target.end(),
            Err(fault) => return Err(target.fault(fault, archive.path())),
        };
        target.apply(&mut archive, entry, &mut key)?;
    }
}

/// The target of a layer.
struct Target<'a, 'c> {
    name: &'a str,
    index: usize,
    scope: &'a Scope,
    limits: &'a Limits,
    tree: &'a mut ImageTree,
    contents: &'a mut Contents<'c>,
}

impl Target<'_, '_> {
    fn apply<S: TarSource>(
        &mut self,
        archive: &mut TarEntries<'_, S>,
        entry: TarEntry,
        key: &mut Vec<u8>,
    ) -> Result<(), UnpackError> {
        let rejected = |target: &Self, rejection| Err(target.rejected(rejection, archive.path()));
        // All paths are checked, also irrelevant ones: an archive with a
        // hostile path is rejected.
        if archive.path().len().max(archive.link().len()) > self.limits.path {
            return Err(self.exceeded(Exceeded::Path(self.limits.path), archive.path()));
        }
        if let Err(rejection) = write_key(archive.path(), key) {
            return rejected(self, rejection);
        }
        let Some((folder, name)) = split_last(key) else {
            return match entry.kind {
                EntryKind::Folder => self.insert("", NodeKind::Folder, b"/"),
                _ => rejected(self, LayerRejection::Root),
            };
        };
        if let Some(whiteout) = whiteout(name) {
            let hidden = match whiteout {
                Whiteout::Bookkeeping => return Ok(()),
                // These would hide the folder itself or its parent.
                Whiteout::Itself(b"" | b"." | b"..") => {
                    return rejected(self, LayerRejection::Whiteout);
                }
                Whiteout::Below => folder.to_vec(),
                Whiteout::Itself(hidden) if folder.is_empty() => hidden.to_vec(),
                Whiteout::Itself(hidden) => [folder, b"\0", hidden].concat(),
            };
            if self.scope.concerns(&hidden) {
                let Ok(hidden) = std::str::from_utf8(&hidden) else {
                    return rejected(self, LayerRejection::NotUtf8);
                };
                let itself = whiteout != Whiteout::Below;
                self.tree.hide(hidden, self.index, itself);
            }
            return Ok(());
        }
        if !self.scope.concerns(key) {
            return Ok(());
        }
        let Ok(key) = std::str::from_utf8(key) else {
            return rejected(self, LayerRejection::NotUtf8);
        };
        let mut folders = key.split(SEPARATOR).map(str::as_bytes);
        if let Some(folder) = folders.find(|folder| folder.starts_with(WHITEOUT)) {
            return if folder.starts_with(BOOKKEEPING) {
                Ok(())
            } else {
                rejected(self, LayerRejection::Whiteout)
            };
        }
        let wanted = self.scope.holds(key.as_bytes());
        let kind = match entry.kind {
            EntryKind::Folder => NodeKind::Folder,
            EntryKind::File if wanted => self.append(archive, key, entry.size)?,
            EntryKind::Hardlink if wanted => match self.hardlink(archive.link()) {
                Ok(kind) => kind,
                Err(rejection) => return rejected(self, rejection),
            },
            EntryKind::Sparse if wanted => {
                let size = archive
                    .open_sparse()
                    .map_err(|fault| self.fault(fault, archive.path()))?;
                self.append(archive, key, size)?
            }
            EntryKind::UnknownSparse if wanted => return rejected(self, LayerRejection::Sparse),
            EntryKind::File
            | EntryKind::Hardlink
            | EntryKind::Sparse
            | EntryKind::UnknownSparse => NodeKind::Elsewhere,
            EntryKind::Symlink => match std::str::from_utf8(archive.link()) {
                Ok(target) if target.contains('\0') => {
                    return rejected(self, LayerRejection::ZeroByte);
                }
                Ok(target) => NodeKind::Symlink(target.to_owned()),
                Err(_) => return rejected(self, LayerRejection::NotUtf8),
            },
            EntryKind::Special(what) => return rejected(self, LayerRejection::Special(what)),
        };
        self.insert(key, kind, archive.path())
    }

    /// The node of a hardlink: a copy of its current target.
    fn hardlink(&self, link: &[u8]) -> Result<NodeKind, LayerRejection> {
        let target = shown(link);
        let mut key = Vec::new();
        if write_key(link, &mut key).is_err() || !self.scope.holds(&key) {
            return Err(LayerRejection::HardlinkOutside { target });
        }
        let node = std::str::from_utf8(&key)
            .ok()
            .and_then(|key| self.tree.get(key));
        match node.map(|node| &node.kind) {
            None => Err(LayerRejection::HardlinkMissing { target }),
            Some(NodeKind::Folder | NodeKind::Elsewhere) => {
                Err(LayerRejection::HardlinkNotAFile { target })
            }
            Some(kind) => Ok(kind.clone()),
        }
    }

    /// Appends the current entry's contents.
    fn append<S: TarSource>(
        &mut self,
        archive: &mut TarEntries<'_, S>,
        key: &str,
        size: u64,
    ) -> Result<NodeKind, UnpackError> {
        let offset = self.contents.position();
        let limit = self.limits.folder_bytes;
        // Checked before a byte is written.
        if offset.checked_add(size).is_none_or(|end| end > limit) {
            return Err(self.exceeded(Exceeded::FolderBytes(limit), archive.path()));
        }
        let (name, path) = (self.name, self.scope.relative(key));
        self.contents.append(&path, |buffer| {
            archive
                .read(buffer)
                .map_err(|fault| fault_of(name, archive.path(), fault))
        })?;
        Ok(NodeKind::File { offset, size })
    }

    fn insert(&mut self, key: &str, kind: NodeKind, path: &[u8]) -> Result<(), UnpackError> {
        self.tree
            .insert(key, kind, self.index)
            .map_err(|error| error.at(self.name, shown(path)))
    }

    fn end(&mut self) -> Result<(), UnpackError> {
        self.tree
            .end_layer()
            .map_err(|(path, rejection)| self.rejected(rejection, path.as_bytes()))
    }

    fn rejected(&self, rejection: LayerRejection, path: &[u8]) -> UnpackError {
        EntryError::Rejected(rejection).at(self.name, shown(path))
    }

    fn exceeded(&self, exceeded: Exceeded, path: &[u8]) -> UnpackError {
        EntryError::Exceeded(exceeded).at(self.name, shown(path))
    }

    fn fault(&self, fault: Fault, path: &[u8]) -> UnpackError {
        fault_of(self.name, path, fault)
    }
}

fn fault_of(layer: &str, path: &[u8], fault: Fault) -> UnpackError {
    let layer = layer.to_owned();
    match fault {
        Fault::Stored(source) => UnpackError::Read { layer, source },
        Fault::Damage(damage) => UnpackError::Damaged {
            layer,
            path: shown(path),
            damage,
        },
        Fault::Exceeded(exceeded) => EntryError::Exceeded(exceeded).at(&layer, shown(path)),
    }
}
