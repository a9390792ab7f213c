//! Answers of the HTTP queries.

mod ordered;
pub mod packages;
pub mod records;
pub mod updates;
