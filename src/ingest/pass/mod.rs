//! One pass over one catalog: resolve ─► pull ─► unpack ─► read ─► build ─►
//! commit ─► publish. A failed pass changes nothing that is served.

pub(crate) mod curate;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod follow;
pub(crate) mod history;
pub(crate) mod make_revision;
pub(crate) mod problem_log;
pub(crate) mod pull;
pub(crate) mod receive;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::fleet::{FileLimit, Made, Permit, Track, encode};
use crate::ingest::context::{PassContext, ReadPermit};
use crate::ingest::curation::{CurateError, Curation};
use crate::ingest::error::{PassError, Stage};
use crate::ingest::folder::listing::FolderRules;
use crate::ingest::folder::wait_until_quiet::{FolderState, wait_until_quiet};
use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::images::make::{make_slim, signing, tags};
use crate::ingest::images::options::Mirror;
use crate::ingest::origin::Origin;
use crate::ingest::pass::make_revision::{Content, Input, make_revision};
use crate::ingest::pass::pull::Pulled;
use crate::ingest::pull_progress;
use crate::ingest::read::files::{self, FolderCopy, FolderFiles};
use crate::ingest::read::read_files::{ReadFile, ReadFiles};
use crate::ingest::read::read_unchanged::read_unchanged_in_turns;
use crate::ingest::read::revision_draft::RevisionDraft;
use crate::ingest::read::{piece_content, sqlite};
use crate::ingest::source::Source;
use crate::ingest::stages::{StageTracker, blocking, blocking_with_permit};
use crate::snapshot::{KnownPieces, Publisher, Snapshot};
use crate::store::{self, BlobPin, Encoding, Revision, Store};
use ::images::digest::Digest;
use ::images::policy::Verdict;
use fbc::problem::Problem;
use metrics::counter;

/// The longest time from the first publication to being ready.
const COMPRESSION: Duration = Duration::from_secs(5);
/// The longest time of a pass; for a fleet, twice: to make a revision, and to share it.
const LONGEST: Duration = Duration::from_hours(3);

/// A catalog that is followed, and with what.
#[derive(Clone, Copy)]
pub(super) struct FollowedCatalog<'a> {
    pub(super) context: &'a PassContext,
    pub(super) followed: &'a Followed,
    pub(super) publisher: &'a Publisher,
    /// The catalog in its fleet, if there is one.
    pub(super) track: &'a Track,
}

/// Runs one pass, and gives it up after `LONGEST`. The result is the revision
/// that was made and published, or nothing when the digest is that of the current
/// one. `digest` gets the source's digest as soon as it is known, and `read_files` what
/// was read of a folder.
pub(super) async fn run_once(
    catalog: FollowedCatalog<'_>,
    permit: &Permit,
    digest: &mut Option<Digest>,
    read_files: &mut Arc<ReadFiles>,
) -> Result<Option<Revision>, PassError> {
    let FollowedCatalog {
        context,
        followed,
        publisher,
        track,
    } = catalog;
    let (stages, began) = (StageTracker::at(Stage::Resolve), Instant::now());
    let pass = Pass {
        context,
        followed,
        publisher,
        track,
        found: digest,
        read_files,
        stages: &stages,
    };
    // Boxed, since every follower holds this large future.
    let made = stages.limit(LONGEST, Box::pin(pass.run())).await?;
    let Some((revision, problems)) = made else {
        publisher.update(|status| status.set_resolved(began));
        return Ok(None);
    };
    if track.shared().is_some() {
        let sharing = share(context, followed, publisher, permit, &revision, began);
        let sharing = stages.run(Stage::Share, Box::pin(sharing));
        if let Err(error) = stages.limit(LONGEST, sharing).await {
            // Failed passes leave nothing on the disk.
            if let Err(error) = context.store.discard(&revision).await {
                tracing::warn!(%error, "cannot remove what a failed pass has made");
            }
            return Err(error);
        }
    } else {
        publish(context, publisher, &stages, &revision, problems).await?;
        publisher.update(|status| status.set_resolved(began));
    }
    Ok(Some(revision))
}

/// Publishes a revision in a fleet, with its slim image: both come to clients at once.
async fn share(
    context: &PassContext,
    followed: &Followed,
    publisher: &Publisher,
    permit: &Permit,
    revision: &Revision,
    began: Instant,
) -> Result<(), PassError> {
    // The image is made of what is compressed.
    let encoded = encode(&context.store, revision, publisher.snapshot()).await;
    let encoded = encoded.map_err(PassError::at(Stage::Share))?;
    let image = image_of_revision(context, followed, &encoded).await;
    let made = Made {
        revision: &encoded,
        image: image.as_ref().map(|(image, _)| image),
        began: began.into_std(),
    };
    let shared = permit.publish(FileLimit::of(&context.limits), made).await;
    shared.map_err(PassError::at(Stage::Share))
}

