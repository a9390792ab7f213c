//! Mirroring the image of a source: every platform, and all attachments. Attestations
//! and attachments that the source names and does not have are left out: a cluster runs
//! the image without them.

use std::collections::{BTreeMap, HashSet};

use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, MirrorError, PassError, Stage};
use crate::ingest::followed::Followed;
use crate::ingest::origin::Origin;
use crate::ingest::pull_progress;
use crate::ingest::source::Source;
use crate::snapshot::Snapshot;
use crate::store::content::Contents;
use crate::store::{BlobPin, Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, Referrer};
use ::images::digest::Digest;
use ::images::manifest::{DOCKER_LIST, DOCKER_MANIFEST, Manifest, OCI_INDEX, OCI_MANIFEST};
use ::images::{
    Attachment, Choice, Descriptor, Error, LayoutError, ManifestError, Route, cosign_tags,
};

/// The tag that every image has under its catalog's name.
pub(super) const LATEST: &str = crate::store::Image::LATEST;
/// How deep indexes may be nested, as in other mirrors.
const MAX_DEPTH: usize = 5;

/// Brings all parts of a snapshot's image into the store, and returns its
/// record.
pub(super) async fn pull(
    context: &PassContext,
    followed: &Followed,
    snapshot: &Snapshot,
) -> Result<(Image, Vec<BlobPin>), PassError> {
    let origin = match &followed.source {
        Source::Image(reference) => {
            let route = context.registries.route(reference).await;
            Origin::Registry(Box::new(route.map_err(PassError::at(Stage::Pull))?))
        }
        Source::Layout(layout) => Origin::open(context.registries.policy(), layout).await?,
        Source::File(_) | Source::Curated(_) => {
            return Err(PassError::at(Stage::Pull)(MirrorError::NoImage));
        }
    };
    let digest = snapshot.revision().digest;
    let mut walk = Walk {
        origin: &origin,
        store: pull_progress::logged(context.store.contents(), &followed.name),
        unsigned: None,
        left: context.limits.bytes.saturating_mul(Image::IMAGES),
        seen: HashSet::new(),
        manifests: Vec::new(),
        blobs: Vec::new(),
        pins: Vec::new(),
        left_out: Vec::new(),
    };
    if let Origin::Registry(route) = &origin
        && route.admit(&digest, None).await.is_err()
    {
        // An index may be signed as a whole, or each of its images.
        walk.unsigned = Some(route);
    }
    walk.add(digest, false).await?;
    walk.unsigned = None;
    let subjects: Vec<Digest> = walk.manifests.iter().map(|found| found.digest).collect();
    let mut tags = BTreeMap::new();
    for subject in subjects {
        let attached = walk.attached_to(&subject).await;
        for (tag, attached) in attached.map_err(PassError::at(Stage::Pull))? {
            walk.add(attached, true).await?;
            if let Some(tag) = tag
                && !walk.left_out.contains(&attached)
            {
                tags.insert(tag, attached);
            }
        }
    }
    let mut upstream = tags.clone();
    tags.insert(LATEST.into(), digest);
    if let Some(tag) = followed_tag(&followed.source) {
        tags.insert(tag.into(), digest);
        upstream.insert(tag.into(), digest);
    }
    let image = Image {
        kind: ImageKind::Full,
        origin: match &followed.source {
            Source::Image(reference) => Some(ImageOrigin {
                registry: reference.registry().into(),
                repository: reference.repository().into(),
                tags: upstream,
            }),
            _ => None,
        },
        tags,
        manifests: walk.manifests,
        blobs: walk.blobs,
        signed: None,
        left_out: walk.left_out,
    };
    Ok((image, walk.pins))
}

/// The tag by which a source is followed.
pub(super) fn followed_tag(source: &Source) -> Option<&str> {
    match source {
        Source::Image(reference) => reference.tag(),
        Source::Layout(layout) => layout.tag().filter(|tag| ::images::reference::is_tag(tag)),
        Source::File(_) | Source::Curated(_) => None,
    }
}

/// The parts that were found so far, all of them in the store and pinned.
struct Walk<'a> {
    origin: &'a Origin,
    store: Contents,
    /// Checks the signature of each image, when the policy requires one and the
    /// index has none.
    unsigned: Option<&'a Route>,
    /// The bytes that may still be pulled. Those of what is left out in the end were pulled
    /// too.
    left: u64,
    seen: HashSet<Digest>,
    manifests: Vec<ImageManifest>,
    blobs: Vec<ImageBlob>,
    pins: Vec<BlobPin>,
    /// Optional manifests that the source does not have.
    left_out: Vec<Digest>,
}

/// A manifest that is still to be added.
struct Waiting {
    digest: Digest,
    depth: usize,
    /// Whether the image runs without it.
    optional: bool,
}

