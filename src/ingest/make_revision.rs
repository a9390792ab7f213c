//! The stages `read`, `build` and `commit`: files become a revision.

use std::collections::HashMap;
use std::time::Instant;

use crate::answers::index::SearchRow;
use crate::answers::outline::Outline;
use crate::ingest::build;
use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files::CatalogFiles;
use crate::ingest::followed::OnInvalid;
use crate::ingest::kept;
use crate::ingest::read;
use crate::ingest::stages::{StageTracker, blocking_with_permit, observe};
use crate::name::CatalogName;
use crate::store::{
    BlobPin, Counts, Finished, NewRevision, NewRevisionNumber, Revision, SourceIdentity, Store,
};
use ::images::digest::Digest;
use fbc::problem::Problem;

/// The catalog that a revision is made of.
pub(super) struct Input {
    /// The digest of the source.
    pub(super) digest: Digest,
    pub(super) files: CatalogFiles,
    pub(super) permit: ReadPermit,
    /// The OCI blobs that the files are from. They stay until the commit.
    pub(super) blobs: Vec<BlobPin>,
    pub(super) on_invalid: OnInvalid,
}

/// Makes a revision and commits it. One with a number of a fleet is only kept: it is
/// served later.
pub(super) async fn make_revision(
    store: &Store,
    name: &CatalogName,
    identity: SourceIdentity,
    stages: &StageTracker,
    input: Input,
    number: Option<NewRevisionNumber>,
) -> Result<(Revision, Vec<Problem>), PassError> {
    stages.enter(Stage::Read);
    let (writing, reached, of) = (store.clone(), stages.clone(), name.clone());
    let (files, on_invalid) = (input.files, input.on_invalid);
    let written = blocking_with_permit(Stage::Read, &input.permit, move || {
        write_revision(&writing, &reached, &of, files, on_invalid)
    })
    .await?;
    let blobs: Vec<Digest> = input.blobs.iter().map(BlobPin::digest).collect();
    let new = NewRevision {
        catalog: name,
        identity,
        digest: input.digest,
        counts: written.counts,
        blobs: &blobs,
        problems: &written.problems,
        search: &written.search,
    };
    let committing = async {
        let committed = match number {
            None => store.commit(written.finished, new).await,
            Some(number) => store.keep(written.finished, new, number).await,
        };
        committed.map_err(PassError::at(Stage::Commit))
    };
    let revision = stages.run(Stage::Commit, committing).await?;
    Ok((revision, written.problems))
}

/// A revision that is written but not committed.
pub(super) struct Written {
    pub(super) finished: Finished,
    pub(super) counts: Counts,
    pub(super) problems: Vec<Problem>,
    pub(super) search: Vec<SearchRow>,
}

/// The stages `read` and `build`, on this thread and its helpers.
pub(super) fn write_revision(
    store: &Store,
    stages: &StageTracker,
    name: &CatalogName,
    files: CatalogFiles,
    on_invalid: OnInvalid,
) -> Result<Written, PassError> {
    let started = Instant::now();
    let mut writer = store.write_revision().map_err(PassError::at(Stage::Read))?;
    writer
        .keep_pieces(&kept::program())
        .map_err(PassError::at(Stage::Read))?;
    let mut digests = HashMap::new();
    let mut metas = 0;
    let (mut catalog, counts) = read::read(&files, true, |done| {
        for (meta, stored) in done.output.metas.iter().zip(&done.stored) {
            if meta.schema() == "olm.bundle" {
                digests.insert(metas, stored.digest);
            }
            metas += 1;
        }
        writer.append(&done.made())
    })
    .map_err(PassError::at(Stage::Read))?;
    observe(Stage::Read, started);

    stages.enter(Stage::Build);
    let started = Instant::now();
    on_invalid.refuse(&catalog.problems)?;
    let (index, search) =
        build::build(name, &catalog, &mut writer).map_err(PassError::at(Stage::Build))?;
    let mut finished = writer.finish(index).map_err(PassError::at(Stage::Build))?;
    let (graph, blobs) = (&catalog.graph, &catalog.blobs);
    let digest = |meta| digests.get(&meta).copied();
    finished.outline = Some(Outline::of(graph, blobs, &catalog.problems, digest));
    observe(Stage::Build, started);
    let problems = std::mem::take(&mut catalog.problems);
    // Unmapping the files takes a while, and nobody waits for that.
    std::thread::spawn(move || drop((catalog, files)));
    Ok(Written {
        finished,
        counts,
        problems,
        search,
    })
}
