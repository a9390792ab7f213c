//! Rows of a SQLite index as blobs: the blobs that `opm migrate` writes for such a
//! catalog. The caller reads the rows.

mod bundle;
mod manifests;
mod package;
mod rows;
#[cfg(test)]
mod tests;

pub use bundle::write_bundle;
pub use manifests::Manifests;
pub use package::write_package;
pub use rows::{EdgeRow, Edges, LegacyBundle, LegacyEntry, LegacyPackage, entries};
