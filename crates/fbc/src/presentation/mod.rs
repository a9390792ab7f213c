//! Packages and bundles as people and dashboards see them: descriptions, icons,
//! images and APIs, read from canonical lines.
//!
//! Malformed values count as absent: reading the catalog reported them.

mod apis;
mod csv;
mod features;
mod permissions;
#[cfg(test)]
mod tests;
mod view;

pub use apis::{ApiDescriptions, Examples, KindDescription};
pub use csv::{Link, Maintainer, NamespaceTemplate, Presentation};
pub use permissions::{AccountRules, Permissions, Rule};
pub use view::{BundleView, PackageView, RelatedImage, image};
