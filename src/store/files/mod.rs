//! The files of a revision: their formats, their maps, and the sums that they are compared with.
//!
//! `revision_files` opens the files of a revision and `checked` compares their bytes before they
//! are first used; `mapped` and `summing` are beneath both. `segments`, `groups` and `encodings`
//! are the compressed forms of its lines, `pieces` is what the next revision copies. `sums`
//! verifies all of them.

pub(crate) mod checked;
pub(crate) mod encodings;
pub(crate) mod groups;
pub(crate) mod mapped;
pub(crate) mod pieces;
pub(crate) mod revision_files;
pub(crate) mod segmenter;
pub(crate) mod segments;
pub(crate) mod summing;
pub(crate) mod sums;
