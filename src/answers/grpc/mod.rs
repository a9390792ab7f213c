//! Answers of the gRPC API.

pub mod entry;
pub mod framing;
pub mod structs;
