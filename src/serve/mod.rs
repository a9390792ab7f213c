//! Answering clients.
//!
//! `listen` accepts connections and lets them end well; `registry` answers the
//! Operator Registry gRPC API, `catalogd` the HTTP API of OLM v1's catalogd,
//! `admin` probes, metrics and status. All read snapshots; nothing in here
//! knows where they come from.

pub mod admin;
mod body;
pub mod catalogd;
mod listen;
pub mod registry;

pub use listen::{ListenError, Listener, bind};
