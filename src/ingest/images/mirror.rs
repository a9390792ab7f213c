//! All that a source's registry has of an image: every platform, and what is
//! attached to them.

use std::collections::{BTreeMap, HashSet};

use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::pass::{Followed, Workshop, open_layout};
use crate::ingest::pull::Origin;
use crate::ingest::source::Source;
use crate::snapshot::Snapshot;
use crate::store::{
    BlobPin, Image, ImageBlob, ImageKind, ImageManifest, ImageOrigin, Referrer, Store,
};
use ::images::digest::Digest;
use ::images::manifest::{DOCKER_LIST, DOCKER_MANIFEST, Manifest, OCI_INDEX, OCI_MANIFEST};
use ::images::{
    Attachment, Choice, Descriptor, Error, LayoutError, ManifestError, Route, cosign_tags,
};

/// The most manifests and blobs of an image with all that belongs to it.
const MAX_PARTS: usize = 10_000;
/// How deep indexes may lie in each other, as other mirrors have it.
const MAX_DEPTH: usize = 5;
/// The size of all of it, as so many times the limit for one image.
const IMAGES: u64 = 16;

/// Brings all parts of the image that a snapshot was made from into the store,
/// and says what it is.
pub(super) async fn pull(
    workshop: &Workshop,
    followed: &Followed,
    snapshot: &Snapshot,
) -> Result<(Image, Vec<BlobPin>), PassError> {
    let failed = PassError::at::<Cause>(Stage::Pull);
    let route: Route;
    let (origin, tag) = match &followed.source {
        Source::Image(reference) => {
            let found = workshop.registries.route(reference).await;
            route = found.map_err(|error| failed(error.into()))?;
            (Origin::Registry(&route), reference.tag())
        }
        Source::Layout(layout) => (open_layout(layout).await?, layout.tag()),
        Source::File(_) | Source::Curated(_) => {
            let problem = "only an image can be mirrored whole";
            return Err(failed(std::io::Error::other(problem).into()));
        }
    };
    let digest = snapshot.revision().digest;
    let mut walk = Walk {
        origin: &origin,
        store: &workshop.store,
        unsigned: None,
        left: workshop.limits.bytes.saturating_mul(IMAGES),
        seen: HashSet::new(),
        manifests: Vec::new(),
        blobs: Vec::new(),
        pins: Vec::new(),
    };
    if let Origin::Registry(route) = &origin
        && route.admit(&digest, None).await.is_err()
    {
        // A list may be signed as a whole or in its parts.
        walk.unsigned = Some(route);
    }
    walk.add(digest, false).await?;
    walk.unsigned = None;
    let subjects: Vec<Digest> = walk.manifests.iter().map(|found| found.digest).collect();
    let mut tags = BTreeMap::new();
    for subject in subjects {
        for (tag, attached) in walk.attached_to(&subject).await? {
            walk.add(attached, true).await?;
            if let Some(tag) = tag {
                tags.insert(tag, attached);
            }
        }
    }
    let Walk {
        manifests,
        blobs,
        pins,
        ..
    } = walk;
    let mut upstream = tags.clone();
    tags.insert(crate::ingest::images::LATEST.into(), digest);
    if let Some(tag) = tag.filter(|tag| ::images::reference::is_tag(tag)) {
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
        manifests,
        blobs,
    };
    Ok((image, pins))
}

/// What was found so far, all of it in the store and pinned.
struct Walk<'a> {
    origin: &'a Origin<'a>,
    store: &'a Store,
    /// Who has to be asked for the signature of each image, when the policy
    /// wants one and the whole has none.
    unsigned: Option<&'a Route>,
    /// How many bytes more may come.
    left: u64,
    seen: HashSet<Digest>,
    manifests: Vec<ImageManifest>,
    blobs: Vec<ImageBlob>,
    pins: Vec<BlobPin>,
}