/// The slim image of a revision that is not served yet. A failure is no reason to keep the
/// revision from clients: the image is made later.
async fn image_of_revision(
    context: &PassContext,
    followed: &Followed,
    revision: &Revision,
) -> Option<(store::Image, Vec<BlobPin>)> {
    let options = &followed.image;
    if options.mirror != Mirror::Slim {
        return None;
    }
    let made = async {
        let (store, of) = (context.store.clone(), revision.clone());
        let opening = blocking(Stage::Build, move || {
            Snapshot::open(&store, of).map_err(PassError::at(Stage::Build))
        });
        let snapshot = Arc::new(opening.await?);
        make_slim(
            context,
            &snapshot,
            tags(&followed.source),
            signing(context, options),
        )
        .await
    };
    let made = made.await.inspect_err(|error| {
        tracing::warn!(revision = %revision.id, %error, "the image is made later");
    });
    made.ok()
}

/// A pass that is running.
struct Pass<'a> {
    context: &'a PassContext,
    followed: &'a Followed,
    publisher: &'a Publisher,
    /// The catalog in its fleet, if there is one.
    track: &'a Track,
    /// The digest of the source, once it is known.
    found: &'a mut Option<Digest>,
    /// What the last passes have read of a folder.
    read_files: &'a mut Arc<ReadFiles>,
    stages: &'a StageTracker,
}