impl Walk<'_> {
    /// Adds a manifest and all that it refers to. Attached ones may be absent.
    async fn add(&mut self, digest: Digest, attached: bool) -> Result<(), PassError> {
        let mut waiting = vec![Waiting {
            digest,
            depth: 0,
            optional: attached,
        }];
        while let Some(next) = waiting.pop() {
            let is_known = !self.seen.insert(next.digest);
            if is_known && (next.optional || !self.left_out.contains(&next.digest)) {
                continue;
            }
            let so_far = (self.manifests.len(), self.blobs.len(), self.pins.len());
            match self.add_one(&next, attached).await {
                // Reversed, since the last is taken first.
                Ok(parts) => {
                    if is_known {
                        self.left_out.retain(|digest| *digest != next.digest);
                    }
                    waiting.extend(parts.into_iter().rev());
                }
                Err(error) if next.optional && error.is_absence() => {
                    // A part of it may be in the store; clients get all of it, or nothing.
                    self.manifests.truncate(so_far.0);
                    let blobs = self.blobs.drain(so_far.1..);
                    for blob in blobs {
                        self.seen.remove(&blob.digest);
                    }
                    self.pins.truncate(so_far.2);
                    self.left_out.push(next.digest);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds one manifest, and the blobs of an image. Returns the parts of an index.
    async fn add_one(&mut self, next: &Waiting, attached: bool) -> Result<Vec<Waiting>, PassError> {
        let digest = next.digest;
        let bytes = self
            .origin
            .manifest(&self.store, &digest, &mut self.pins)
            .await?;
        let manifest = self.origin.parse(&digest, &bytes)?;
        self.count(bytes.len() as u64)?;
        self.manifests.push(ImageManifest {
            digest,
            media_type: media_type(&manifest, &bytes),
            size: bytes.len() as u64,
            referrer: Attachment::from_manifest(&bytes).map(|attachment| Referrer {
                subject: attachment.subject,
                artifact_type: attachment.artifact_type,
                annotations: attachment.annotations,
            }),
            attached,
        });
        match manifest {
            Manifest::Index(index) if next.depth < MAX_DEPTH => {
                let parts = index.entries.iter().map(|entry| Waiting {
                    digest: entry.descriptor.digest,
                    depth: next.depth + 1,
                    optional: next.optional || entry.is_attestation(),
                });
                Ok(parts.collect())
            }
            Manifest::Index(_) => {
                let error = PassError::at::<Cause>(Stage::Pull);
                Err(error(Cause::LayoutDocument {
                    digest,
                    source: ManifestError::Nested,
                }))
            }
            Manifest::Image(image) => {
                if let Some(route) = self.unsigned {
                    let admitted = route.admit(&digest, None).await;
                    admitted
                        .map_err(|error| of_part(error, digest))
                        .map_err(PassError::at(Stage::Pull))?;
                }
                let mut parts = vec![image.config];
                parts.extend(image.layers);
                parts.retain(|part| !self.seen.contains(&part.digest));
                pull_progress::expect(&self.store, &parts).await?;
                for part in &parts {
                    self.add_blob(part).await?;
                }
                Ok(Vec::new())
            }
        }
    }

    async fn add_blob(&mut self, descriptor: &Descriptor) -> Result<(), PassError> {
        let Descriptor { digest, size, .. } = *descriptor;
        if !self.seen.insert(digest) {
            return Ok(());
        }
        self.count(size)?;
        self.pins.push(self.store.pin(digest));
        if let Err(error) = self.origin.blob(&self.store, descriptor).await {
            // Whatever else refers to it lacks it too.
            self.seen.remove(&digest);
            self.left = self.left.saturating_add(size);
            return Err(error);
        }
        self.blobs.push(ImageBlob { digest, size });
        Ok(())
    }

    fn count(&mut self, size: u64) -> Result<(), PassError> {
        if self.seen.len() > Image::MAX_PARTS {
            let limit = Image::MAX_PARTS;
            let error = MirrorError::TooMany { limit };
            return Err(PassError::at(Stage::Pull)(error));
        }
        self.left = self
            .left
            .checked_sub(size)
            .ok_or(MirrorError::TooLarge {
                times: Image::IMAGES,
            })
            .map_err(PassError::at(Stage::Pull))?;
        Ok(())
    }

    /// The manifests that are attached to one, each with its tag if it has one.
    async fn attached_to(&self, subject: &Digest) -> Result<Vec<(Option<String>, Digest)>, Cause> {
        let mut found = Vec::new();
        match self.origin {
            Origin::Registry(route) => {
                let referrers = route.referrers(subject).await?;
                found.extend(referrers.into_iter().map(|digest| (None, digest)));
                for tag in cosign_tags(subject) {
                    for digest in route.tagged(&tag).await? {
                        found.push((Some(tag.clone()), digest));
                    }
                }
            }
            Origin::Layout(layout) => {
                for tag in cosign_tags(subject) {
                    match layout.resolve(Some(&Choice::Name(tag.clone()))) {
                        Ok(descriptor) => found.push((Some(tag), descriptor.digest)),
                        Err(LayoutError::NoTag { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Names one image of an index in a refusal.
fn of_part(error: Error, digest: Digest) -> Error {
    match error {
        Error::Rejected { reference, source } => Error::Rejected {
            reference: reference.with_digest(digest),
            source,
        },
        other => other,
    }
}

/// The media type that a manifest states, or else the one of its form.
fn media_type(manifest: &Manifest, bytes: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Document {
        #[serde(default)]
        media_type: Option<String>,
    }
    let said = serde_json::from_slice::<Document>(bytes).ok();
    let known = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
    let said = said.and_then(|document| document.media_type);
    match said.filter(|kind| known.contains(&kind.as_str())) {
        Some(kind) => kind,
        None if matches!(manifest, Manifest::Index(_)) => OCI_INDEX.into(),
        None => OCI_MANIFEST.into(),
    }
}