impl Walk<'_> {
    /// Adds a manifest and all that it names.
    async fn add(&mut self, digest: Digest, attached: bool) -> Result<(), PassError> {
        let mut waiting = vec![(digest, 0)];
        while let Some((digest, depth)) = waiting.pop() {
            if !self.seen.insert(digest) {
                continue;
            }
            let bytes = self
                .origin
                .manifest(self.store.contents(), &digest, &mut self.pins)
                .await?;
            let manifest = self.origin.parse(&digest, &bytes)?;
            self.count(bytes.len() as u64)?;
            self.manifests.push(ImageManifest {
                digest,
                media_type: media_type(&manifest, &bytes),
                size: bytes.len() as u64,
                referrer: Attachment::of(&bytes).map(|attachment| Referrer {
                    subject: attachment.subject,
                    artifact_type: attachment.artifact_type,
                    annotations: attachment.annotations,
                }),
                attached,
            });
            match manifest {
                Manifest::Index(index) if depth < MAX_DEPTH => {
                    // The last is taken first: the order stays the index's.
                    let entries = index.entries.iter().rev();
                    waiting.extend(entries.map(|entry| (entry.descriptor.digest, depth + 1)));
                }
                Manifest::Index(_) => {
                    let error = PassError::at::<Cause>(Stage::Pull);
                    return Err(error(Cause::LayoutDocument {
                        digest,
                        source: ManifestError::Nested,
                    }));
                }
                Manifest::Image(image) => {
                    if let Some(route) = self.unsigned {
                        let admitted = route.admit(&digest, None).await;
                        admitted
                            .map_err(|error| of_part(error, digest))
                            .map_err(PassError::at(Stage::Pull))?;
                    }
                    for part in [image.config].iter().chain(&image.layers) {
                        self.add_blob(part).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn add_blob(&mut self, descriptor: &Descriptor) -> Result<(), PassError> {
        if !self.seen.insert(descriptor.digest) {
            return Ok(());
        }
        self.count(descriptor.size)?;
        self.pins.push(self.store.contents().pin(descriptor.digest));
        self.origin.blob(self.store.contents(), descriptor).await?;
        self.blobs.push(ImageBlob {
            digest: descriptor.digest,
            size: descriptor.size,
        });
        Ok(())
    }

    fn count(&mut self, size: u64) -> Result<(), PassError> {
        let too_much = |what: String| {
            let error = PassError::at::<Cause>(Stage::Pull);
            error(std::io::Error::other(what).into())
        };
        if self.seen.len() > MAX_PARTS {
            return Err(too_much(format!(
                "the image and what is attached to it have more than {MAX_PARTS} parts"
            )));
        }
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            too_much(format!(
                "the image and what is attached to it are larger than {IMAGES} times limits.bytes"
            ))
        })?;
        Ok(())
    }

    /// The manifests that are attached to one, each with its tag if it is known
    /// by one.
    async fn attached_to(
        &self,
        subject: &Digest,
    ) -> Result<Vec<(Option<String>, Digest)>, PassError> {
        let failed = PassError::at::<Cause>(Stage::Pull);
        let mut found = Vec::new();
        match self.origin {
            Origin::Registry(route) => {
                let referrers = route.referrers(subject).await;
                let referrers = referrers.map_err(|error| failed(error.into()))?;
                found.extend(referrers.into_iter().map(|digest| (None, digest)));
                for tag in cosign_tags(subject) {
                    let digests = route.tagged(&tag).await;
                    for digest in digests.map_err(|error| failed(error.into()))? {
                        found.push((Some(tag.clone()), digest));
                    }
                }
            }
            Origin::Layout(layout) => {
                for tag in cosign_tags(subject) {
                    match layout.resolve(Some(&Choice::Name(tag.clone()))) {
                        Ok(descriptor) => found.push((Some(tag), descriptor.digest)),
                        Err(LayoutError::NoTag { .. }) => {}
                        Err(error) => return Err(failed(error.into())),
                    }
                }
            }
        }
        Ok(found)
    }
}

/// A refusal of an image as one of the image in a list.
fn of_part(error: Error, digest: Digest) -> Error {
    match error {
        Error::Rejected { reference, source } => Error::Rejected {
            reference: reference.with_digest(digest),
            source,
        },
        other => other,
    }
}

/// What a manifest says that it is, else what its shape says.
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