impl Pass<'_> {
    /// A new revision and its problems, or nothing when the digest is unchanged.
    async fn run(mut self) -> Result<Option<(Revision, Vec<Problem>)>, PassError> {
        let input = match &self.followed.source {
            Source::File(path) => self.folder(path).await?,
            Source::Curated(curation) => self.curated(curation).await?,
            source => {
                let input = Box::pin(self.image(source)).await;
                input.map_err(|error| error.of_image(source))?
            }
        };
        let Some(input) = input else {
            return Ok(None);
        };
        let (store, followed) = (&self.context.store, self.followed);
        let identity = followed.identity();
        let number = self.track.next_revision().await;
        let number = number.map_err(PassError::at(Stage::Commit))?;
        let made = make_revision(store, &followed.name, identity, self.stages, input, number);
        made.await.map(Some)
    }

    /// The served snapshot, if it is of this source and, in a fleet, the newest one there.
    fn current(&self) -> Option<Arc<Snapshot>> {
        let served = self.publisher.snapshot()?;
        let revision = served.revision();
        let is_current = self.followed.is_source_of(revision) && self.track.has(revision);
        is_current.then_some(served)
    }

    /// Finds what the served revision has, as far as this is known. This blocks.
    fn known(&self) -> impl Fn() -> Option<KnownPieces> + Clone + Send + 'static {
        let (store, served) = (self.context.store.clone(), self.publisher.snapshot());
        move || KnownPieces::of(&store, served.clone()?, &piece_content::program())
    }

    /// Notes the digest of the source. Whether the served revision is at it.
    fn is_served(&mut self, digest: Digest) -> bool {
        *self.found = Some(digest);
        let current = self.current();
        current.is_some_and(|current| current.revision().digest == digest)
    }

    async fn image(&mut self, source: &Source) -> Result<Option<Input>, PassError> {
        let (context, stages) = (self.context, self.stages);
        let (origin, choice) = match source {
            Source::Layout(layout) => (
                Origin::open(context.registries.policy(), layout).await?,
                layout.choice.as_ref(),
            ),
            Source::Image(reference) => {
                let route = context.registries.route(reference).await;
                let route = route.map_err(PassError::at(Stage::Resolve))?;
                (Origin::Registry(Box::new(route)), None)
            }
            Source::File(_) | Source::Curated(_) => return Ok(None),
        };
        // Boxed: the state of its signatures is large.
        let resolving = Box::pin(origin.resolve(choice));
        let digest = stages.run(Stage::Resolve, resolving).await?;
        self.tell(origin.served_by());
        if self.is_served(digest) {
            return Ok(None);
        }
        let store = pull_progress::logged(context.store.contents(), &self.followed.name);
        let platform = &self.followed.platform;
        let pulling = pull::pull(&origin, &store, &digest, platform, &context.limits);
        // Boxed: its state for several layers is large.
        let mut pulled = stages.run(Stage::Pull, Box::pin(pulling)).await?;
        let digest = pulled.digest;
        let admitted_by = self.admitted_by(pulled.admission.as_ref());
        if let Some(served_by) = origin.served_by() {
            tracing::info!(
                catalog = %self.followed.name,
                %source,
                %digest,
                served_by,
                admitted_by,
                "pulled"
            );
            self.tell(Some(served_by));
        }
        let (mut permit, mut found) = self.unpack(&pulled).await;
        if pulled.needs_all(&found) {
            drop(permit);
            let pulling = pull::pull_covered(&origin, &store, &mut pulled);
            stages.run(Stage::Pull, Box::pin(pulling)).await?;
            (permit, found) = self.unpack(&pulled).await;
        }
        // Stored files may have been repaired meanwhile.
        if self.is_served(digest) {
            return Ok(None);
        }
        Ok(Some(Input {
            digest,
            content: found?,
            permit,
            blobs: pulled.blobs,
            on_invalid: self.followed.on_invalid,
        }))
    }

    /// Tells by which requirements of the policy an image came in.
    fn admitted_by(&self, verdict: Option<&Verdict>) -> Option<String> {
        let verdict = verdict?;
        for requirement in &verdict.requirements {
            counter!(
                "almanac_admissions_total",
                "catalog" => self.followed.name.to_string(),
                "requirement" => requirement.kind(),
                "outcome" => "admitted"
            )
            .increment(1);
        }
        let admitted_by = verdict.admitted_by();
        let told = admitted_by.clone();
        self.publisher.update(|status| status.admitted_by = told);
        admitted_by
    }

    /// Tells which registry answered.
    fn tell(&self, served_by: Option<String>) {
        if served_by.is_some() {
            self.publisher.update(|status| status.served_by = served_by);
        }
    }

    /// The content of the catalog folder of an image.
    async fn unpack(&self, pulled: &Pulled) -> (ReadPermit, Result<Content, PassError>) {
        self.stages.enter(Stage::Unpack);
        let permit = self.context.read_permit().await;
        let (store, limits) = (&self.context.store, &self.context.limits);
        let reading = pulled.read(store, limits, &permit, self.known());
        let content = self.stages.run(Stage::Unpack, reading).await;
        (permit, content)
    }

    async fn folder(&mut self, path: &Path) -> Result<Option<Input>, PassError> {
        let rules = FolderRules::new(&self.followed.folder, &self.context.limits);
        // The current revision is better than half of the next one. Others may read
        // during the wait.
        let mut is_new = true;
        if let Some(current) = self.current() {
            let (root, own) = (path.to_owned(), rules.clone());
            let waiting = blocking(Stage::Resolve, move || {
                wait_until_quiet(&root, &own).map_err(PassError::at(Stage::Resolve))
            });
            let written = self.stages.run(Stage::Resolve, waiting).await?;
            let last_pass = self.publisher.status().last_pass;
            let last_pass = last_pass.unwrap_or(current.revision().committed);
            is_new = written.is_some_and(|written| written > last_pass);
        } else {
            let (root, own) = (path.to_owned(), rules.clone());
            let listing = blocking(Stage::Resolve, move || {
                FolderState::at(&root, &own).map_err(PassError::at(Stage::Resolve))
            });
            self.stages.run(Stage::Resolve, listing).await?;
        }
        let permit = self.context.read_permit().await;
        // A folder that was written to is copied at once: its digest comes with the copy.
        if !is_new {
            let (root, own) = (path.to_owned(), rules.clone());
            let resolving = blocking_with_permit(Stage::Resolve, &permit, move || {
                files::digest_of_folder(&root, &own).map_err(PassError::at(Stage::Resolve))
            });
            let digest = self.stages.run(Stage::Resolve, resolving).await?;
            if self.is_served(digest) {
                return Ok(None);
            }
            // Something changed that nothing told of: their dates may not tell either.
            *self.read_files = Arc::default();
        }
        let (root, own) = (path.to_owned(), rules.clone());
        let (store, known) = (self.context.store.clone(), self.known());
        let read = {
            let (root, store) = (root.clone(), store.clone());
            let earlier = Arc::clone(self.read_files);
            move || read_folder(&root, &own, &store, &earlier, known())
        };
        let permits = &self.context.read_permits;
        let reading = read_unchanged_in_turns(permits, permit, path, &rules, read);
        let (read, permit) = self.stages.run(Stage::Unpack, reading).await?;
        // The folder may have changed meanwhile: what was read decides.
        let (digest, content) = match read {
            FolderContent::Read(digest, draft, files) => {
                *self.read_files = Arc::new(files);
                (digest, Content::Draft(draft))
            }
            FolderContent::Copied(copy, known) => {
                let unpacking = blocking_with_permit(Stage::Unpack, &permit, move || {
                    let copied = sqlite::from_copy(copy, &root, &rules, &store.temporary());
                    copied.map_err(PassError::at(Stage::Unpack))
                });
                let unpacked = self.stages.run(Stage::Unpack, unpacking).await?;
                let (digest, mut files) = unpacked;
                files.known = known;
                (digest, Content::from(files))
            }
        };
        if self.is_served(digest) {
            return Ok(None);
        }
        Ok(Some(Input {
            digest,
            content,
            permit,
            blobs: Vec::new(),
            on_invalid: self.followed.on_invalid,
        }))
    }

    async fn curated(&mut self, curation: &Curation) -> Result<Option<Input>, PassError> {
        let (context, stages, track) = (self.context, self.stages, self.track);
        let finding = async {
            // Made of older revisions, the catalog would go back.
            let behind = track.until_sources(&curation.from).await;
            let behind = behind.map_err(CurateError::Behind);
            behind.map_err(PassError::at(Stage::Resolve))?;
            curate::snapshots(&context.catalogs, curation).await
        };
        let snapshots = stages.run(Stage::Resolve, finding).await?;
        let digest = curate::digest(curation, &snapshots);
        if self.is_served(digest) {
            return Ok(None);
        }
        stages.enter(Stage::Unpack);
        let permit = context.read_permit().await;
        let (selected, limits) = (curation.clone(), context.limits.clone());
        let (temporary, known) = (context.store.temporary(), self.known());
        let selecting = blocking_with_permit(Stage::Unpack, &permit, move || {
            let mut files = curate::files(&selected, &snapshots, &limits, &temporary)?;
            files.known = known().map(Arc::new);
            Ok(files)
        });
        let files = stages.run(Stage::Unpack, selecting).await?;
        // A selection from valid packages must be valid.
        let own = curation.is_copy().then_some(self.followed.on_invalid);
        Ok(Some(Input {
            digest,
            content: files.into(),
            permit,
            blobs: Vec::new(),
            on_invalid: own.unwrap_or(OnInvalid::Reject),
        }))
    }
}

