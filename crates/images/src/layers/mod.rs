//! Unpacking the files of one folder from the layers of an image (image-spec,
//! layer).
//!
//! No path of an archive ever reaches the file system. The folder, its contents
//! and its parents are kept as a tree in memory. File contents go into one
//! spool file, and the tree records where each of them starts. Whiteouts,
//! replaced folders and links of all layers are applied to the tree before the
//! folder is read from it: a layer that hides the folder, or a parent of it,
//! hides the files of the layers below. All other entries are skipped.
//!
//! Archives are hostile: [`Limits`] bounds them, and [`LayerRejection`] lists
//! the rejected entries.
//!
//! Fetching and verifying layers is left to the caller. The reader of a
//! [`Layer`] is read to its end, so it can verify the bytes as they pass.

mod apply;
mod compression;
mod cover;
mod error;
mod limits;
mod links;
mod path;
mod pax;
mod scope;
mod sparse;
mod spool;
mod tar_entries;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod unpack;
mod whiteout;

pub use compression::Layer;
pub use cover::{SearchBudget, covers};
pub use error::{Damage, Exceeded, LayerRejection, UnpackError};
pub use limits::Limits;
pub use links::UnpackedFile;
pub use path::walk_order;
pub use spool::{ContentSink, SpoolFile};
pub use unpack::{unpack, unpack_into};

pub(crate) use compression::{MAGIC, compression};
pub(crate) use limits::Budget;
pub(crate) use tar_entries::{EntryKind, Fault, TarEntries, TarSource};
