//! One pass over one catalog: resolve ─► pull ─► unpack ─► read ─► build ─►
//! commit ─► publish. A pass that fails changes nothing that is served.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::histogram;
use tokio::sync::{Semaphore, watch};
use tracing::Instrument as _;

use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::files::{CatalogFiles, FilesError};
use crate::ingest::pull::{Origin, Pulled};
use crate::ingest::read::{Base, Catalog};
use crate::ingest::source::LayoutSource;
use crate::ingest::wait_until_quiet::settle;
use crate::ingest::{OnInvalid, Source, build, curate, files, legacy, queries, read};
use crate::name::CatalogName;
use crate::snapshot::{Catalogs, Publisher, Snapshot};
use crate::store::{
    BlobPin, Counts, Finished, Index, NewRevision, Revision, RevisionWriter, SearchRow,
    SourceIdentity, Store, StoreError,
};
use ::images::digest::Digest;
use ::images::layers::{Limits, UnpackError};
use ::images::{Layout, Platform, Registries, Route};
use fbc::problem::{Problem, Severity};

/// What all passes share. Cheap to clone.
#[derive(Clone)]
pub struct Workshop {
    /// Where revisions are kept.
    pub store: Store,
    /// Speaks to registries.
    pub registries: Registries,
    /// What an image may hold.
    pub limits: Limits,
    /// One permit lets one catalog be read: reading takes all cores and some
    /// memory, so catalogs take turns.
    pub turns: Arc<Semaphore>,
    /// What curated catalogs are made of.
    pub catalogs: Catalogs,
    /// Each value that is sent has the catalogs whose last pass failed tried
    /// again at once, and images that could not be made.
    pub hurry: watch::Sender<()>,
}

/// A catalog to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its name.
    pub name: CatalogName,
    /// Where it comes from.
    pub source: Source,
    /// How long from one pass to the next; `None` means a single one.
    pub poll: Option<Duration>,
    /// Which image of a multi-platform one.
    pub platform: Platform,
    /// What to do with packages that are not valid.
    pub on_invalid: OnInvalid,
}

/// What a pass came to.
#[derive(Debug)]
pub enum PassResult {
    /// The digest is that of what is served.
    Unchanged,
    /// There is a new revision, and it is published.
    Published(Box<Revision>),
}

/// The longest a pass may take.
const LONGEST: Duration = Duration::from_hours(3);

impl Followed {
    /// The identity of a revision that is made now.
    pub fn identity(&self) -> SourceIdentity {
        let variant = match &self.source {
            Source::File(_) => None,
            Source::Curated(curation) => Some(curation.digest().to_string()),
            Source::Image(_) | Source::Layout(_) => Some(self.platform.to_string()),
        };
        SourceIdentity {
            source: self.source.to_string(),
            variant,
        }
    }

    /// Whether a stored revision may be served until the first pass: it must
    /// come from the same place, but a moved tag is no reason to serve nothing.
    pub fn may_serve(&self, revision: &Revision) -> bool {
        self.is_place_of(&revision.identity.source)
    }

    /// Whether the source of a stored revision of this catalog points to the
    /// same place.
    fn is_place_of(&self, stored: &str) -> bool {
        if let Source::Curated(_) = self.source {
            return stored == self.source.place();
        }
        match stored.parse::<Source>() {
            Ok(source) => source.place() == self.source.place(),
            Err(_) => false,
        }
    }
}

/// Runs one pass, and gives it up when it takes absurdly long. `digest` learns
/// the source's digest as soon as it is known.
pub async fn run_once(
    workshop: &Workshop,
    followed: &Followed,
    publisher: &Publisher,
    digest: &mut Option<Digest>,
) -> Result<PassResult, PassError> {
    let current = publisher
        .snapshot()
        .map(|snapshot| snapshot.revision().clone())
        .filter(|revision| revision.identity == followed.identity());
    // Large, and held by every follower.
    let pass = Box::pin(async {
        match &followed.source {
            Source::File(path) => folder_pass(workshop, followed, current, path, digest).await,
            Source::Curated(curation) => {
                curate::pass(workshop, followed, curation, current, digest).await
            }
            source => image_pass(workshop, followed, publisher, current, digest)
                .await
                .map_err(|error| error.of_image(source)),
        }
    });
    let made = tokio::time::timeout(LONGEST, pass)
        .await
        .unwrap_or(Err(PassError {
            stage: Stage::Pull,
            cause: Cause::Timeout(LONGEST),
        }))?;
    let Some((revision, problems)) = made else {
        return Ok(PassResult::Unchanged);
    };
    publish(workshop, publisher, &revision, problems).await?;
    Ok(PassResult::Published(Box::new(revision)))
}

