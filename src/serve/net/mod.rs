//! Connections: listening, TLS, limits, and answers until they are written.

pub mod body;
pub mod connection;
pub mod connection_limit;
pub mod connection_state;
pub mod credential;
pub mod descriptors;
pub mod in_flight;
pub mod limits;
pub mod listen;
pub mod stream;
pub mod tls;
pub mod validity;
