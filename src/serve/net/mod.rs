//! Connections: listeners, TLS, limits, and responses until they are sent.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod connection_limit;
pub(crate) mod connection_state;
pub mod credential;
mod date;
pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod stream;
pub mod tls;
