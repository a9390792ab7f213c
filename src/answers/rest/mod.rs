//! Answers of the HTTP queries.

pub mod facets;
pub mod install;
pub mod needs;
pub(crate) mod ordered;
pub mod packages;
pub mod plan;
pub mod records;
pub mod stages;
pub mod updates;
