//! The value of an `olm.csv.metadata` property: the part of a
//! `ClusterServiceVersion` that a catalog carries without its manifests.
//!
//! The ecosystem reads the value into typed fields and writes those out again.
//! Most fields come out as they stand in the catalog, so a [`CsvField`] knows
//! whether its text can be used unchanged, and where that text lies.

mod metadata;
mod types;

pub(crate) use metadata::check;
pub use metadata::{CsvField, CsvMetadata, write_zero};
