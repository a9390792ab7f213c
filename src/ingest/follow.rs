//! The loop around passes: once, then sleep or be stopped.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fbc::problem::{Problem, Severity};
use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ingest::Source;
use crate::ingest::error::{Cause, PassError};
use crate::ingest::pass::{Followed, PassResult, Workshop, run_once};
use crate::ingest::problem_log::Complaint;
use crate::ingest::watch::Watch;
use crate::name::CatalogName;
use crate::snapshot::{Publisher, Snapshot};
use crate::store::{Outcome, Pass};

/// The wait after a first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after failures, unless polls are further apart.
const LAST_RETRY: Duration = Duration::from_mins(10);
/// What is counted of a catalog.
const KINDS: [&str; 6] = [
    "metas",
    "packages",
    "channels",
    "entries",
    "bundles",
    "quarantined",
];

/// Lets readers see what the store holds of a catalog, if anything. Needs no
/// network.
pub async fn restore(workshop: &Workshop, followed: &Followed, publisher: &Publisher) {
    publisher.update(|status| status.source = followed.source.to_string());
    let restored = async {
        let Some(revision) = workshop.store.current(&followed.name).await? else {
            return Ok(());
        };
        if !followed.may_serve(&revision) {
            tracing::warn!(
                catalog = %followed.name,
                stored = %revision.identity,
                configured = %followed.source,
                "what is stored came from another source and is not served"
            );
            return Ok(());
        }
        let problems = workshop.store.problems(revision.id).await?;
        let pass = workshop.store.last_pass(&followed.name).await?;
        let snapshot = Snapshot::open(&workshop.store, revision)?;
        describe(&snapshot, &problems, "serving what is stored");
        publisher.update(|status| {
            status.problems = problems.into();
            status.pass = pass;
        });
        publisher.publish(snapshot);
        Ok::<(), crate::store::StoreError>(())
    };
    if let Err(error) = restored.await {
        tracing::error!(catalog = %followed.name, %error, "what is stored cannot be served");
    }
}

/// Follows a catalog until it is stopped, or for good when its content cannot
/// change and is served.
pub async fn follow(
    workshop: Workshop,
    followed: Followed,
    publisher: Publisher,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("follow", catalog = %followed.name);
    let curated = matches!(followed.source, Source::Curated(_));
    let mut publications = workshop.catalogs.publications();
    let mut hurry = workshop.hurry.subscribe();
    let following = async {
        let mut failures = 0;
        let mut complaint = Complaint::default();
        let path = followed.source.path().filter(|_| followed.poll.is_some());
        let mut watch = path.map(|path| Watch::new(path, &workshop.limits));
        let mut changed = async || match &mut watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        };
        loop {
            publications.mark_unchanged();
            hurry.mark_unchanged();
            let stored = publisher.snapshot().map(|s| s.revision().identity.clone());
            if followed.source.is_fixed() && stored == Some(followed.identity()) {
                break;
            }
            // A pass that is stopped leaves nothing behind.
            let result = tokio::select! {
                result = pass(&workshop, &followed, &publisher, &mut complaint) => result,
                () = stop.cancelled() => break,
            };
            failures = if result.is_ok() { 0 } else { failures + 1 };
            let wait = match result {
                Ok(()) if followed.source.is_fixed() => break,
                Ok(()) => match followed.poll {
                    Some(poll) => jitter(poll),
                    // Its sources may change all the same.
                    None if curated => LAST_RETRY,
                    None => break,
                },
                Err(retry_after) => retry(failures, followed.poll, retry_after),
            };
            publisher.update(|status| {
                status.failures = failures;
                status.next_pass = Some(SystemTime::now() + wait);
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = changed() => tracing::debug!("something has changed on disk"),
                Ok(()) = publications.changed(), if curated => {}
                Ok(()) = hurry.changed(), if failures > 0 => {
                    tracing::info!("trying again, as somebody asked for it");
                }
                () = stop.cancelled() => break,
            }
        }
        publisher.update(|status| {
            status.failures = failures;
            status.next_pass = None;
        });
    };
    following.instrument(span).await;
}

