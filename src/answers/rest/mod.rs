//! Answers of the HTTP queries.

pub mod records;
pub mod updates;
