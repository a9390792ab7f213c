//! catalogd's GraphQL API: `/catalogs/{name}/api/v1/graphql`.
//!
//! `limits` checks a query before it runs, `variables` its variables, `handler`
//! runs it on a worker pool. Browsers get a page to write queries in (`page`).

mod handler;
mod limits;
mod page;
mod variables;

pub(super) use handler::route;
