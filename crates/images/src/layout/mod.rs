//! OCI image layouts (image-spec, image-layout) in a folder or a tar archive,
//! and archives of `docker save`, which are read as if they were layouts.

mod docker_archive;
mod error;
mod files;
mod image_layout;
mod storage;
mod tar_files;
#[cfg(test)]
mod tests;

pub use error::LayoutError;
pub use image_layout::{Choice, Format, Layout};
