//! The loop around passes: run one, then wait for the next.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::fleet::{Permit, Track};
use crate::ingest::catalog_metrics::{announce, begin_passes, set_due, set_failures, unix};
use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, PassError};
use crate::ingest::folder::listing::FolderRules;
use crate::ingest::folder::watch::Watch;
use crate::ingest::followed::Followed;
use crate::ingest::pass::events::{self, PassEvents};
use crate::ingest::pass::failures::{Failure, Failures};
use crate::ingest::pass::history;
use crate::ingest::pass::problem_log::ProblemLog;
use crate::ingest::pass::{FollowedCatalog, run_once};
use crate::ingest::read::read_files::ReadFiles;
use crate::ingest::retry::{LAST_RETRY, jitter, retry, retry_soon, sleep};
use crate::ingest::source::Source;
use crate::snapshot::{Damaged, Publisher, Repair, Snapshot};
use crate::store::{HistoryEntry, Outcome, Pass, Revision, RevisionId, StoreError};
use ::images::digest::Digest;

/// The pauses before the further tries to find a stored revision: the disk may refuse to
/// read it for a moment.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// The stored revision of a catalog.
async fn stored(
    context: &PassContext,
    followed: &Followed,
) -> Result<Option<Revision>, StoreError> {
    for pause in PAUSES {
        match context.store.current(&followed.name).await {
            Err(_) => tokio::time::sleep(pause).await,
            found => return found,
        }
    }
    context.store.current(&followed.name).await
}

/// Serves the stored revision of a catalog, if there is one. Needs no network.
pub async fn restore(context: &PassContext, followed: &Followed, publisher: &Publisher) {
    publisher.update(|status| status.set_source(followed.source.to_string()));
    let restored = async {
        let Some(revision) = stored(context, followed).await? else {
            return Ok(());
        };
        if !followed.may_serve(&revision) {
            tracing::warn!(
                catalog = %followed.name,
                stored = %revision.identity,
                configured = %followed.source,
                "the stored revision is of another source and is not served"
            );
            let stored = revision.identity.source;
            publisher.update(|status| status.other_source = Some(stored));
            return Ok(());
        }
        let problems = context.store.problems(revision.id).await?;
        let pass = context.store.last_pass(&followed.name).await?;
        let opened = if revision.damaged {
            Err(StoreError::KnownDamage(revision.id))
        } else {
            let (store, id) = (context.store.clone(), revision.id);
            let opening = tokio::task::spawn_blocking(move || Snapshot::open(&store, revision));
            // A panic has been logged.
            opening.await.unwrap_or(Err(StoreError::KnownDamage(id)))
        };
        let snapshot = opened?;
        announce(&snapshot, &problems, None, "serving the stored revision");
        publisher.update(|status| {
            status.problems = problems.into();
            status.pass = pass;
        });
        let imported = snapshot.revision().clone();
        publisher.publish(snapshot);
        notify_import(context, &imported).await;
        Ok::<(), StoreError>(())
    };
    if let Err(error) = restored.await {
        tracing::error!(catalog = %followed.name, %error, "cannot serve the stored revision");
        let damaged = Damaged {
            found: SystemTime::now(),
            files: vec![error.to_string()],
            repair: Repair::Rebuilding,
        };
        publisher.update(|status| status.damage = Some(Arc::new(damaged)));
    }
}

/// Notifies webhooks of a revision that an import has brought: the command sent no events.
async fn notify_import(context: &PassContext, revision: &Revision) {
    match context.store.claim_import(revision.id).await {
        Ok(false) => {}
        Ok(true) => {
            let entry = history::entry(context, revision).await;
            history::count(revision, entry.as_ref());
            let event = events::publication(revision, entry.as_ref());
            context.webhooks.send(event);
        }
        Err(error) => {
            tracing::warn!(%error, "webhooks are notified of the import at the next start");
        }
    }
}

