//! Answering clients.
//!
//! `listen` accepts connections and lets them end well; `registry` answers the
//! Operator Registry gRPC API, `catalogd` the HTTP API of OLM v1's catalogd,
//! `distribution` the OCI API that images are pulled by, `admin` probes, metrics
//! and status. All read snapshots; nothing in here knows where they come from.

pub mod access;
pub mod admin;
pub mod grpc;
pub mod http;
pub mod net;
pub mod oci;
pub mod worker_pool;

pub use net::connection::Answers;
pub use net::descriptors::raise_descriptor_limit;
pub use net::limits::{Limits, Renewal};
pub use net::listen::{ListenError, Listener, Peer, bind};

/// Says what the metrics of this module mean.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    describe_gauge!("almanac_connections", "Open connections, by service");
    describe_counter!(
        "almanac_connections_total",
        "Accepted connections, by service"
    );
    describe_counter!(
        "almanac_connections_ended_total",
        "Connections that almanac ended, by service and reason"
    );
    describe_counter!(
        "almanac_stalled_answers_total",
        "Answers that were given up since the client took nothing of them, by service"
    );
    describe_counter!(
        "almanac_credential_reloads_total",
        "Certificates and tokens that were read again, by kind, whose they are, and outcome"
    );
    describe_gauge!(
        "almanac_certificate_expiry_timestamp_seconds",
        Unit::Seconds,
        "When the certificate of a service ends"
    );
    describe_counter!(
        "almanac_grpc_requests_total",
        "Calls, by service, method, catalog and code"
    );
    describe_histogram!(
        "almanac_grpc_request_seconds",
        Unit::Seconds,
        "Time from a call's arrival to its answer being ready to send, by method, catalog and code"
    );
    describe_counter!(
        "almanac_grpc_sent_bytes_total",
        Unit::Bytes,
        "Bytes of answers that were sent, by method, catalog and code"
    );
    describe_counter!(
        "almanac_grpc_calls_refused_total",
        "Calls that were refused since too many were open, by limit"
    );
    describe_gauge!(
        "almanac_grpc_pinned_connections",
        "Connections that see a catalog, by catalog and generation of it"
    );
    describe_counter!(
        "almanac_grpc_goaways_total",
        "Connections that were asked to come again because of new content"
    );
    describe_counter!(
        "almanac_http_requests_total",
        "Requests of the HTTP API, by method, route, code, catalog and encoding"
    );
    describe_histogram!(
        "almanac_http_request_seconds",
        Unit::Seconds,
        "Time from a request's arrival to its answer being ready to send, by route, code, catalog and encoding"
    );
    describe_counter!(
        "almanac_http_sent_bytes_total",
        Unit::Bytes,
        "Bytes of answers that were sent, by route, code, catalog and encoding"
    );
    describe_counter!(
        "almanac_http_denied_total",
        "Requests without what a catalog asks of its readers, by catalog"
    );
}
