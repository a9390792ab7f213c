//! One pass over one catalog: resolve ─► pull ─► unpack ─► read ─► build ─►
//! commit ─► publish. A failed pass changes nothing that is served.

use std::path::Path;
use std::time::Duration;

use crate::ingest::context::{PassContext, ReadPermit};
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files::{self, CatalogFiles};
use crate::ingest::files_error::FilesError;
use crate::ingest::followed::Followed;
use crate::ingest::make_revision::{Input, Made, make_revision};
use crate::ingest::origin::Origin;
use crate::ingest::pull::{self, Pulled};
use crate::ingest::source::Source;
use crate::ingest::stages::{StageTracker, blocking, blocking_with_permit};
use crate::ingest::wait_until_quiet::wait_until_quiet;
use crate::ingest::{curate, sqlite};
use crate::snapshot::{Publisher, Snapshot};
use crate::store::{BlobPin, Revision};
use ::images::digest::Digest;
use ::images::layers::UnpackError;
use fbc::problem::Problem;

/// The result of a pass.
#[derive(Debug)]
pub enum PassResult {
    /// The digest is that of the current revision.
    Unchanged,
    /// A new revision was made and published.
    Published(Box<Revision>),
}

/// The longest time of a pass.
const LONGEST: Duration = Duration::from_hours(3);

/// Runs one pass, and gives it up after `LONGEST`. `digest` gets the source's
/// digest as soon as it is known.
pub async fn run_once(
    context: &PassContext,
    followed: &Followed,
    publisher: &Publisher,
    digest: &mut Option<Digest>,
) -> Result<PassResult, PassError> {
    let current = publisher
        .snapshot()
        .map(|snapshot| snapshot.revision().clone())
        .filter(|revision| followed.is_source_of(revision));
    let stages = StageTracker::at(Stage::Resolve);
    // Boxed, since every follower holds this large future.
    let pass = Box::pin(async {
        match &followed.source {
            Source::File(path) => {
                folder_pass(context, followed, current, path, digest, &stages).await
            }
            Source::Curated(curation) => {
                curate::pass(context, followed, curation, current, digest, &stages).await
            }
            source => image_pass(context, followed, publisher, current, digest, &stages)
                .await
                .map_err(|error| error.of_image(source)),
        }
    });
    let Some((revision, problems)) = stages.limit(LONGEST, pass).await? else {
        return Ok(PassResult::Unchanged);
    };
    publish(context, publisher, &stages, &revision, problems).await?;
    Ok(PassResult::Published(Box::new(revision)))
}

async fn image_pass(
    context: &PassContext,
    followed: &Followed,
    publisher: &Publisher,
    current: Option<Revision>,
    found: &mut Option<Digest>,
    stages: &StageTracker,
) -> Result<Made, PassError> {
    let (origin, choice) = match &followed.source {
        Source::Layout(layout) => (Origin::open(layout).await?, layout.choice.as_ref()),
        Source::Image(reference) => {
            let route = context.registries.route(reference).await;
            let route = route.map_err(PassError::at(Stage::Resolve))?;
            (Origin::Registry(route), None)
        }
        Source::File(_) | Source::Curated(_) => return Ok(None),
    };
    let digest = stages.run(Stage::Resolve, origin.resolve(choice)).await?;
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
    let pulling = pull::pull(
        &origin,
        context.store.contents(),
        &digest,
        &followed.platform,
        &context.limits,
    );
    // Boxed: its state for several layers is large.
    let mut pulled = stages.run(Stage::Pull, Box::pin(pulling)).await?;
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
    stages.enter(Stage::Unpack);
    let mut permit = context.read_permit().await;
    let mut files = unpack(context, stages, &permit, &pulled).await;
    if pulled.needs_all(&files) {
        drop(permit);
        let pulling = pull::pull_covered(&origin, context.store.contents(), &mut pulled);
        stages.run(Stage::Pull, Box::pin(pulling)).await?;
        stages.enter(Stage::Unpack);
        permit = context.read_permit().await;
        files = unpack(context, stages, &permit, &pulled).await;
    }
    let blobs: Vec<Digest> = pulled.blobs.iter().map(BlobPin::digest).collect();
    let input = Input {
        followed,
        digest,
        files: files?,
        blobs: &blobs,
    };
    make_revision(&context.store, stages, &permit, input)
        .await
        .map(Some)
}

