//! File-based catalogs, pure and without I/O.
pub mod blob;
pub mod graph;
pub mod message;
pub mod problem;
pub mod pullspec;
pub mod semver;
pub mod typed;
