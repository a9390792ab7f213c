//! File-based catalogs, pure and without I/O: bytes of files in, metas, blobs,
//! a graph and problems out.
//!
//! `read` cuts files into pieces and turns each into canonical lines, blobs
//! and encoded messages; `graph` puts the blobs of a catalog together;
//! `drawing` draws a package of it.

pub mod blob;
mod bundle;
pub mod csv;
pub mod details;
pub mod drawing;
pub mod fields;
pub mod graph;
pub mod graphql;
pub mod indexignore;
pub mod json;
pub mod members;
pub mod message;
mod object;
pub mod problem;
pub mod pullspec;
pub mod read;
pub mod semver;
mod shape;
mod text;
mod typed;
mod walk;
pub mod yaml;
