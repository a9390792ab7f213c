//! Queries over a catalog: answers that save a client from fetching all of it.
//!
//! Besides `all` and `metas` there are `packages`, `bundles`, `images`,
//! `providers`, `updates` and `search`; `across` has those over several catalogs.
//! They return JSON by default; `/openapi.json` describes them. Most responses are prepared when a catalog is
//! read, and are only selected here. `operation` declares what a handler takes and returns, and
//! `description` makes the description of the API from all operations. `parameters` reads
//! requests, `response` writes responses, `problem` describes errors.

pub(super) mod across;
pub(super) mod bundles;
pub(super) mod dependents;
pub(super) mod description;
pub(super) mod examples;
pub(super) mod history;
pub(super) mod images;
pub(super) mod install;
pub(super) mod lifecycle;
pub(super) mod operation;
pub(super) mod packages;
pub(super) mod parameters;
pub(super) mod plan;
pub(super) mod problem;
pub(super) mod providers;
pub(super) mod recorded;
pub(super) mod request;
pub(super) mod response;
pub(super) mod search;
mod shared_components;
pub(super) mod updates;
