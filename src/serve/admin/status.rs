//! The document of `/status`. Times are RFC 3339.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::name::CatalogName;
use crate::serve::admin::configuration::{Configuration, rfc3339, serialize_option};
use crate::serve::admin::process;
use crate::serve::admin::reported::Reported;
use crate::snapshot::{Catalog, Damaged, FleetStatus, PassHour, Snapshot, State};
use crate::store::{Counts, Encoding, Pass, RevisionId};
use crate::webhooks::WebhookStatus;
use fbc::problem::Problem;
use fbc::text::display::shown;

/// How many packages with errors are listed.
const MAX_QUARANTINED: usize = 100;

/// The document.
#[derive(Serialize)]
pub(super) struct Status {
    pub(super) version: &'static str,
    /// When the process started.
    pub(super) started: Option<String>,
    /// Its memory that no file backs, in bytes.
    pub(super) memory: Option<u64>,
    /// The open connections, by service.
    pub(super) connections: BTreeMap<String, u64>,
    /// When the certificate of a service expires, by service.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) certificates: BTreeMap<String, String>,
    pub(super) configuration: Configuration,
    /// Why the data folder cannot be written for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data_folder_error: Option<Arc<str>>,
    /// Resources of the cluster that cannot be read or written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) cluster_problems: Arc<BTreeMap<String, String>>,
    /// The fleet, if this is a replica of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fleet: Option<FleetDocument>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) webhooks: Vec<WebhookDocument>,
    /// The last names of gRPC calls that no catalog answers to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown_names: Vec<UnknownNameDocument>,
    pub(super) catalogs: Vec<CatalogStatus>,
}

#[derive(Serialize)]
pub(super) struct UnknownNameDocument {
    /// The authority of the calls.
    pub(super) name: String,
    /// The address of the last peer that called it.
    pub(super) peer: IpAddr,
    /// How many calls there were.
    pub(super) calls: u64,
    pub(super) first: String,
    pub(super) last: String,
}

#[derive(Serialize)]
pub(super) struct FleetDocument {
    pub(super) name: String,
    pub(super) database: String,
    pub(super) objects: String,
    pub(super) replicas: usize,
    pub(super) follows: Vec<String>,
    pub(super) behind: Vec<String>,
    /// Why clients do not see the newest revision yet, by catalog.
    pub(super) waits: BTreeMap<String, String>,
    /// How often tasks have panicked and were started again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) panics: BTreeMap<String, u32>,
    #[serde(serialize_with = "serialize_option")]
    pub(super) answered: Option<SystemTime>,
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bucket_error: Option<String>,
    /// How many objects the bucket has lost.
    pub(super) lost_objects: u64,
}

#[derive(Serialize)]
pub(super) struct WebhookDocument {
    pub(super) name: String,
    /// Scheme, host and port of its receiver.
    pub(super) receiver: String,
    /// How many events wait or are being sent.
    pub(super) pending: usize,
    /// When the receiver last took one, since the start.
    pub(super) delivered: Option<String>,
    /// How many attempts in a row failed.
    pub(super) failures: u32,
    /// The error of the last of them.
    pub(super) last_error: Option<String>,
}

/// A catalog.
#[derive(Serialize)]
pub(super) struct CatalogStatus {
    pub(super) name: String,
    pub(super) source: String,
    /// The repository that last answered for the source: its own, or a mirror's.
    /// `None` before the first answer, and for sources outside of registries.
    pub(super) served_by: Option<String>,
    /// The scope and the requirements of the policy by which the last pulled
    /// image came in. `None` without a policy, and before a pull since the start.
    pub(super) admitted_by: Option<String>,
    pub(super) state: State,
    revision: Option<RevisionStatus>,
    pub(super) problems: Vec<Problem>,
    /// The errors of the catalog that the last pass refused, if it did.
    pub(super) refused: Vec<Problem>,
    /// When the last pass ended.
    pub(super) last_pass: Option<String>,
    /// When the next pass is due; `None` if the source is not polled.
    pub(super) next_pass: Option<String>,
    /// The passes of the last 24 hours since the start, by hour, the current one last.
    pub(super) passes: [PassHour; 24],
    /// How many passes in a row failed.
    pub(super) failures: u32,
    /// The error of the last of them.
    pub(super) last_error: Option<String>,
    /// Why the image for clients cannot be made of the served revision.
    pub(super) image_error: Option<String>,
    /// The first attestations and signatures of the image for clients that its source
    /// does not have.
    pub(super) image_left_out: Vec<String>,
    /// The last pass that changed something or failed.
    last_result: Option<PassStatus>,
    /// When all stored files were last found whole.
    verified: Option<String>,
    /// The last damage of stored files.
    pub(super) damage: Option<DamageStatus>,
}

#[derive(Serialize)]
pub(super) struct DamageStatus {
    pub(super) found: String,
    #[serde(flatten)]
    pub(super) damaged: Damaged,
}

#[derive(Serialize)]
struct RevisionStatus {
    id: RevisionId,
    source: String,
    digest: String,
    content: String,
    modified: String,
    committed: String,
    counts: Counts,
    /// The first packages that are not served over gRPC, by name.
    quarantined: Vec<String>,
    bytes: Bytes,
}

/// The size of the whole catalog in each available encoding, and of the segments of which
/// the gzip of selections is put together.
#[derive(Serialize)]
struct Bytes {
    identity: usize,
    gzip: Option<usize>,
    zstd: Option<usize>,
    segments: Option<usize>,
}

#[derive(Serialize)]
struct PassStatus {
    started: String,
    finished: String,
    #[serde(flatten)]
    pass: Pass,
}

