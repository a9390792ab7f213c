//! The descriptions of the metrics of serving.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

use crate::build_info;

/// Counts a connection that almanac ended.
pub(crate) fn count_ended(service: &'static str, reason: &'static str) {
    counter!("almanac_connections_ended_total", "service" => service, "reason" => reason)
        .increment(1);
}

/// Describes the metrics of serving, and sets that of the build.
pub fn describe_metrics() {
    describe_gauge!(
        "almanac_build_info",
        "Always 1; the labels tell version, commit and features of the build"
    );
    gauge!(
        "almanac_build_info",
        "version" => build_info::VERSION,
        "commit" => build_info::COMMIT,
        "features" => build_info::FEATURES
    )
    .set(1);
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
        "Responses that were aborted because the client stopped reading, by service"
    );
    describe_counter!(
        "almanac_credential_reloads_total",
        "Reloads of certificates, tokens and users, by kind, owner and outcome"
    );
    describe_gauge!(
        "almanac_certificate_expiry_timestamp_seconds",
        Unit::Seconds,
        "Expiry of the certificate of a service, as a Unix timestamp"
    );
    describe_counter!(
        "almanac_http_denied_total",
        "HTTP and OCI requests without the credentials that a catalog requires, by catalog"
    );
    describe_counter!(
        "almanac_http_requests_total",
        "HTTP requests, by method, route, status code, catalog and content encoding"
    );
    describe_histogram!(
        "almanac_http_request_seconds",
        Unit::Seconds,
        "Time from the arrival of an HTTP request until its response is ready to send"
    );
    describe_counter!(
        "almanac_http_sent_bytes_total",
        Unit::Bytes,
        "Bytes of HTTP response bodies sent"
    );
    describe_counter!(
        "almanac_grpc_requests_total",
        "gRPC calls, by service, method, catalog and status code"
    );
    describe_histogram!(
        "almanac_grpc_request_seconds",
        Unit::Seconds,
        "Time from the arrival of a gRPC call until its response is ready to send"
    );
    describe_counter!(
        "almanac_grpc_sent_bytes_total",
        Unit::Bytes,
        "Bytes of gRPC responses sent"
    );
    describe_counter!(
        "almanac_grpc_calls_refused_total",
        "Calls that were rejected by a limit, by limit"
    );
    describe_gauge!(
        "almanac_grpc_pinned_connections",
        "Connections that see a catalog, by catalog and generation (current or old)"
    );
    describe_counter!(
        "almanac_grpc_goaways_total",
        "Connections that were asked to reconnect because of new content"
    );
}
