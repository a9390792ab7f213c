//! The HTTP API of OLM v1's catalogd, for all catalogs, further queries, and pages.
//!
//! - `catalogd` serves `all`, `metas` and `graphql`. `form` chooses the encoding of what is sent,
//!   `conditional` and `range` the part of it.
//! - `api` has the routes that catalogd does not have.
//! - `index` lists the catalogs and the routes of each.
//! - `pages` has the pages for people, `html` the page of GraphQL; `problem_count` has the number
//!   in the navigation of pages.
//! - `routes` lists all routes.
//! - `service` joins them, and answers common requests without the router.
//!
//! Around all routes are layers: `guard` (access), `announced` (digests of a cluster), `path`
//! (normalised paths), `rejection` (error formats), `cors` and `observe` (metrics and log).

mod announced;
mod api;
mod catalogd;
mod conditional;
mod cors;
mod encoding;
mod form;
mod guard;
mod headers;
mod html;
mod index;
mod observe;
mod options;
mod pages;
mod path;
mod problem_count;
mod query;
mod range;
mod rejection;
mod respond;
mod routes;
mod service;

pub use cors::Origins;
pub use options::PageOptions;
pub(crate) use pages::date;
pub use service::Service;
