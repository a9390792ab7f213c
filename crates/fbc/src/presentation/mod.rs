//! Packages and bundles as people and dashboards see them: descriptions, icons,
//! images and APIs, read from canonical lines.
//!
//! Malformed values count as absent: reading the catalog reported them.

mod bundle;
mod csv;
mod package;
#[cfg(test)]
mod tests;

pub use bundle::{BundleView, RelatedImage};
pub use csv::{Link, Maintainer, Presentation};
pub use package::PackageView;
