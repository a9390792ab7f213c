//! The messages of the Operator Registry gRPC API, and their descriptors.
//!
//! `api.rs` and `registry.fds` are generated from `proto/registry.proto` and
//! committed, so that a build needs no protobuf compiler and a change of the
//! wire can be read in a review. The test `tests/it/proto.rs` makes both anew
//! and fails on a difference.
//!
//! How the calls are routed and answered is left to `serve`, and which bytes
//! stand for a bundle to `snapshot`.

#[rustfmt::skip]
#[allow(
    clippy::pedantic,
    reason = "generated; its comments and names are those of the definition"
)]
mod api;

pub use api::*;

/// The definition with all it imports, as an encoded
/// `google.protobuf.FileDescriptorSet`: what reflection answers from.
pub const DESCRIPTORS: &[u8] = include_bytes!("registry.fds");
