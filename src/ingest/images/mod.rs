//! Images of catalogs: made after a revision is published, beside the passes.
//!
//! `slim` makes an image of the catalog's files, which `sign` signs, `mirror`
//! copies the source's image with its attachments, `keep` runs them. A failure is tried again and
//! changes nothing that is served.

mod keep;
pub(super) mod make;
mod mirror;
pub(super) mod options;
mod sign;
mod slim;

pub use keep::{keep_image, restore_image};
pub use options::{ImageOptions, Mirror};
