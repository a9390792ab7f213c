//! The stages `read`, `build` and `commit`: files, or what was made of them while they
//! came, become a revision.

use std::time::Instant;

use crate::answers::index::SearchRow;
use crate::answers::outline::Outline;
use crate::ingest::context::ReadPermit;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::followed::OnInvalid;
use crate::ingest::read::files::CatalogFiles;
use crate::ingest::read::revision_draft::RevisionDraft;
use crate::ingest::read::write_answers::write_answers;
use crate::ingest::stages::{StageTracker, blocking_with_permit, observe};
use crate::name::CatalogName;
use crate::store::{
    BlobPin, Counts, Finished, NewRevision, Revision, RevisionId, SourceIdentity, Store,
};
use ::images::digest::Digest;
use fbc::problem::Problem;

/// The catalog that a revision is made of.
pub(crate) struct Input {
    /// The digest of the source.
    pub(crate) digest: Digest,
    pub(crate) content: Content,
    pub(crate) permit: ReadPermit,
    /// The OCI blobs that the files are from. They stay until the commit.
    pub(crate) blobs: Vec<BlobPin>,
    pub(crate) on_invalid: OnInvalid,
}

/// The content of a catalog.
pub(crate) enum Content {
    /// Its files, which are read next.
    Files(CatalogFiles),
    /// The lines of a stored revision, and the problems that its files had.
    Lines(CatalogFiles, Vec<Problem>),
    /// What was made of its files while they came.
    Draft(Box<RevisionDraft>),
}

impl From<CatalogFiles> for Content {
    fn from(files: CatalogFiles) -> Self {
        Self::Files(files)
    }
}

impl From<RevisionDraft> for Content {
    fn from(draft: RevisionDraft) -> Self {
        Self::Draft(Box::new(draft))
    }
}

/// Makes a revision and commits it. One with a number of a fleet is only kept: it is
/// served later.
pub(crate) async fn make_revision(
    store: &Store,
    name: &CatalogName,
    identity: SourceIdentity,
    stages: &StageTracker,
    input: Input,
    number: Option<RevisionId>,
) -> Result<(Revision, Vec<Problem>), PassError> {
    stages.enter(Stage::Read);
    let (writing, reached, of) = (store.clone(), stages.clone(), name.clone());
    let (content, on_invalid) = (input.content, input.on_invalid);
    let written = blocking_with_permit(Stage::Read, &input.permit, move || {
        write_revision(&writing, &reached, &of, content, on_invalid)
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
pub(crate) struct Written {
    pub(crate) finished: Finished,
    pub(crate) counts: Counts,
    pub(crate) problems: Vec<Problem>,
    pub(crate) search: Vec<SearchRow>,
}

/// The stages `read` and `build`, on this thread and its helpers.
pub(crate) fn write_revision(
    store: &Store,
    stages: &StageTracker,
    name: &CatalogName,
    content: impl Into<Content>,
    on_invalid: OnInvalid,
) -> Result<Written, PassError> {
    let mut known = None;
    let (draft, files) = match content.into() {
        Content::Files(files) => (RevisionDraft::from_files(store, &files)?, Some(files)),
        Content::Lines(files, problems) => {
            known = Some(problems);
            (RevisionDraft::from_files(store, &files)?, Some(files))
        }
        Content::Draft(draft) => (*draft, None),
    };
    let RevisionDraft {
        mut writer,
        mut catalog,
        counts,
        digests,
        ..
    } = draft;

    stages.enter(Stage::Build);
    let started = Instant::now();
    on_invalid.refuse(&catalog.problems)?;
    if let Some(known) = known {
        catalog.problems = known;
    }
    let (index, search) =
        write_answers(name, &catalog, &mut writer).map_err(PassError::at(Stage::Build))?;
    let mut finished = writer.finish(index).map_err(PassError::at(Stage::Build))?;
    let (graph, blobs) = (&catalog.graph, &catalog.blobs);
    let digest = |meta| digests.get(&meta).copied();
    finished.outline = Some(Outline::of(graph, blobs, &catalog.problems, digest));
    observe(Stage::Build, started);
    let problems = std::mem::take(&mut catalog.problems);
    // Freeing them takes a while, and nobody waits for that.
    std::thread::spawn(move || drop((catalog, files)));
    Ok(Written {
        finished,
        counts,
        problems,
        search,
    })
}
