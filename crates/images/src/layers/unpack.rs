//! Unpacking the files under one folder.

use std::io::{self, Read};
use std::ops::Range;

use crate::layers::apply::apply_layer;
use crate::layers::compression::Layer;
use crate::layers::error::UnpackError;
use crate::layers::limits::{Budget, Limits};
use crate::layers::links::{self, Picked, UnpackedFile};
use crate::layers::path::shown_key;
use crate::layers::scope::Scope;
use crate::layers::spool::{ContentSink, Contents, Spool, SpoolFile};
use crate::layers::tree::ImageTree;

/// How often all layers are read for a folder behind symlinks.
const MAX_ROUNDS: usize = 8;

/// Unpacks the files in `folder` of an image, in the order of
/// [`walk_order`](crate::layers::walk_order).
///
/// `open` opens a layer; 0 is the lowest. A layer can be opened again: a folder
/// that is a symlink needs another pass over all layers. The layers below the
/// range `layers` are skipped, because its lowest layer
/// [covers](crate::layers::covers) them. The folders `/data`, `data`, `data/` and
/// `./data` are the same; an empty one or `/` is the whole image. `spool` is
/// emptied first. After an error its content is undefined.
pub fn unpack<R: Read>(
    layers: Range<usize>,
    open: impl FnMut(usize) -> io::Result<Layer<R>>,
    folder: &str,
    limits: &Limits,
    spool: &mut dyn SpoolFile,
) -> Result<Vec<UnpackedFile>, UnpackError> {
    unpack_into(layers, open, folder, limits, &mut Spool::new(spool))
}

/// As [`unpack`], with the contents of files in any place, such as memory. Offsets
/// count the bytes since the sink was last cleared.
pub fn unpack_into<R: Read>(
    layers: Range<usize>,
    mut open: impl FnMut(usize) -> io::Result<Layer<R>>,
    folder: &str,
    limits: &Limits,
    sink: &mut dyn ContentSink,
) -> Result<Vec<UnpackedFile>, UnpackError> {
    let mut scope = Scope::new(folder, limits)?;
    let mut contents = Contents::new(sink);
    for _ in 0..MAX_ROUNDS {
        contents.restart()?;
        let mut tree = ImageTree::new(limits.files);
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
                &mut contents,
            )?;
        }
        contents.finish()?;
        match links::pick(&tree, &scope, &names, limits)? {
            Picked::Files(files) => return Ok(files),
            // Only the requested folder is covered, not its target.
            Picked::Elsewhere(place) if layers.start > 0 => {
                return Err(UnpackError::Covered {
                    folder: folder.into(),
                    target: shown_key(&place),
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
