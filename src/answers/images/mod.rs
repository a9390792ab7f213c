//! Lists of the images that a selection needs, in the forms that tools read.

mod forms;
mod mirror_paths;
mod mirror_sets;
mod records;
#[cfg(test)]
mod tests;

pub use forms::Form;
pub use mirror_paths::FormError;
pub use mirror_sets::{MirrorSet, Mirrors};
pub use records::{ImageListRecord, ImageRecord};
