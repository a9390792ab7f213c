//! almanac follows operator catalogs by digest and serves them.
//!
//! The modules, in the order of the data:
//!
//! - [`digest`], [`name`], [`near`], [`quoted`], [`proto`], [`map`]: small things that all
//!   use.
//! - [`oci`] speaks to registries and reads layouts, [`unpack`] turns layers
//!   into files, [`fbc`] turns files into metas, a graph and problems,
//!   [`fetch`] gets a catalog that is served over HTTP. None of them knows the
//!   others.
//! - [`store`] keeps revisions in SQLite and files, [`snapshot`] opens one for
//!   serving.
//! - [`ingest`] follows the sources and makes revisions, [`serve`] answers
//!   clients. They meet in [`snapshot`].
//! - [`config`] turns what was written into what the program needs, [`app`]
//!   puts everything together, [`cli`] is what a user types.
//!
//! `tests/it/architecture.rs` holds these directions; docs/ARCHITECTURE.md
//! tells why.

pub mod answers;
pub mod app;
pub mod cli;
pub mod config;
pub mod error_chain;
pub mod fetch;
pub mod ingest;
pub mod map;
pub mod name;
pub mod proto;
pub mod serve;
pub mod snapshot;
pub mod store;