/// Follows a catalog until it is stopped; in a fleet, while this replica holds its track. A
/// source that cannot change is read until it is served, and again when its stored files are
/// damaged.
pub async fn follow(
    context: PassContext,
    followed: Followed,
    publisher: Publisher,
    track: Track,
    stop: CancellationToken,
) {
    let span = tracing::info_span!("follow", catalog = %followed.name);
    let curated = matches!(followed.source, Source::Curated(_));
    let mut publications = context.catalogs.publications();
    let mut retry_now = context.retry_now.subscribe();
    begin_passes(&followed.name);
    let following = async {
        let mut passes = Passes::new(FollowedCatalog {
            context: &context,
            followed: &followed,
            publisher: &publisher,
            track: &track,
        });
        let mut watch = watched(&context, &followed).await;
        let mut changed = async || match &mut watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        };
        loop {
            let permit = tokio::select! {
                permit = track.permit() => permit,
                () = stop.cancelled() => break,
            };
            publications.mark_unchanged();
            retry_now.mark_unchanged();
            let result = tokio::select! {
                result = passes.next(&permit) => result,
                () = stop.cancelled() => break,
            };
            let Some(result) = result else {
                continue;
            };
            let wait = passes.wait_after(result);
            let failures = &mut passes.failures;
            note(&followed, &publisher, failures.in_row, wait);
            tokio::select! {
                () = sleep(wait) => {}
                () = publisher.read_again.notified() => {}
                () = changed() => tracing::debug!("the source has changed on disk"),
                Ok(()) = publications.changed(), if curated => {}
                Ok(()) = retry_now.changed(), if failures.in_row > 0 => {
                    tracing::info!("trying again: a retry was requested");
                }
                () = track.outdated(), if failures.in_row == 0 => {}
                () = permit.ended() => failures.leave(&followed, &publisher),
                () = stop.cancelled() => break,
            }
        }
        publisher.update(|status| {
            status.failures = passes.failures.in_row;
            status.next_pass = None;
        });
    };
    following.instrument(span).await;
}

/// Watches a source on disk, unless it is not polled.
async fn watched(context: &PassContext, followed: &Followed) -> Option<Watch> {
    let path = followed.source.path().filter(|_| followed.poll.is_some())?;
    let rules = FolderRules::new(&followed.folder, &context.limits);
    Some(Watch::new(path, &rules).await)
}

/// The wait after failures, of which the registry may have asked for some. It is short
/// while nothing is served for damaged files.
fn until_retry(
    failures: u32,
    asked: Option<Duration>,
    followed: &Followed,
    publisher: &Publisher,
) -> Duration {
    if publisher.snapshot().is_none() && publisher.status().is_damaged() {
        return retry_soon(failures, followed.poll, asked);
    }
    retry(failures, followed.poll, asked)
}

/// The revision that is served.
fn serving(publisher: &Publisher) -> Option<RevisionId> {
    let snapshot = publisher.snapshot();
    snapshot.map(|snapshot| snapshot.revision().id)
}

/// Notes how many passes in a row failed, and when the next one is due.
fn note(followed: &Followed, publisher: &Publisher, failures: u32, wait: Option<Duration>) {
    let due = wait.map(|wait| SystemTime::now() + wait);
    set_failures(&followed.name, failures);
    set_due(&followed.name, due);
    publisher.update(|status| {
        status.failures = failures;
        status.next_pass = due;
    });
}

/// Notifies webhooks of a revision that a pass has published, and counts its changes.
fn notify(context: &PassContext, revision: &Revision, entry: Option<&HistoryEntry>) {
    history::count(revision, entry);
    let event = events::publication(revision, entry);
    context.webhooks.send(event);
}

/// The passes of a catalog, and what they remember of the earlier ones.
struct Passes<'a> {
    catalog: FollowedCatalog<'a>,
    failures: Failures,
    problem_log: ProblemLog,
    events: PassEvents,
    read_files: Arc<ReadFiles>,
    /// The permit of the last pass.
    last: Option<Permit>,
}

impl<'a> Passes<'a> {
    fn new(catalog: FollowedCatalog<'a>) -> Self {
        Self {
            catalog,
            failures: Failures::default(),
            problem_log: ProblemLog::default(),
            events: PassEvents::default(),
            read_files: Arc::default(),
            last: None,
        }
    }

