//! File-based catalogs, pure and without I/O: bytes of files in, metas, blobs,
//! a graph and problems out.

pub mod blob;
pub mod json;
pub mod message;
pub mod problem;
pub(crate) mod text;
pub mod typed;
