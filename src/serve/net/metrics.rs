//! The metrics of connections.

use metrics::{Unit, counter, describe_counter, describe_gauge};

/// Counts a connection that almanac ended.
pub(crate) fn count_ended(service: &'static str, reason: &'static str) {
    counter!("almanac_connections_ended_total", "service" => service, "reason" => reason)
        .increment(1);
}

/// Describes the metrics of this module.
pub(crate) fn describe_metrics() {
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
}