impl Status {
    /// The status of all that the admin port reports.
    pub(super) fn of(reported: &Reported) -> Self {
        let metrics = &reported.metrics.render();
        let unknown_names = reported.unknown_names.all().into_iter();
        let catalogs = reported.catalogs.all();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started: process::started().map(rfc3339),
            memory: process::anonymous_memory(),
            connections: by_service(metrics, "almanac_connections", |value| value.parse().ok()),
            certificates: by_service(
                metrics,
                "almanac_certificate_expiry_timestamp_seconds",
                |value| {
                    let since = Duration::try_from_secs_f64(value.parse().ok()?).ok()?;
                    Some(rfc3339(UNIX_EPOCH.checked_add(since)?))
                },
            ),
            configuration: reported.configuration.borrow().clone(),
            data_folder_error: reported.unwritable.borrow().clone(),
            cluster_problems: reported.cluster_problems(),
            fleet: reported.fleet().map(FleetDocument::of),
            webhooks: (reported.webhooks.status().into_iter())
                .map(WebhookDocument::of)
                .collect(),
            unknown_names: unknown_names
                .map(|(name, calls)| UnknownNameDocument {
                    name: shown(&name),
                    peer: calls.peer,
                    calls: calls.count,
                    first: rfc3339(calls.first),
                    last: rfc3339(calls.last),
                })
                .collect(),
            catalogs: (catalogs.iter())
                .map(|one| CatalogStatus::of(one))
                .collect(),
        }
    }
}

impl FleetDocument {
    fn of(status: FleetStatus) -> Self {
        let names = |names: Vec<CatalogName>| names.iter().map(ToString::to_string).collect();
        Self {
            name: status.name,
            database: status.database,
            objects: status.objects,
            replicas: status.replicas,
            follows: names(status.follows),
            behind: names(status.waits.keys().cloned().collect()),
            waits: (status.waits.into_iter())
                .map(|(name, reason)| (name.to_string(), reason))
                .collect(),
            panics: status.panics,
            answered: status.answered,
            error: status.error,
            lost_objects: status.lost,
            bucket_error: status.bucket_error,
        }
    }
}

impl WebhookDocument {
    fn of(status: WebhookStatus) -> Self {
        Self {
            name: status.name.to_string(),
            receiver: status.receiver,
            pending: status.pending,
            delivered: status.delivered.map(rfc3339),
            failures: status.failures,
            last_error: status.error,
        }
    }
}

impl CatalogStatus {
    fn of(catalog: &Catalog) -> Self {
        let status = catalog.status();
        let snapshot = catalog.snapshot();
        let last_error = status
            .pass
            .as_ref()
            .filter(|_| status.failures > 0)
            .and_then(|pass| pass.error.clone())
            .or_else(|| status.blocked.clone().filter(|_| snapshot.is_none()));
        Self {
            name: catalog.name.to_string(),
            source: status.source,
            served_by: status.served_by,
            admitted_by: status.admitted_by,
            state: catalog.state(),
            revision: snapshot.map(|snapshot| RevisionStatus::of(&snapshot)),
            problems: status.problems.to_vec(),
            refused: status.refused.to_vec(),
            last_pass: status.last_pass.map(rfc3339),
            next_pass: status.next_pass.map(rfc3339),
            passes: status.passes.until(SystemTime::now()),
            failures: status.failures,
            last_error,
            image_error: status.image_error,
            image_left_out: (status.image_left_out.iter())
                .take(MAX_QUARANTINED)
                .map(ToString::to_string)
                .collect(),
            last_result: status.pass.map(|pass| PassStatus {
                started: rfc3339(pass.started),
                finished: rfc3339(pass.finished),
                pass,
            }),
            verified: status.verified.map(rfc3339),
            damage: status.damage.map(|damage| DamageStatus {
                found: rfc3339(damage.found),
                damaged: Damaged::clone(&damage),
            }),
        }
    }
}

impl RevisionStatus {
    fn of(snapshot: &Snapshot) -> Self {
        let revision = snapshot.revision();
        let packages = snapshot.packages().iter();
        let quarantined = packages.filter(|package| package.quarantined);
        let quarantined = quarantined.take(MAX_QUARANTINED);
        let encoded = |encoding| Some(snapshot.encoded(encoding)?.len());
        Self {
            id: revision.id,
            source: revision.identity.to_string(),
            digest: revision.digest.to_string(),
            content: revision.content.to_string(),
            modified: rfc3339(revision.modified),
            committed: rfc3339(revision.committed),
            counts: revision.counts,
            quarantined: quarantined.map(|package| shown(&package.name)).collect(),
            bytes: Bytes {
                identity: snapshot.lines().len(),
                gzip: encoded(Encoding::Gzip),
                zstd: encoded(Encoding::Zstd),
                segments: encoded(Encoding::Segments),
            },
        }
    }
}

/// The values of a metric whose only label is the service.
fn by_service<T>(
    metrics: &str,
    name: &str,
    read: impl Fn(&str) -> Option<T>,
) -> BTreeMap<String, T> {
    let values = metrics.lines().filter_map(|line| {
        let labels = line.strip_prefix(name)?.strip_prefix("{service=\"")?;
        let (service, value) = labels.split_once("\"} ")?;
        Some((service.to_owned(), read(value)?))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_told_by_service() {
        let metrics = "# TYPE almanac_connections gauge\n\
                       almanac_connections{service=\"grpc\"} 3\n\
                       almanac_connections{service=\"http\"} no\n\
                       almanac_connections_total{service=\"http\"} 9\n";
        let found = by_service(metrics, "almanac_connections", |value| {
            value.parse::<u64>().ok()
        });
        assert_eq!(found, BTreeMap::from([("grpc".to_owned(), 3)]));
    }
}
