//! Answers of the gRPC API.

pub mod build;
pub mod bundle_message;
pub mod csv;
pub mod encoder;
pub mod framing;
pub mod message;
pub mod structs;