/// Runs one pass and makes known what became of it. An error says how long the
/// registry asked to be left alone.
async fn pass(
    workshop: &Workshop,
    followed: &Followed,
    publisher: &Publisher,
    complaint: &mut Complaint,
) -> Result<(), Option<Duration>> {
    let started = SystemTime::now();
    let mut digest = None;
    let result = run_once(workshop, followed, publisher, &mut digest).await;
    let finished = SystemTime::now();
    let name = followed.name.to_string();
    let (outcome, label) = match &result {
        Ok(PassResult::Unchanged) => (None, "unchanged"),
        Ok(PassResult::Published(_)) => (Some(Outcome::Committed), "committed"),
        Err(PassError {
            cause: Cause::Refused(_),
            ..
        }) => (Some(Outcome::Refused), "refused"),
        Err(_) => (Some(Outcome::Failed), "failed"),
    };
    counter!("almanac_passes_total", "catalog" => name.clone(), "outcome" => label).increment(1);
    gauge!("almanac_last_pass_timestamp_seconds", "catalog" => name.clone()).set(unix(finished));
    match &result {
        Ok(PassResult::Unchanged) => tracing::debug!(?digest, "nothing new"),
        Ok(PassResult::Published(revision)) => {
            let problems = publisher.status().problems;
            if let Some(snapshot) = publisher.snapshot() {
                describe(&snapshot, &problems, "serving a new revision");
            }
            tracing::debug!(revision = %revision.id, "published");
            complaint.log(digest, &problems);
        }
        Err(error) => {
            counter!(
                "almanac_pass_failures_total",
                "catalog" => name,
                "stage" => error.stage.as_str(),
                "reason" => error.reason()
            )
            .increment(1);
            let served = publisher.snapshot().is_some();
            tracing::error!(
                catalog = %followed.name,
                source = %followed.source,
                digest = digest.map(tracing::field::display),
                reason = error.reason(),
                "the pass failed, {}: {error}",
                if served { "what was served stays" } else { "nothing is served yet" }
            );
            if let Cause::Refused(problems) = &error.cause {
                complaint.log(digest, problems);
            }
        }
    }
    let record = outcome.map(|outcome| {
        let error = result.as_ref().err();
        Pass {
            started,
            finished,
            outcome,
            digest: digest.map(|digest| digest.to_string()),
            stage: error.map(|error| error.stage.to_string()),
            reason: error.map(|error| error.reason().to_owned()),
            error: error.map(ToString::to_string),
        }
    });
    if let Some(record) = &record
        && let Err(error) = workshop.store.record_pass(&followed.name, record).await
    {
        tracing::warn!(%error, "the pass could not be recorded");
    }
    if result.is_err()
        && let Err(error) = workshop.store.tidy_blobs().await
    {
        tracing::warn!(%error, "spare blobs could not be removed");
    }
    publisher.update(|status| {
        status.first_attempt_done = true;
        status.last_pass = Some(finished);
        status.refused = match &result {
            Err(PassError {
                cause: Cause::Refused(problems),
                ..
            }) => problems.as_slice().into(),
            _ => Arc::default(),
        };
        if record.is_some() {
            status.pass = record;
        }
    });
    result.map(drop).map_err(|error| error.retry_after())
}

/// Takes what is not followed any more out of the metrics that tell what is:
/// there is nothing of it, and its times are no numbers.
pub fn forget(catalog: &CatalogName) {
    for kind in KINDS {
        gauge!("almanac_catalog_objects", "catalog" => catalog.to_string(), "kind" => kind)
            .set(0.0);
    }
    count_problems(catalog, &[]);
    gauge!("almanac_catalog_modified_timestamp_seconds", "catalog" => catalog.to_string())
        .set(f64::NAN);
    gauge!("almanac_last_pass_timestamp_seconds", "catalog" => catalog.to_string()).set(f64::NAN);
}

/// Counts the problems of a served catalog; fatal ones it does not have.
fn count_problems(catalog: &CatalogName, problems: &[Problem]) {
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

fn describe(snapshot: &Snapshot, problems: &[Problem], message: &str) {
    let revision = snapshot.revision();
    let counts = &revision.counts;
    let name = revision.catalog.to_string();
    let numbers = [
        counts.metas,
        counts.packages,
        counts.channels,
        counts.entries,
        counts.bundles,
        counts.quarantined,
    ];
    for (kind, count) in KINDS.into_iter().zip(numbers) {
        gauge!("almanac_catalog_objects", "catalog" => name.clone(), "kind" => kind)
            .set(count as f64);
    }
    count_problems(&revision.catalog, problems);
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
        "{message}"
    );
}

/// Up to a tenth more or less, so that catalogs do not ask all at once.
fn jitter(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// The wait after a number of failures in a row: growing, but never shorter
/// than the registry asked for, and no longer than a day.
pub(super) fn retry(
    failures: u32,
    poll: Option<Duration>,
    retry_after: Option<Duration>,
) -> Duration {
    let longest = poll.unwrap_or_default().max(LAST_RETRY);
    // Where polls come quickly, so do retries.
    let first = poll.map_or(FIRST_RETRY, |poll| poll.min(FIRST_RETRY));
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let wait = jitter(doubled.min(longest));
    wait.max(retry_after.unwrap_or_default())
        .min(Duration::from_hours(24))
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_further_and_further_apart() {
        let poll = Some(Duration::from_mins(10));
        let seconds = |failures| retry(failures, poll, None).as_secs_f64();
        assert!((4.4..5.6).contains(&seconds(1)));
        assert!((8.9..11.1).contains(&seconds(2)));
        assert!((17.9..22.1).contains(&seconds(3)));
        for failures in [8, 30, u32::MAX] {
            assert!((539.0..661.0).contains(&seconds(failures)));
        }
    }

    #[test]
    fn a_registry_that_asks_for_time_gets_it() {
        let asked = Some(Duration::from_secs(100));
        assert_eq!(retry(1, None, asked), Duration::from_secs(100));
        assert!(retry(20, None, asked) > Duration::from_secs(100));
    }
}
