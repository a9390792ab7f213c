//! The API of OLM v1's catalogd.
//!
//! - `content` serves `all` (a whole catalog) and `metas` (a selection of it) as lines of JSON:
//!   slices of stored files, plain or compressed. `hint` reports in a header why a selection is
//!   empty.
//! - `graphql` answers GraphQL queries.
//! - `operations` declares all of them for the description of the API.

pub(crate) mod content;
pub(crate) mod graphql;
pub(crate) mod hint;
pub(crate) mod operations;
