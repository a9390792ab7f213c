//! The metrics of a replica of a fleet.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::name::CatalogName;
use crate::store::fleet::FleetError;

/// Describes the metrics of this module.
pub fn describe_fleet_metrics() {
    describe_gauge!(
        "almanac_fleet_beat_age_seconds",
        Unit::Seconds,
        "Time since the last word to the database of the fleet"
    );
    describe_gauge!("almanac_fleet_replicas", "Replicas that live");
    describe_gauge!("almanac_fleet_leases", "Catalogs that this replica follows");
    describe_gauge!(
        "almanac_fleet_lost_objects",
        "Objects that the bucket has lost and nobody has uploaded again"
    );
    describe_counter!(
        "almanac_fleet_takeovers_total",
        "Leases that this replica took"
    );
    describe_counter!(
        "almanac_fleet_errors_total",
        "Failures in the fleet, by reason"
    );
    describe_counter!(
        "almanac_task_panics_total",
        "Panics of tasks that were started again, by task"
    );
    describe_histogram!(
        "almanac_fleet_turn_seconds",
        Unit::Seconds,
        "Time from an announcement to its appearance for clients"
    );
    describe_gauge!(
        "almanac_fleet_behind",
        "Whether this replica lacks the current generation, by catalog"
    );
}

/// Begins to count, so that a rule sees the first event.
pub(super) fn begin() {
    counter!("almanac_fleet_takeovers_total").increment(0);
    for reason in ["fleet", "objects", "fenced", "limit", "store"] {
        counter!("almanac_fleet_errors_total", "reason" => reason).increment(0);
    }
}

pub(super) fn beat(age: Duration) {
    gauge!("almanac_fleet_beat_age_seconds").set(age.as_secs_f64());
}

pub(super) fn replicas(count: usize) {
    gauge!("almanac_fleet_replicas").set(count as f64);
}

pub(super) fn leases(count: usize) {
    gauge!("almanac_fleet_leases").set(count as f64);
}

pub(super) fn lost(objects: i64) {
    gauge!("almanac_fleet_lost_objects").set(objects as f64);
}

pub(super) fn took(leases: usize) {
    counter!("almanac_fleet_takeovers_total").increment(leases as u64);
}

pub(super) fn failed(error: &FleetError) {
    counter!("almanac_fleet_errors_total", "reason" => error.reason()).increment(1);
}

pub(super) fn turned(after: Duration) {
    histogram!("almanac_fleet_turn_seconds").record(after.as_secs_f64());
}

pub(super) fn behind(catalog: &CatalogName, is_behind: bool) {
    let value = if is_behind { 1.0 } else { 0.0 };
    gauge!("almanac_fleet_behind", "catalog" => catalog.to_string()).set(value);
}

/// Clears the gauge of a catalog that is no longer followed.
pub(super) fn forget(catalog: &CatalogName) {
    gauge!("almanac_fleet_behind", "catalog" => catalog.to_string()).set(f64::NAN);
}
