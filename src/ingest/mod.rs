//! ingest
mod ordered;
mod source;
pub use source::{Source, SourceError};