pub(super) type Made = Option<(Revision, Vec<Problem>)>;

async fn image_pass(
    workshop: &Workshop,
    followed: &Followed,
    publisher: &Publisher,
    current: Option<Revision>,
    found: &mut Option<Digest>,
) -> Result<Made, PassError> {
    let route: Route;
    let (origin, tag) = match &followed.source {
        Source::Layout(layout) => (open_layout(layout).await?, layout.choice.as_ref()),
        Source::Image(reference) => {
            let found = workshop.registries.route(reference).await;
            route = found.map_err(PassError::at(Stage::Resolve))?;
            (Origin::Registry(&route), None)
        }
        Source::File(_) | Source::Curated(_) => return Ok(None),
    };
    let digest = stage(Stage::Resolve, origin.resolve(tag)).await?;
    *found = Some(digest);
    let served_by = || match &origin {
        Origin::Registry(route) => route.served_by(),
        Origin::Layout(_) => None,
    };
    let tell = |served_by: Option<String>| {
        if served_by.is_some() {
            publisher.update(|status| status.served_by = served_by);
        }
    };
    tell(served_by());
    if current.is_some_and(|current| current.digest == digest) {
        return Ok(None);
    }
    let pulling = origin.pull(
        workshop.store.contents(),
        &digest,
        &followed.platform,
        &workshop.limits,
    );
    // What it keeps of layers side by side is large.
    let mut pulled = stage(Stage::Pull, Box::pin(pulling)).await?;
    if let Some(served_by) = served_by() {
        tracing::info!(
            catalog = %followed.name,
            source = %followed.source,
            %digest,
            served_by,
            "pulled"
        );
        tell(Some(served_by));
    }
    let mut turn = workshop.turns.acquire().await;
    let mut files = unpack(workshop, &pulled).await;
    if pulled.needs_all(&files) {
        drop(turn);
        let pulling = origin.pull_covered(workshop.store.contents(), &mut pulled);
        stage(Stage::Pull, Box::pin(pulling)).await?;
        turn = workshop.turns.acquire().await;
        files = unpack(workshop, &pulled).await;
    }
    let _turn = turn;
    let files = files?;
    let files = migrated(workshop, files).await?;
    let blobs: Vec<Digest> = pulled.blobs.iter().map(BlobPin::digest).collect();
    make(&workshop.store, followed, digest, files, &blobs)
        .await
        .map(Some)
}

/// The files under the catalog folder.
async fn unpack(workshop: &Workshop, pulled: &Pulled) -> Result<CatalogFiles, PassError> {
    let (layers, covered) = (pulled.layers.clone(), pulled.covered.len());
    let (folder, limits) = (pulled.folder.clone(), workshop.limits.clone());
    let store = workshop.store.clone();
    let unpacking = blocking(Stage::Unpack, move || {
        let files = files::of_image(&layers, covered, &folder, &limits, &store.temporary());
        if let Err(FilesError::Unpack(UnpackError::Read { .. })) = &files {
            // A blob that cannot be read any more must not stop every pass
            // from here on: the next one gets it anew.
            for (layer, _) in &layers {
                store.contents().remove_blob(&layer.digest);
            }
        }
        files.map_err(PassError::at(Stage::Unpack))
    });
    stage(Stage::Unpack, unpacking).await
}

/// Opens a layout, which may be an archive of many files.
pub(super) async fn open_layout(source: &LayoutSource) -> Result<Origin<'static>, PassError> {
    let (format, path) = (source.format, source.path.clone());
    blocking(Stage::Resolve, move || {
        let layout = Layout::open(format, &path).map_err(PassError::at(Stage::Resolve))?;
        Ok(Origin::Layout(layout))
    })
    .await
}

