//! File-based catalogs, pure and without I/O: bytes of files in, metas, blobs,
//! a graph and problems out.
//!
//! `read` cuts files into pieces and turns each into canonical lines, blobs
//! and encoded messages; `graph` puts the blobs of a catalog together;
//! `drawing` draws a package of it. `presentation` reads what people want to
//! know, `records` is how queries over HTTP have it, and `updates` says what may
//! come after a version.

mod bundle;
pub mod csv;
pub mod details;
pub mod document;
pub mod fields;
pub mod graph;
pub mod image_list;
pub mod indexignore;
pub mod message;
mod object;
pub mod presentation;
pub mod problem;
pub mod pullspec;
pub mod read;
pub mod select;
pub mod sqlite;
pub mod text;
