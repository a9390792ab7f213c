//! Rows of a SQLite index as blobs: the blobs that `opm migrate` writes for such a
//! catalog. The caller reads the rows.

mod blobs;
mod manifests;
mod rows;
#[cfg(test)]
mod tests;

pub use blobs::{write_bundle, write_package};
pub use manifests::Manifests;
pub use rows::{EdgeRow, Edges, LegacyBundle, LegacyEntry, LegacyPackage, entries};
