//! The limits of clients, in numbers and in time.

use std::time::Duration;

/// The limits of clients. `connections` applies to each listener, `calls` to all
/// gRPC ports together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum connections of a listener.
    pub connections: usize,
    /// Maximum concurrent gRPC calls.
    pub calls: usize,
    /// Maximum concurrent gRPC calls of a connection.
    pub calls_per_connection: usize,
    /// How long an HTTP connection may have no open request, and any connection
    /// may send no first byte.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of a waiting response.
    pub stall_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// Interval of HTTP/2 pings on quiet connections.
    pub keep_alive: Duration,
    /// How long the reply to a ping may take.
    pub keep_alive_timeout: Duration,
    /// When gRPC clients have to reconnect for new content.
    pub renewal: Renewal,
}

/// When a gRPC connection that sees an old revision is asked to close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Not before this time: in a fleet, the client may come to another replica, which
    /// shows the new content a moment later.
    pub earliest: Duration,
    /// After no bytes have moved for this long. OLM requests one package after
    /// the other while it reads the list of bundles, with pauses of the network
    /// and of a busy machine.
    pub quiet: Duration,
    /// The same while the client has requested some of the packages in its list
    /// and not all: it will probably continue.
    pub half_asked: Duration,
    /// At the latest after this time: new content also has to reach clients that
    /// never pause or read slowly.
    pub latest: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            calls: 10_000,
            // packageserver requests all packages of a catalog at once, and
            // omits those whose calls fail.
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

impl Renewal {
    /// The same for a replica of a fleet.
    #[must_use]
    pub fn of_fleet(self) -> Self {
        Self {
            earliest: Duration::from_millis(250),
            ..self
        }
    }
}

impl Default for Renewal {
    fn default() -> Self {
        Self {
            earliest: Duration::ZERO,
            quiet: Duration::from_millis(400),
            half_asked: Duration::from_secs(5),
            latest: Duration::from_secs(30),
        }
    }
}