    /// The result of the next pass, or nothing if another replica follows the catalog now.
    async fn next(&mut self, permit: &Permit) -> Option<Result<(), Failure>> {
        // Another replica may have reported the passes between.
        if self.last.as_ref().is_some_and(|last| !last.is_same(permit)) {
            self.events = PassEvents::default();
        }
        self.last = Some(permit.clone());
        let FollowedCatalog {
            followed,
            publisher,
            ..
        } = self.catalog;
        if self.is_served_for_good() {
            publisher.update(|status| {
                status.set_resolved(Instant::now());
                // The pass that published it may have been stopped before it said so.
                status.first_attempt_done = true;
            });
            return Some(Ok(()));
        }
        set_due(&followed.name, Some(SystemTime::now()));
        let _work = permit.begin()?;
        // A dropped pass leaves nothing behind.
        let result = tokio::select! {
            result = self.pass(permit) => Some(result),
            () = permit.revoked() => None,
        };
        if result.is_none() {
            self.failures.leave(followed, publisher);
            tracing::info!(catalog = %followed.name, "this replica no longer follows the catalog");
        }
        result
    }

    /// Whether the source cannot change, and its revision is served.
    fn is_served_for_good(&self) -> bool {
        let catalog = self.catalog;
        let served = catalog.publisher.snapshot();
        catalog.followed.source.is_fixed()
            && served.is_some_and(|served| {
                let revision = served.revision();
                catalog.followed.is_source_of(revision) && catalog.track.has(revision)
            })
    }

    /// Counts the result of a pass. Returns the wait until the next one; without it, there is
    /// none.
    fn wait_after(&mut self, result: Result<(), Failure>) -> Option<Duration> {
        let FollowedCatalog {
            followed,
            publisher,
            track,
            ..
        } = self.catalog;
        self.failures.count(&result, track);
        match result {
            Ok(()) if followed.source.is_fixed() => None,
            // The sources of a curated catalog may still change.
            Ok(()) => {
                let curated = matches!(followed.source, Source::Curated(_));
                followed.poll.map(jitter).or(curated.then_some(LAST_RETRY))
            }
            Err(failure) => {
                let asked = failure.retry_after;
                Some(until_retry(
                    self.failures.in_row,
                    asked,
                    followed,
                    publisher,
                ))
            }
        }
    }

    /// Runs one pass, and logs, counts and records its result.
    async fn pass(&mut self, permit: &Permit) -> Result<(), Failure> {
        let catalog = self.catalog;
        let FollowedCatalog {
            context,
            followed,
            publisher,
            ..
        } = catalog;
        let started = SystemTime::now();
        let mut digest = None;
        let result = run_once(catalog, permit, &mut digest, &mut self.read_files).await;
        let finished = SystemTime::now();
        count_pass(followed, &result, finished);
        let serving = serving(publisher);
        match &result {
            Ok(_) => (self.events).succeeded(context, &followed.name, digest, serving),
            Err(error) => (self.events).failed(context, &followed.name, digest, error, serving),
        }
        match &result {
            Ok(None) => tracing::debug!(?digest, "nothing new"),
            Ok(Some(revision)) => self.report_revision(revision, digest).await,
            Err(error) => {
                let is_served = serving.is_some();
                report(followed, error, digest, is_served, &mut self.problem_log);
            }
        }
        let record = record(&result, digest, started, finished);
        if let Some(record) = &record
            && let Err(error) = context.store.record_pass(&followed.name, record).await
        {
            tracing::warn!(%error, "cannot record the pass");
        }
        if result.is_err()
            && let Err(error) = context.store.tidy_blobs().await
        {
            tracing::warn!(%error, "cannot remove spare blobs");
        }
        self.show(&result, record, finished);
        result.map(drop).map_err(|error| Failure {
            retry_after: error.retry_after(),
            is_of_replica: error.is_of_replica(),
        })
    }

