//! Selections of catalogs: some packages, channels and versions, with the meaning
//! of an `ImageSetConfiguration` (v2), and their dependencies.
//!
//! The input is the canonical lines of catalogs. The result is the lines of a
//! catalog, which has no problem that its origins do not have. The caller gets the
//! catalogs and stores the result.
//!
//! `request` describes a request, and `image_set` reads one from a file. `model` has
//! the input and the result. `index` finds the packages of a catalog, `channel` cuts a
//! channel, `choice` is the selected part of a package, `dependencies` adds the bundles
//! that others require, and `rewrite` writes the lines.

mod channel;
mod choice;
mod dependencies;
mod error;
pub mod image_set;
mod index;
mod model;
mod request;
mod requirement;
mod rewrite;
mod selection;
#[cfg(test)]
mod tests;

pub use error::SelectError;
pub use model::{Catalog, Line, Reason, Selected, SelectedBundle, SelectedPackage};
pub use request::{
    ChannelSelection, PackageSelection, Request, RequestError, Selection, VersionRange,
};
pub use selection::select;