/// What was read of a folder, or its copy.
enum FolderContent {
    Read(Digest, Box<RevisionDraft>, ReadFiles),
    Copied(FolderCopy, Option<Arc<KnownPieces>>),
}

/// Reads a folder while its files come, or copies it. Pieces that are `known` are not
/// read again. This blocks.
fn read_folder(
    root: &Path,
    rules: &FolderRules,
    store: &Store,
    earlier: &ReadFiles,
    known: Option<KnownPieces>,
) -> Result<FolderContent, PassError> {
    let began = SystemTime::now();
    let files = FolderFiles {
        root,
        rules,
        earlier,
        known: known.as_ref(),
    };
    let read = RevisionDraft::beside(store, known.as_ref(), |feed| files.feed(feed))?;
    if let Some((mut draft, (digest, files))) = read {
        let pieces = std::mem::take(&mut draft.pieces);
        let read = files.into_iter().zip(pieces);
        let read = read.map(|((path, state, digest), pieces)| {
            let file = ReadFile {
                state,
                digest,
                pieces,
            };
            (path, file)
        });
        let files = ReadFiles::new(read, began);
        return Ok(FolderContent::Read(digest, Box::new(draft), files));
    }
    let copied = FolderCopy::new(root, rules, &store.temporary());
    let copy = copied.map_err(PassError::at(Stage::Unpack))?;
    Ok(FolderContent::Copied(copy, known.map(Arc::new)))
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
        publisher.replace(snapshot);
        // The revision is served; old files only take space.
        if let Err(error) = context.store.retire(revision).await {
            tracing::warn!(%error, "cannot remove old revisions");
        }
        until_compressed(publisher).await;
        publisher.update(|status| status.first_attempt_done = true);
        Ok(())
    };
    stages.run(Stage::Publish, publishing).await
}

/// Waits before almanac is ready for the first time: clients that come then get
/// compressed answers.
async fn until_compressed(publisher: &Publisher) {
    if publisher.status().first_attempt_done {
        return;
    }
    if let Some(snapshot) = publisher.snapshot() {
        // A busy processor is no reason to serve nobody.
        let compressed = snapshot.until_encoded(Encoding::Segments);
        let _ = tokio::time::timeout(COMPRESSION, compressed).await;
    }
}