    /// Logs a new revision, and notifies webhooks of it.
    async fn report_revision(&mut self, revision: &Revision, digest: Option<Digest>) {
        let FollowedCatalog {
            context,
            publisher,
            track,
            ..
        } = self.catalog;
        let problems = publisher.status().problems;
        let entry = history::entry(context, revision).await;
        if let Some(snapshot) = publisher.snapshot() {
            let changes = entry.as_ref().and_then(|entry| entry.changes.as_ref());
            let changes = changes.map(history::words);
            let message = "serving a new revision";
            announce(&snapshot, &problems, changes.as_deref(), message);
        }
        // A replica of a fleet notifies them once clients see it.
        if track.shared().is_none() {
            notify(context, revision, entry.as_ref());
        }
        history::trim(context, revision).await;
        tracing::debug!(revision = %revision.id, "published");
        self.problem_log.log(digest, &problems);
    }

    /// Shows the result of a pass in the status.
    fn show(
        &self,
        result: &Result<Option<Revision>, PassError>,
        record: Option<Pass>,
        finished: SystemTime,
    ) {
        let FollowedCatalog {
            publisher, track, ..
        } = self.catalog;
        publisher.update(|status| {
            status.first_attempt_done |= track.is_new();
            status.last_pass = Some(finished);
            status.passes.add(finished, result.is_err());
            status.failure = result.as_ref().err().map(PassError::lasting);
            status.refused = match result {
                Err(PassError {
                    cause: Cause::Refused(problems),
                    ..
                }) => problems.as_slice().into(),
                _ => Arc::default(),
            };
            status.image_refused = result
                .as_ref()
                .is_err_and(|error| error.rejection().is_some());
            if record.is_some() {
                status.pass = record;
            }
        });
    }
}

/// Counts a pass by its result.
fn count_pass(
    followed: &Followed,
    result: &Result<Option<Revision>, PassError>,
    finished: SystemTime,
) {
    let name = followed.name.to_string();
    let outcome = match result {
        Ok(None) => "unchanged",
        Ok(Some(_)) => "committed",
        Err(error) if error.is_refusal() => "refused",
        Err(_) => "failed",
    };
    counter!("almanac_passes_total", "catalog" => name.clone(), "outcome" => outcome).increment(1);
    gauge!("almanac_last_pass_timestamp_seconds", "catalog" => name).set(unix(finished));
}

/// The record of a pass that changed something or failed.
fn record(
    result: &Result<Option<Revision>, PassError>,
    digest: Option<Digest>,
    started: SystemTime,
    finished: SystemTime,
) -> Option<Pass> {
    let outcome = match result {
        Ok(None) => return None,
        Ok(Some(_)) => Outcome::Committed,
        Err(error) if error.is_refusal() => Outcome::Refused,
        Err(_) => Outcome::Failed,
    };
    let error = result.as_ref().err();
    Some(Pass {
        started,
        finished,
        outcome,
        digest: digest.map(|digest| digest.to_string()),
        stage: error.map(|error| error.stage.to_string()),
        reason: error.map(|error| error.reason().to_owned()),
        error: error.map(ToString::to_string),
    })
}

/// Logs and counts a pass that failed.
fn report(
    followed: &Followed,
    error: &PassError,
    digest: Option<Digest>,
    is_served: bool,
    problem_log: &mut ProblemLog,
) {
    counter!(
        "almanac_pass_failures_total",
        "catalog" => followed.name.to_string(),
        "stage" => error.stage.as_str(),
        "reason" => error.reason()
    )
    .increment(1);
    count_rejection(followed, error);
    tracing::error!(
        catalog = %followed.name,
        source = %followed.source,
        digest = digest.map(tracing::field::display),
        reason = error.reason(),
        "the pass failed, {}: {error}",
        if is_served { "the current revision stays" } else { "nothing is served yet" }
    );
    if let Cause::Refused(problems) = &error.cause {
        problem_log.log(digest, problems);
    }
}

/// Counts an image that a requirement of the policy kept out.
fn count_rejection(followed: &Followed, error: &PassError) {
    if let Some(rejection) = error.rejection() {
        counter!(
            "almanac_admissions_total",
            "catalog" => followed.name.to_string(),
            "requirement" => rejection.requirement(),
            "outcome" => "refused"
        )
        .increment(1);
    }
}
