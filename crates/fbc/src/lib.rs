//! File-based catalogs, pure and without I/O: bytes of files in, metas, blobs,
//! a graph and problems out.
//!
//! `read` cuts files into pieces and turns each into canonical lines and blobs;
//! a visitor (`visit`) sees the parts of packages and bundles on the way.
//! `graph` joins the blobs of a catalog. `presentation` and `details` read what
//! a package tells people, and `select` makes a catalog of parts of others.

mod bundle;
mod bundle_line;
pub mod csv;
pub mod details;
pub mod document;
pub mod fields;
pub mod graph;
pub mod image_list;
pub mod indexignore;
mod manifest_objects;
mod object;
pub mod presentation;
pub mod problem;
pub mod pullspec;
pub mod read;
pub mod select;
pub mod sqlite;
pub mod text;
pub mod visit;
