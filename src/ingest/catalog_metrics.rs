//! The metrics of passes and catalogs.

use std::collections::BTreeMap;
use std::time::SystemTime;

use metrics::{
    Counter, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
};

use crate::answers::changes::Kind;
use crate::name::CatalogName;
use crate::snapshot::Snapshot;
use crate::store::{self, Counts, Encoding};
use fbc::problem::{Problem, Severity};

/// The name of a file that no revision names, in the metric of damage.
pub(super) const BLOB: &str = "blob";

/// Describes the metrics of this module.
pub fn describe_metrics() {
    describe_counter!(
        "almanac_pulled_bytes_total",
        Unit::Bytes,
        "Bytes of layers and image configurations pulled from registries"
    );
    describe_counter!(
        "almanac_pull_resumptions_total",
        "Interrupted transfers that were resumed"
    );
    describe_gauge!(
        "almanac_spare_blob_bytes",
        Unit::Bytes,
        "Bytes of cached blobs that belong to no revision"
    );
    describe_counter!("almanac_passes_total", "Passes, by catalog and outcome");
    describe_counter!(
        "almanac_pass_failures_total",
        "Failed and refused passes, by catalog, stage and reason"
    );
    describe_counter!(
        "almanac_admissions_total",
        "Images that the policy admitted or refused, by catalog, requirement and outcome"
    );
    describe_gauge!(
        "almanac_last_pass_timestamp_seconds",
        "End of the last pass, by catalog"
    );
    describe_gauge!(
        "almanac_next_pass_timestamp_seconds",
        "When the next pass is due or the running one began, by catalog; NaN if there is none"
    );
    describe_gauge!(
        "almanac_failed_passes_in_a_row",
        "Failed and refused passes since the last one that succeeded, by catalog"
    );
    describe_histogram!(
        "almanac_stage_seconds",
        Unit::Seconds,
        "Duration of a stage of a pass, by stage"
    );
    describe_histogram!(
        "almanac_image_seconds",
        Unit::Seconds,
        "Duration of making the image of a catalog"
    );
    describe_counter!(
        "almanac_image_failures_total",
        "Failed attempts to make the image of a catalog, by catalog and reason"
    );
    describe_gauge!(
        "almanac_catalog_objects",
        "Objects in the current revision, by catalog and kind"
    );
    describe_gauge!(
        "almanac_catalog_problems",
        "Problems of the current revision, by catalog and severity"
    );
    describe_gauge!(
        "almanac_catalog_modified_timestamp_seconds",
        "Last change of the content, by catalog"
    );
    describe_counter!(
        "almanac_catalog_changes_total",
        "Changes that new revisions brought, by catalog and kind"
    );
    describe_counter!(
        "almanac_stored_damage_total",
        "Damaged stored files that were found, by catalog and file"
    );
    describe_gauge!(
        "almanac_last_verification_timestamp_seconds",
        "End of the last verification of stored files without damage, by catalog"
    );
    describe_gauge!(
        "almanac_catalog_encoded_bytes",
        Unit::Bytes,
        "Size of the whole catalog in each encoding that is ready, by catalog and encoding"
    );
}

/// Begins to count the passes and changes of a catalog. A rule about the growth of a counter
/// misses the first event unless the counter was 0 before.
pub(super) fn begin_passes(catalog: &CatalogName) {
    for outcome in ["unchanged", "committed", "refused", "failed"] {
        counter!("almanac_passes_total", "catalog" => catalog.to_string(), "outcome" => outcome)
            .increment(0);
    }
    for kind in Kind::ALL {
        changes(catalog, kind).increment(0);
    }
    set_failures(catalog, 0);
    set_due(catalog, None);
}

/// Counts what a new revision has changed.
pub(super) fn count_changes(catalog: &CatalogName, counts: &BTreeMap<Kind, usize>) {
    for (kind, number) in counts {
        changes(catalog, *kind).increment(*number as u64);
    }
}

fn changes(catalog: &CatalogName, kind: Kind) -> Counter {
    counter!(
        "almanac_catalog_changes_total",
        "catalog" => catalog.to_string(), "kind" => kind.as_str()
    )
}

/// Sets when the next pass of a catalog is due; without a time there is none.
pub(super) fn set_due(catalog: &CatalogName, due: Option<SystemTime>) {
    gauge!("almanac_next_pass_timestamp_seconds", "catalog" => catalog.to_string())
        .set(due.map_or(f64::NAN, unix));
}

/// Sets how many passes of a catalog in a row failed.
pub(super) fn set_failures(catalog: &CatalogName, failures: u32) {
    gauge!("almanac_failed_passes_in_a_row", "catalog" => catalog.to_string()).set(failures);
}

/// Begins to count the damaged files of a catalog, for the same reason.
pub(super) fn begin_damage(catalog: &CatalogName) {
    let encodings = Encoding::ALL.into_iter().flat_map(Encoding::files).copied();
    for file in store::FILES.into_iter().chain(encodings).chain([BLOB]) {
        damage(catalog, file).increment(0);
    }
}

/// Counts damaged files of this name.
pub(super) fn damage(catalog: &CatalogName, file: &str) -> Counter {
    counter!(
        "almanac_stored_damage_total",
        "catalog" => catalog.to_string(), "file" => file.to_owned()
    )
}

/// Clears the gauges of a catalog that is no longer followed: its counts become
/// 0, its times NaN.
pub fn forget(catalog: &CatalogName) {
    count(catalog, &Counts::default(), &[]);
    set_due(catalog, None);
    set_failures(catalog, 0);
    gauge!("almanac_catalog_modified_timestamp_seconds", "catalog" => catalog.to_string())
        .set(f64::NAN);
    for last in [
        "almanac_last_pass_timestamp_seconds",
        "almanac_last_verification_timestamp_seconds",
    ] {
        gauge!(last, "catalog" => catalog.to_string()).set(f64::NAN);
    }
}

/// Counts the objects and the problems of a served catalog, which has no fatal
/// ones.
fn count(catalog: &CatalogName, counts: &Counts, problems: &[Problem]) {
    for (kind, count) in [
        ("metas", counts.metas),
        ("packages", counts.packages),
        ("channels", counts.channels),
        ("entries", counts.entries),
        ("bundles", counts.bundles),
        ("quarantined", counts.quarantined),
    ] {
        gauge!("almanac_catalog_objects", "catalog" => catalog.to_string(), "kind" => kind)
            .set(count as f64);
    }
    for severity in [Severity::Error, Severity::Warning] {
        let such = problems.iter().filter(|one| one.severity == severity);
        gauge!(
            "almanac_catalog_problems",
            "catalog" => catalog.to_string(),
            "severity" => severity.to_string()
        )
        .set(such.count() as f64);
    }
}

/// Logs a revision that is served now with what it changed, and sets its gauges.
pub(super) fn announce(
    snapshot: &Snapshot,
    problems: &[Problem],
    changes: Option<&str>,
    message: &str,
) {
    let revision = snapshot.revision();
    let counts = &revision.counts;
    count(&revision.catalog, counts, problems);
    let name = revision.catalog.to_string();
    gauge!("almanac_catalog_modified_timestamp_seconds", "catalog" => name)
        .set(unix(revision.modified));
    tracing::info!(
        catalog = %revision.catalog,
        revision = %revision.id,
        digest = %revision.digest,
        packages = counts.packages,
        bundles = counts.bundles,
        metas = counts.metas,
        quarantined = counts.quarantined,
        changes,
        "{message}"
    );
}

/// A time as seconds since 1970.
pub(super) fn unix(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
