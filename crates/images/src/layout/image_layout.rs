//! Choosing and reading the images of a layout.

use std::fmt;
use std::fs::File;
use std::io::Take;
use std::path::Path;

use bytes::Bytes;

use crate::digest::Digest;
use crate::layout::docker_archive::{self, DockerImages};
use crate::layout::error::LayoutError;
use crate::layout::files::read_document;
use crate::layout::storage::{self, LayoutStorage};
use crate::layout::tar_files::TarFiles;
use crate::manifest::{Descriptor, Index, IndexEntry, REFERENCE_NAME, cut};
use crate::reference::{Reference, ReferenceError};
use crate::verify::VerifiedReader;

/// The annotation with the reference of an image, as containerd writes it.
pub(super) const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// The most images that an error lists.
const MAX_LISTED: usize = 50;

/// The format of a layout on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder.
    Folder,
    /// A tar archive of a layout folder.
    Archive,
    /// A tar archive of `docker save`.
    DockerArchive,
}

/// The choice of an image in a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The image with this tag, or with a reference that ends in it. A name without a
    /// registry is one of Docker Hub, as Docker reads it.
    Name(String),
    /// The image with this digest.
    Digest(Digest),
}

/// `:TAG` or `@DIGEST`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ":{name}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

/// An OCI layout. Blobs are found by digest, or by a name in the archive, so its
/// documents cannot lead to other files.
#[derive(Clone, Debug)]
pub struct Layout {
    storage: LayoutStorage,
    index: Index,
}

impl Layout {
    /// Opens a layout: reads `oci-layout` and `index.json`, or `manifest.json` of
    /// an archive of `docker save`.
    pub fn open(format: Format, path: &Path) -> Result<Self, LayoutError> {
        Self::read(format, path).map_err(|error| match error {
            LayoutError::Missing { .. } => other_format(format, path).unwrap_or(error),
            error => error,
        })
    }

    fn read(format: Format, path: &Path) -> Result<Self, LayoutError> {
        let storage = match format {
            Format::Folder => LayoutStorage::Folder(path.into()),
            Format::Archive => LayoutStorage::Archive(TarFiles::open(path)?),
            Format::DockerArchive => {
                let archive = TarFiles::open(path)?;
                let (images, index) = DockerImages::read(&archive, REFERENCE_NAME)?;
                let storage = LayoutStorage::Docker(archive, images);
                return Ok(Self { storage, index });
            }
        };
        let index = storage.index()?;
        Ok(Self { storage, index })
    }

    /// Finds the chosen manifest or index, by its digest or by its name. The
    /// name is in the annotation `org.opencontainers.image.ref.name` (a tag or a
    /// reference) or `io.containerd.image.name`. Without a choice there must be
    /// exactly one manifest.
    pub fn resolve(&self, choice: Option<&Choice>) -> Result<Descriptor, LayoutError> {
        let chosen = |entry: &&IndexEntry| match choice {
            None => true,
            Some(Choice::Digest(digest)) => entry.descriptor.digest == *digest,
            Some(Choice::Name(tag)) => has_tag(entry, tag),
        };
        let mut found: Vec<_> = self.images().filter(chosen).collect();
        // A full name takes precedence over the end of a name.
        if let Some(Choice::Name(tag)) = choice
            && found
                .iter()
                .any(|entry| names(entry).any(|name| name == tag))
        {
            found.retain(|entry| names(entry).any(|name| name == tag));
        }
        let folder = self.storage.path().to_owned();
        let available = self.available();
        match (found.as_slice(), choice) {
            // A manifest can be listed under several names.
            ([first, others @ ..], _)
                if others
                    .iter()
                    .all(|other| other.descriptor.digest == first.descriptor.digest) =>
            {
                Ok(first.descriptor.clone())
            }
            (_, None) => Err(LayoutError::NotOne {
                folder,
                count: found.len(),
                available,
            }),
            ([], Some(Choice::Digest(digest))) => Err(LayoutError::NoTag {
                folder,
                choice: digest.to_string(),
                available,
            }),
            ([], Some(Choice::Name(tag))) => Err(LayoutError::NoTag {
                folder,
                choice: cut(tag),
                available,
            }),
            (_, Some(choice)) => Err(LayoutError::SeveralWithTag {
                folder,
                tag: cut(choice.to_string().trim_start_matches([':', '@'])),
                available,
            }),
        }
    }

