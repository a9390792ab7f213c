//! Serving clients, from snapshots only: nothing here knows their source.
//!
//! `net` accepts connections and ends them well. `grpc` serves the Operator
//! Registry gRPC API, `http` the HTTP API of OLM v1's catalogd, `oci` the
//! distribution API for image pulls, `admin` probes, metrics and status, `admission`
//! catalogd's webhook. `access`
//! decides who may read a catalog. `worker_pool` and `memory_budget` bound the
//! cost of queries.

pub mod access;
pub mod admin;
pub mod admission;
mod fields;
pub mod grpc;
pub mod http;
mod memory_budget;
mod metrics;
pub mod net;
mod observed;
pub mod oci;
mod request_metrics;
mod worker_pool;

pub use metrics::describe_metrics;
pub use net::connection_limit::raise_descriptor_limit;
pub use net::limits::{Limits, Renewal};
pub use net::listen::{ListenError, Listener, Peer, bind};
