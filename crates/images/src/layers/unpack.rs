//! Unpacking the files under one folder.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;

use crate::layers::apply::apply_layer;
use crate::layers::budget::Budget;
use crate::layers::error::UnpackError;
use crate::layers::layer::Layer;
use crate::layers::limits::Limits;
use crate::layers::links::{self, Picked};
use crate::layers::path::shown_key;
use crate::layers::scope::Scope;
use crate::layers::spool::Spool;
use crate::layers::tree::ImageTree;
use crate::layers::unpacked::UnpackedTree;

/// How often all layers are walked for a folder behind symlinks.
const MAX_ROUNDS: usize = 8;

/// Unpacks the files under `folder` of an image.
///
/// `open` gives the layers, of which 0 is the image's lowest; each may be
/// opened again, because a folder that turns out to be a symlink takes
/// a further round over all layers. Those below `layers` are not looked at:
/// the lowest of it [covers](crate::layers::covers) them. `folder` is the value of the image's
/// label: `/configs`, `configs`, `configs/` and `./configs` are the same, an
/// empty one or `/` is the whole image. `spool` is emptied first; after an
/// error it holds nothing of use.
pub fn unpack<R: Read>(
    layers: Range<usize>,
    mut open: impl FnMut(usize) -> io::Result<Layer<R>>,
    folder: &str,
    limits: &Limits,
    spool: &mut fs::File,
) -> Result<UnpackedTree, UnpackError> {
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
            Picked::Files(files) => return Ok(UnpackedTree { files }),
            // It is the label's folder that was covered, and no other.
            Picked::Elsewhere(place) if layers.start > 0 => {
                return Err(UnpackError::Covered {
                    folder: folder.into(),
                    place: shown_key(&place),
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
