//! The HTTP API of OLM v1's catalogd, for all catalogs, and further queries.
//!
//! - `content` serves `all` (a whole catalog) and `metas` (a selection of it) as
//!   lines of JSON: slices of stored files, plain or compressed. `form` chooses
//!   the encoding, `conditional` and `range` the part of it that is sent.
//! - `graphql` answers GraphQL queries, as catalogd does.
//! - `queries` has the routes that catalogd does not have.
//! - `index` names the catalogs and the routes of each.
//! - `pages` has the pages for people, `html` the page of GraphQL.
//! - `hint` tells in a header why a selection is empty; `problem_count` has the number in the
//!   navigation of pages.
//! - `service` joins them, and answers common requests without the router.
//!
//! Around all routes are layers: `guard` (access), `announced` (digests of a cluster), `path` (normalised paths),
//! `rejection` (error formats), `cors` and `observe` (metrics and log).

mod announced;
mod conditional;
mod content;
mod cors;
mod encoding;
mod form;
mod graphql;
mod guard;
mod headers;
mod hint;
mod html;
mod index;
mod observe;
mod options;
mod pages;
mod path;
mod problem_count;
mod queries;
mod query;
mod range;
mod rejection;
mod respond;
mod service;

pub use cors::Origins;
pub use options::PageOptions;
pub(crate) use pages::date;
pub use service::Service;
