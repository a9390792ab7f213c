//! Selections of catalogs: some packages, channels and versions, with the meaning
//! of an `ImageSetConfiguration` (v2), and their dependencies.
//!
//! The input is the canonical lines of catalogs. The result is the lines of a
//! catalog, which has no problem that its origins do not have. The caller gets the
//! catalogs and stores the result.
//!
//! `request` describes a request, and `image_set` reads one from a file. `input`
//! is a catalog, `index` finds its packages, `channel` cuts a channel, `choice` is
//! the selected part of a package, `dependencies` adds the bundles that others
//! require, and `rewrite` writes the lines.

mod channel;
mod choice;
mod dependencies;
mod error;
pub mod image_set;
mod index;
mod input;
mod request;
mod requirement;
mod rewrite;
mod selected;
mod selection;
#[cfg(test)]
mod tests;

pub use error::SelectError;
pub use input::{Catalog, Line};
pub use request::{
    ChannelSelection, PackageSelection, Request, RequestError, Selection, VersionRange,
};
pub use selected::{Reason, Selected, SelectedBundle, SelectedPackage};
pub use selection::select;
