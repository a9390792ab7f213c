//! A catalog made into the answers that clients get, without I/O.
//!
//! The stages of a pass call this module; it returns bytes, or hands them to a
//! function that stores them.

pub mod catalog;
pub mod changes;
mod chunks;
pub mod drawing;
pub mod graphql;
pub mod grpc;
pub mod images;
pub mod index;
pub mod outline;
pub mod rest;
pub mod shared_text;
pub mod sizes;
pub mod span;
mod xml;
