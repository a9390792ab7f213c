//! All integration tests, in one binary so that they link once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failure in a test, or in a helper of one, is the message"
)]

mod architecture;
mod config;
mod docs;
mod oci;
mod properties;
mod proto;
mod repository;
mod support;