/// The files under the catalog folder.
async fn unpack(
    context: &PassContext,
    stages: &StageTracker,
    permit: &ReadPermit,
    pulled: &Pulled,
) -> Result<CatalogFiles, PassError> {
    let (layers, covered) = (pulled.layers.clone(), pulled.covered.len());
    let (folder, limits) = (pulled.folder.clone(), context.limits.clone());
    let store = context.store.clone();
    let unpacking = blocking_with_permit(Stage::Unpack, permit, move || {
        let temporary = store.temporary();
        let files = files::of_image(&layers, covered, &folder, &limits, &temporary);
        if let Err(FilesError::Unpack(UnpackError::Read { .. })) = &files {
            // An unreadable blob must not fail every later pass: the next one
            // pulls it again.
            for (layer, _) in &layers {
                store.contents().remove_blob(&layer.digest);
            }
        }
        files
            .and_then(|files| sqlite::migrated(files, &temporary, &limits))
            .map_err(PassError::at(Stage::Unpack))
    });
    stages.run(Stage::Unpack, unpacking).await
}

async fn folder_pass(
    context: &PassContext,
    followed: &Followed,
    current: Option<Revision>,
    path: &Path,
    found: &mut Option<Digest>,
    stages: &StageTracker,
) -> Result<Made, PassError> {
    let permit = context.read_permit().await;
    let (root, limits) = (path.to_owned(), context.limits.clone());
    let resolving = blocking_with_permit(Stage::Resolve, &permit, move || {
        files::digest_of_folder(&root, &limits).map_err(PassError::at(Stage::Resolve))
    });
    let digest = stages.run(Stage::Resolve, resolving).await?;
    *found = Some(digest);
    let is_served = current.is_some();
    if current.is_some_and(|current| current.digest == digest) {
        return Ok(None);
    }
    let (root, limits) = (path.to_owned(), context.limits.clone());
    let temporary = context.store.temporary();
    let unpacking = blocking_with_permit(Stage::Unpack, &permit, move || {
        // The current revision is better than half of the next one.
        if is_served {
            wait_until_quiet(&root, &limits).map_err(PassError::at(Stage::Unpack))?;
        }
        sqlite::of_folder(&root, &limits, &temporary).map_err(PassError::at(Stage::Unpack))
    });
    // The folder may have changed meanwhile: the copy decides.
    let (digest, files) = stages.run(Stage::Unpack, unpacking).await?;
    *found = Some(digest);
    let input = Input {
        followed,
        digest,
        files,
        blobs: &[],
    };
    make_revision(&context.store, stages, &permit, input)
        .await
        .map(Some)
}

async fn publish(
    context: &PassContext,
    publisher: &Publisher,
    stages: &StageTracker,
    revision: &Revision,
    problems: Vec<Problem>,
) -> Result<(), PassError> {
    let publishing = async {
        let (store, opening) = (context.store.clone(), revision.clone());
        let snapshot = blocking(Stage::Publish, move || {
            Snapshot::open(&store, opening).map_err(PassError::at(Stage::Publish))
        })
        .await?;
        publisher.update(|status| status.problems = problems.into());
        publisher.publish(snapshot);
        // The revision is served; old files only take space.
        if let Err(error) = context.store.retire(revision).await {
            tracing::warn!(%error, "cannot remove old revisions");
        }
        Ok(())
    };
    stages.run(Stage::Publish, publishing).await
}
