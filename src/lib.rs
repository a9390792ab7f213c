//! almanac follows operator catalogs by digest and serves them.
//!
//! Two libraries do the groundwork: `fbc` gives catalog files their meaning, and
//! `images` gets container images. This crate turns both into a server. Its
//! modules, in the order in which a reader should meet them:
//!
//! 1. [`answers`] makes client answers from a catalog, without I/O.
//! 2. [`store`] keeps revisions in SQLite and files.
//! 3. [`snapshot`] opens a stored revision for serving.
//! 4. `queries` has the questions about snapshots, and the records that answer them.
//! 5. [`ingest`] follows sources and commits revisions to the store.
//! 6. [`serve`] answers clients from snapshots, and does not know [`ingest`].
//! 7. [`kubernetes`] reads the cluster, and knows neither of them.
//! 8. [`config`], [`app`] and [`cli`] are the composition root: they resolve
//!    settings, join the modules above, and run commands.
//!
//! Small modules serve several of these: [`name`] for catalog names, [`proto`]
//! for gRPC messages, [`map`] for memory maps, [`fetch`] for catalogs behind a
//! URL, [`objects`] for a bucket that replicas share, [`webhooks`] for events,
//! [`build_info`] for facts about the build.
//!
//! `tests/it/architecture` checks these directions; docs/ARCHITECTURE.md explains
//! them.

pub mod answers;
pub mod store;

pub mod snapshot;

pub mod ingest;
pub mod kubernetes;
pub mod serve;

pub mod app;
pub mod build_info;
pub mod cli;
pub mod config;
pub mod error_chain;
pub mod fetch;
pub mod fleet;
pub mod map;
pub mod name;
pub mod objects;
pub mod proto;
mod queries;
pub mod webhooks;