async fn folder_pass(
    workshop: &Workshop,
    followed: &Followed,
    current: Option<Revision>,
    path: &Path,
    found: &mut Option<Digest>,
) -> Result<Made, PassError> {
    let _turn = workshop.turns.acquire().await;
    let (root, limits) = (path.to_owned(), workshop.limits.clone());
    let resolving = blocking(Stage::Resolve, move || {
        files::digest_of_folder(&root, &limits).map_err(PassError::at(Stage::Resolve))
    });
    let digest = stage(Stage::Resolve, resolving).await?;
    *found = Some(digest);
    let serving = current.is_some();
    if current.is_some_and(|current| current.digest == digest) {
        return Ok(None);
    }
    let (root, limits) = (path.to_owned(), workshop.limits.clone());
    let temporary = workshop.store.temporary();
    let unpacking = blocking(Stage::Unpack, move || {
        // What is served is better than half of what is being written.
        if serving {
            settle(&root, &limits).map_err(PassError::at(Stage::Unpack))?;
        }
        files::of_folder(&root, &limits, &temporary).map_err(PassError::at(Stage::Unpack))
    });
    // Whoever writes to the folder may have gone on meanwhile: what counts is
    // what was copied.
    let (digest, files) = stage(Stage::Unpack, unpacking).await?;
    *found = Some(digest);
    let files = migrated(workshop, files).await?;
    make(&workshop.store, followed, digest, files, &[])
        .await
        .map(Some)
}

/// The files, also of a catalog that is a database.
async fn migrated(workshop: &Workshop, files: CatalogFiles) -> Result<CatalogFiles, PassError> {
    let temporary = workshop.store.temporary();
    let migrated = legacy::migrated(files, &temporary, &workshop.limits);
    migrated.await.map_err(PassError::at(Stage::Unpack))
}

/// The stages `read`, `build` and `commit`.
pub(super) async fn make(
    store: &Store,
    followed: &Followed,
    digest: Digest,
    files: CatalogFiles,
    blobs: &[Digest],
) -> Result<(Revision, Vec<Problem>), PassError> {
    let (writing, name, on_invalid) = (store.clone(), followed.name.clone(), followed.on_invalid);
    let Written {
        finished,
        counts,
        problems,
        search,
    } = blocking(Stage::Read, move || {
        write_revision(&writing, &name, files, on_invalid)
    })
    .await?;
    let new = NewRevision {
        catalog: &followed.name,
        identity: followed.identity(),
        digest,
        counts,
        blobs,
        problems: &problems,
        search: &search,
    };
    let committing = async {
        store
            .commit(finished, new)
            .await
            .map_err(PassError::at(Stage::Commit))
    };
    let revision = stage(Stage::Commit, committing).await?;
    Ok((revision, problems))
}

/// A revision that is written, and what is still to be said of it.
pub(super) struct Written {
    pub(super) finished: Finished,
    pub(super) counts: Counts,
    pub(super) problems: Vec<Problem>,
    pub(super) search: Vec<SearchRow>,
}

/// The stages `read` and `build`, on this thread and its helpers.
pub(super) fn write_revision(
    store: &Store,
    name: &CatalogName,
    files: CatalogFiles,
    on_invalid: OnInvalid,
) -> Result<Written, PassError> {
    let started = Instant::now();
    let mut writer = store.write_revision().map_err(PassError::at(Stage::Read))?;
    let mut catalog = read::read(&files, true, |done| {
        let lines = writer.append_metas(
            &done.output.lines,
            &done.segments,
            &done.output.metas,
            &done.stored,
        )?;
        let messages = writer.append_messages(&done.output.messages)?;
        Ok::<_, StoreError>(Base { lines, messages })
    })
    .map_err(PassError::at(Stage::Read))?;
    observe(Stage::Read, started);

    let started = Instant::now();
    refuse(&catalog, on_invalid)?;
    let (index, search) =
        build_answers(name, &catalog, &mut writer).map_err(PassError::at(Stage::Build))?;
    let finished = writer.finish(index).map_err(PassError::at(Stage::Build))?;
    observe(Stage::Build, started);
    let (counts, problems) = (catalog.counts, std::mem::take(&mut catalog.problems));
    // Giving back the spool's pages takes a while, and nobody waits for that.
    std::thread::spawn(move || drop((catalog, files)));
    Ok(Written {
        finished,
        counts,
        problems,
        search,
    })
}

/// Writes the answers of both APIs, each on a thread of its own.
fn build_answers(
    name: &CatalogName,
    catalog: &Catalog,
    writer: &mut RevisionWriter,
) -> Result<(Index, Vec<SearchRow>), StoreError> {
    let (lines, messages) = (writer.lines()?, writer.messages()?);
    let source = queries::Source {
        name,
        catalog,
        lines: &lines,
        messages: &messages,
    };
    let answers = writer.queries();
    std::thread::scope(|scope| {
        let queries = scope.spawn(|| queries::build(&source, answers));
        let index = build::build(catalog, &lines, writer);
        let queries = queries
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let index = Index {
            queries: queries.index,
            ..index?
        };
        Ok((index, queries.search))
    })
}