    /// A manifest, verified, of at most 4 MiB.
    pub fn manifest(&self, digest: &Digest) -> Result<Bytes, LayoutError> {
        if let LayoutStorage::Docker(_, images) = &self.storage
            && let Some(bytes) = images.manifests.get(digest)
        {
            return Ok(bytes.clone());
        }
        let (path, file, size) = self.storage.blob(digest)?;
        let bytes = read_document(path.clone(), file, size)?;
        let actual = Digest::of(&bytes);
        if actual != *digest {
            return Err(LayoutError::Digest { path, actual });
        }
        Ok(bytes.into())
    }

    /// A reader of a blob that reports the end only if size and digest match. The
    /// size of the file is checked here.
    pub fn read_blob(
        &self,
        descriptor: &Descriptor,
    ) -> Result<VerifiedReader<Take<File>>, LayoutError> {
        let (path, file, actual) = self.storage.blob(&descriptor.digest)?;
        if actual != descriptor.size {
            return Err(LayoutError::Size {
                path,
                expected: descriptor.size,
                actual,
            });
        }
        Ok(VerifiedReader::new(file, descriptor))
    }

    fn images(&self) -> impl Iterator<Item = &IndexEntry> {
        self.index
            .entries
            .iter()
            .filter(|entry| !entry.is_attestation())
    }

    /// The images to choose from, for messages.
    fn available(&self) -> String {
        let shown = |entry: &IndexEntry| {
            let digest = entry.descriptor.digest;
            match names(entry).next() {
                Some(name) => format!("{} ({digest})", cut(name)),
                None => digest.to_string(),
            }
        };
        let images: Vec<_> = self.images().take(MAX_LISTED).map(shown).collect();
        if images.is_empty() {
            "none".into()
        } else {
            images.join(", ")
        }
    }
}

/// The error for an archive that has the other format.
fn other_format(format: Format, path: &Path) -> Option<LayoutError> {
    let (mark, prefix) = match format {
        Format::Folder => return None,
        Format::Archive => (docker_archive::MANIFEST, "docker-archive"),
        Format::DockerArchive => (storage::MARKER, "oci-archive"),
    };
    TarFiles::open(path).ok()?.file(mark).ok()?;
    let path = path.to_owned();
    Some(LayoutError::OtherFormat { path, prefix })
}

fn names(entry: &IndexEntry) -> impl Iterator<Item = &str> {
    [REFERENCE_NAME, CONTAINERD_NAME]
        .into_iter()
        .filter_map(|key| entry.annotations.get(key))
        .map(String::as_str)
}

fn has_tag(entry: &IndexEntry, tag: &str) -> bool {
    names(entry).any(|name| {
        let ends_in_tag = || {
            name.strip_suffix(tag)
                .is_some_and(|rest| rest.ends_with(':'))
        };
        name == tag || ends_in_tag() || is_on_hub(name, tag)
    })
}

/// Whether two references are the same for Docker, and one of them has no registry.
fn is_on_hub(name: &str, wanted: &str) -> bool {
    let full = |text: &str| -> Option<Reference> {
        match text.parse() {
            Ok(reference) => Some(reference),
            Err(ReferenceError::NotQualified(_)) => format!("docker.io/{text}").parse().ok(),
            Err(_) => None,
        }
    };
    // A tag alone is none.
    let is_reference = wanted.contains(['/', ':']);
    is_reference && full(name).is_some_and(|name| Some(name) == full(wanted))
}
