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

/// Says what the metrics of this module mean.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    describe_gauge!("almanac_connections", "Open connections, by service");
    describe_counter!(
        "almanac_connections_total",
        "Accepted connections, by service"
    );
    describe_counter!(
        "almanac_grpc_requests_total",
        "Calls of the registry API, by service, method, catalog and code"
    );
    describe_histogram!(
        "almanac_grpc_request_seconds",
        Unit::Seconds,
        "Time from a call's arrival to its answer being ready to send, by method"
    );
    describe_counter!(
        "almanac_grpc_goaways_total",
        "Connections that were asked to come again because of new content"
    );
    describe_counter!(
        "almanac_http_requests_total",
        "Requests of the HTTP API, by route, method and code"
    );
    describe_histogram!(
        "almanac_http_request_seconds",
        Unit::Seconds,
        "Time from a request's arrival to its answer being ready to send, by route"
    );
}
