//! A catalog made into the answers that clients get, without I/O.

pub mod drawing;
pub mod graphql;
pub mod grpc;
pub mod images;
pub mod rest;
pub mod sizes;
