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
    /// How often a quiet HTTP/2 connection is asked whether it is there.
    pub keep_alive: Duration,
    /// How long it may take to answer that.
    pub keep_alive_timeout: Duration,
    /// When clients of gRPC have to come again for new content.
    pub renewal: Renewal,
}

/// When a gRPC connection that sees what is not served any more is asked to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// How long nothing has to move on it before that. OLM asks for one package
    /// after the other while it reads the list of bundles, and its pauses are
    /// those of the network and of a busy machine.
    pub quiet: Duration,
    /// The same while the client has asked for some of the packages that it was
    /// listed, but not for all: it will go on, if it is still there.
    pub half_asked: Duration,
    /// When it is asked at the latest: the pauses of some are too short, others
    /// read too slowly, and new content has to reach them too.
    pub latest: Duration,
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
            keep_alive: Duration::from_mins(1),
            keep_alive_timeout: Duration::from_secs(20),
            renewal: Renewal::default(),
        }
    }
}

impl Default for Renewal {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(400),
            half_asked: Duration::from_secs(5),
            latest: Duration::from_secs(30),
        }
    }
}
