//! Images of revisions, which clients pull by tag and digest.
//!
//! An image is a document in a row that names blobs of the content store. Blobs
//! come first, the row last, so a crash leaves the whole image or none.

pub(crate) mod blobs;
pub(crate) mod earlier_images;
pub(crate) mod own_images;
pub(crate) mod records;
