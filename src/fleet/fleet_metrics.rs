//! The metrics of a replica of a fleet.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::fleet::error::FleetError;
use crate::name::CatalogName;

/// Describes the metrics of this module.
pub fn describe_fleet_metrics() {
    describe_gauge!(
        "almanac_fleet_beat_age_seconds",
        Unit::Seconds,
        "Time since the last answer of the database of the fleet"
    );
    describe_gauge!(
        "almanac_fleet_clock_skew_seconds",
        Unit::Seconds,
        "Difference between the clocks of this machine and of the database"
    );
    describe_gauge!("almanac_fleet_replicas", "Replicas that live");
    describe_gauge!(
        "almanac_fleet_followed",
        "Catalogs that this replica follows"
    );
    describe_gauge!(
        "almanac_fleet_lost_objects",
        "Objects that replicas did not find in the bucket, or with other bytes"
    );
    describe_counter!(
        "almanac_fleet_takeovers_total",
        "Catalogs that this replica began to follow"
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
        "almanac_fleet_show_seconds",
        Unit::Seconds,
        "Time to fetch and open a new generation"
    );
    describe_gauge!(
        "almanac_fleet_behind",
        "Whether this replica does not show the newest generation, by catalog"
    );
}

/// Begins to count, so that a rule sees the first event.
pub(super) fn begin() {
    counter!("almanac_fleet_takeovers_total").increment(0);
    for reason in ["fleet", "objects", "fenced", "limit", "store"] {
        counter!("almanac_fleet_errors_total", "reason" => reason).increment(0);
    }
}

/// Records the answer to a beat.
pub(super) fn heard(replicas: usize, missing: usize) {
    gauge!("almanac_fleet_replicas").set(replicas as f64);
    gauge!("almanac_fleet_lost_objects").set(missing as f64);
}

/// Records how many catalogs this replica follows, and the time since the last answer.
pub(super) fn followed(count: usize, age: Duration) {
    gauge!("almanac_fleet_followed").set(count as f64);
    gauge!("almanac_fleet_beat_age_seconds").set(age.as_secs_f64());
}

/// Records the difference between two clocks.
pub(super) fn skew(seconds: u64) {
    gauge!("almanac_fleet_clock_skew_seconds").set(seconds as f64);
}

pub(super) fn took(catalogs: usize) {
    counter!("almanac_fleet_takeovers_total").increment(catalogs as u64);
}

pub(super) fn failed(error: &FleetError) {
    counter!("almanac_fleet_errors_total", "reason" => error.reason()).increment(1);
}

pub(super) fn shown(after: Duration) {
    histogram!("almanac_fleet_show_seconds").record(after.as_secs_f64());
}

pub(super) fn behind(catalog: &CatalogName, is_behind: bool) {
    let value = if is_behind { 1.0 } else { 0.0 };
    gauge!("almanac_fleet_behind", "catalog" => catalog.to_string()).set(value);
}

/// Clears the gauge of a catalog that is no longer followed.
pub(super) fn forget(catalog: &CatalogName) {
    gauge!("almanac_fleet_behind", "catalog" => catalog.to_string()).set(f64::NAN);
}
