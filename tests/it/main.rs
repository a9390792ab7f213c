//! All integration tests, in one binary so that they link once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failure in a test, or in a helper of one, is the message"
)]

mod access;
mod admin;
mod architecture;
mod bad_input;
mod behind_nginx;
mod check;
mod commands;
mod config;
mod conformance;
mod crash;
mod docs;
mod draining;
mod failures;
mod follow;
mod graphql;
mod grpc;
mod http;
mod limits;
mod oci;
mod olm_v0;
mod opm;
mod policy;
mod probe;
mod properties;
mod proto;
mod queries;
mod real_registry;
mod registries;
mod repository;
mod support;
mod tls;