/// Decides whether a catalog with these problems can be served.
fn refuse(catalog: &Catalog, on_invalid: OnInvalid) -> Result<(), PassError> {
    let worst = match on_invalid {
        OnInvalid::Quarantine => Severity::Fatal,
        OnInvalid::Reject => Severity::Error,
    };
    if catalog
        .problems
        .iter()
        .any(|problem| problem.severity >= worst)
    {
        return Err(PassError {
            stage: Stage::Build,
            cause: Cause::Refused(catalog.problems.clone()),
        });
    }
    Ok(())
}

async fn publish(
    workshop: &Workshop,
    publisher: &Publisher,
    revision: &Revision,
    problems: Vec<Problem>,
) -> Result<(), PassError> {
    let publishing = async {
        let snapshot = Snapshot::open(&workshop.store, revision.clone())
            .map_err(PassError::at(Stage::Publish))?;
        publisher.update(|status| status.problems = problems.into());
        publisher.publish(snapshot);
        // What is served is published; that old files stay is only a pity.
        if let Err(error) = workshop.store.retire(revision).await {
            tracing::warn!(%error, "old revisions could not be removed");
        }
        Ok(())
    };
    stage(Stage::Publish, publishing).await
}

/// Runs a stage in its span and records its time.
pub(super) async fn stage<T>(
    stage: Stage,
    work: impl Future<Output = Result<T, PassError>>,
) -> Result<T, PassError> {
    let started = Instant::now();
    let result = work
        .instrument(tracing::info_span!("stage", stage = stage.as_str()))
        .await;
    observe(stage, started);
    result
}

fn observe(stage: Stage, started: Instant) {
    histogram!("almanac_stage_seconds", "stage" => stage.as_str())
        .record(started.elapsed().as_secs_f64());
    tracing::debug!(stage = stage.as_str(), elapsed = ?started.elapsed(), "stage done");
}

/// Runs work that takes the processor on a thread of its own. A panic is an
/// error of the pass, not the end of almanac.
pub(super) async fn blocking<T: Send + 'static>(
    stage: Stage,
    work: impl FnOnce() -> Result<T, PassError> + Send + 'static,
) -> Result<T, PassError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .unwrap_or_else(|error| {
            Err(PassError {
                stage,
                cause: Cause::Panicked(error.to_string()),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(source: &str) -> Followed {
        Followed {
            name: "a".parse().unwrap(),
            source: source.parse().unwrap(),
            poll: None,
            platform: Platform::default(),
            on_invalid: OnInvalid::default(),
        }
    }

    #[test]
    fn a_source_of_every_kind_knows_what_came_from_its_place() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let places = [
            vec![
                "quay.io/a/b:v1".to_owned(),
                "quay.io/a/b:v2".to_owned(),
                format!("quay.io/a/b@{digest}"),
            ],
            vec!["quay.io/a/c:v1".to_owned()],
            vec!["file:/a/my".to_owned()],
            vec!["file:/a/my catalogs/x".to_owned()],
            vec!["file:/a/my catalogs/x linux/amd64".to_owned()],
            vec!["oci:/a/my".to_owned(), "oci:/a/my:v1".to_owned()],
            vec![
                "oci:/a/my layouts/x:v1".to_owned(),
                "oci:/a/my layouts/x:v2".to_owned(),
                format!("oci:/a/my layouts/x@{digest}"),
            ],
            vec![
                "oci:/a/two:quay.io/one/catalog:v1".to_owned(),
                "oci:/a/two:quay.io/one/catalog:v9".to_owned(),
            ],
            vec!["oci:/a/two:quay.io/two/catalog:v9".to_owned()],
            vec!["oci:/a/two:v9".to_owned()],
            vec!["oci-archive:/a/two:v9".to_owned()],
        ];
        for (number, one) in places.iter().enumerate() {
            for (other, stored) in places.iter().enumerate() {
                for (source, stored) in one.iter().flat_map(|s| stored.iter().map(move |t| (s, t)))
                {
                    let served = followed(source).is_place_of(&followed(stored).identity().source);
                    assert_eq!(served, number == other, "{source} of {stored}");
                }
            }
        }
        let curated = Followed {
            source: Source::default(),
            ..followed("quay.io/a/b:v1")
        };
        assert!(curated.is_place_of(&curated.identity().source));
        for other in places.iter().flatten().map(|source| followed(source)) {
            assert!(!curated.is_place_of(&other.identity().source));
            assert!(!other.is_place_of(&curated.identity().source));
        }
    }
}
