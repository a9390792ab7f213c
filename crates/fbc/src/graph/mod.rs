//! The graph of a catalog: packages, their channels, the entries of those and the
//! bundles behind them.
//!
//! The graph is built from blobs and checked with the rules of `opm validate`.
//! Unlike opm, one run reports every finding of every package. A package with an
//! error is left out of the graph and does not affect the others.
//!
//! Defects of a blob by itself (a version, an image, a property) were found when
//! it was read. They become problems here.

mod build;
mod bundle;
mod chains;
mod channel;
mod deprecation;
mod group;
mod lifecycle;
mod manifests;
mod model;
mod names;
mod package;
mod report;
#[cfg(test)]
mod tests;

pub use build::build;
pub use chains::{Chains, Survey};
pub use model::{Channel, Entry, Graph, Package};
pub use report::{MAX_PROBLEMS, MAX_PROBLEMS_PER_PACKAGE};
