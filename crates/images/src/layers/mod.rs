//! Image layers in, the files under the catalog folder out.
//!
//! No path of an archive ever touches the file system. The parts of the image
//! that matter (the catalog folder, what is in it, and the folders above it)
//! are kept as a tree in memory, the contents of files under the catalog
//! folder are appended to one spool file, and the tree says where in it each
//! file lies. Whiteouts, replaced folders and links of all layers are applied
//! to that tree before the folder is picked out, so a layer that hides the
//! catalog folder, or a folder above it, hides what the layers below put there.
//! Everything else streams through without being kept.
//!
//! Archives are hostile: see [`Limits`] for what bounds them and [`Refusal`]
//! for what is refused.
//!
//! Left to others: fetching and verifying layers (the reader of a [`Layer`] is
//! read to its end, so a reader may verify while it is read), `.indexignore`,
//! and what the files mean.

mod archive;
mod compression;
mod cover;
mod error;
mod layer;
mod limits;
mod links;
mod path;
mod pax;
mod scope;
mod sparse;
mod spool;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;

use std::io::{self, Read};
use std::ops::Range;

pub use cover::{Looks, covers};
pub use error::{Damage, Exceeded, Refusal, UnpackError};
pub use limits::Limits;
pub use path::walk_order;

use layer::{Budget, apply_layer};
use links::Picked;
use scope::Scope;
use spool::Spool;
pub use spool::SpoolFile;
use tree::ImageTree;

/// How often all layers are walked for a catalog folder behind symlinks.
const MAX_ROUNDS: usize = 8;

/// One layer of an image.
pub struct Layer<R> {
    /// What messages call it: its digest.
    pub name: String,
    /// The bytes as they are stored: a tar archive, plain or compressed with
    /// gzip or zstd. Read to the end unless something is wrong before.
    pub reader: R,
}

/// The files under a catalog folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: Vec<File>,
}

/// One file under the catalog folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the catalog folder, with `/` between names; when the
    /// catalog folder is one file: its name. Text to show and to match, not a
    /// path to open.
    pub path: String,
    /// Where its contents start in the spool file, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

impl Tree {
    /// All files, in the order of [`walk_order`].
    pub fn files(&self) -> &[File] {
        &self.files
    }
}

/// Unpacks the files under `folder` of an image.
///
/// `open` gives the layers, of which 0 is the image's lowest; each may be
/// opened again, because a catalog folder that turns out to be a symlink takes
/// a further round over all layers. Those below `layers` are not looked at:
/// the lowest of it [covers] them. `folder` is the value of the image's
/// label: `/configs`, `configs`, `configs/` and `./configs` are the same, an
/// empty one or `/` is the whole image. `spool` is emptied first; after an
/// error it holds nothing of use.
pub fn unpack<R: Read>(
    layers: Range<usize>,
    mut open: impl FnMut(usize) -> io::Result<Layer<R>>,
    folder: &str,
    limits: &Limits,
    spool: &mut dyn SpoolFile,
) -> Result<Tree, UnpackError> {
    let mut scope = Scope::new(folder, limits)?;
    let mut spool = Spool::new(spool);
    for _ in 0..MAX_ROUNDS {
        spool.restart()?;
        let mut tree = ImageTree::default();
        let mut budget = Budget::default();
        let mut names = Vec::new();
        for (place, index) in layers.clone().enumerate() {
            let layer = open(index).map_err(|source| UnpackError::Open { index, source })?;
            names.push(layer.name.clone());
            apply_layer(
                layer,
                place,
                &scope,
                limits,
                &mut budget,
                &mut tree,
                &mut spool,
            )?;
        }
        spool.flush()?;
        match links::pick(&tree, &scope, &names, limits)? {
            Picked::Files(files) => return Ok(Tree { files }),
            // It is the label's folder that was covered, and no other.
            Picked::Elsewhere(place) if layers.start > 0 => {
                return Err(UnpackError::Covered {
                    folder: folder.into(),
                    place: path::shown_key(&place),
                });
            }
            Picked::Elsewhere(place) => scope.widen(place),
        }
    }
    Err(UnpackError::TooManyRounds {
        folder: folder.into(),
        limit: MAX_ROUNDS,
    })
}
