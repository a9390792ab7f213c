//! How much clients may take of the ports, in numbers and in time.

use std::time::Duration;

/// What bounds clients. Each listener has `connections` of its own; the calls
/// are those of all gRPC ports together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections of one listener.
    pub connections: usize,
    /// The most gRPC calls that are answered at once.
    pub calls: usize,
    /// The most of them on one connection.
    pub calls_per_connection: usize,
    /// How long an HTTP connection may be without a request, and any connection
    /// without its first bytes.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of an answer that waits for it.
    pub stall_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            calls: 10_000,
            // packageserver asks for all packages of a catalog at once, and
            // leaves out those that are refused.
            calls_per_connection: 4_000,
            idle_timeout: Duration::from_mins(1),
            stall_timeout: Duration::from_mins(2),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}
