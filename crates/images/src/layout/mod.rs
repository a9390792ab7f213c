//! OCI layouts (OCI image specification, image-layout): the same manifests and
//! blobs, without a registry, in a folder or in a tar archive. What
//! `docker save` writes is read as if it were one too.

mod archive;
mod docker_archive;

pub use archive::ArchiveError;
pub use docker_archive::DockerError;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use crate::digest::Digest;
use crate::layout::archive::Archive;
use crate::layout::docker_archive::DockerImages;
use crate::manifest::{Descriptor, Index, IndexEntry, MAX_DOCUMENT, Manifest, ManifestError};
use crate::verify::VerifiedReader;

const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The most tags an error lists, and how much of each, in characters.
const MAX_LISTED: usize = 50;
const MAX_SHOWN: usize = 200;

/// How a layout lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder.
    Folder,
    /// A tar archive of such a folder.
    Archive,
    /// A tar archive that `docker save` wrote.
    DockerArchive,
}

/// Which image of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one with a tag, or a reference that ends in it.
    Name(String),
    /// The one with a digest.
    Digest(Digest),
}

/// Written as behind the path in a source: `:TAG` or `@DIGEST`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ":{name}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

/// An OCI layout. Blobs are found by digest alone, or by a name in the
/// archive, so nothing in the layout's documents can lead out of it.
#[derive(Clone, Debug)]
pub struct Layout {
    place: Place,
    index: Index,
}

#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    Archive(Archive),
    Docker(Archive, DockerImages),
}

/// Why something could not be had from a layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The archive that it lies in.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An archive that is none of `docker save`.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// A file that is missing or cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else than a file where a file is expected.
    #[error("{path} is no file")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder that is no layout, or one of another version.
    #[error("{path} does not say that this is an OCI layout of version 1.x")]
    Version {
        /// The `oci-layout` file.
        path: PathBuf,
    },
    /// A document of more than 4 MiB.
    #[error("{path} has {size} bytes; the limit is {MAX_DOCUMENT}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// An `index.json` that is none.
    #[error("{path} refused")]
    Index {
        /// The `index.json`.
        path: PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// No manifest with this tag or digest.
    #[error("{} has no image {choice:?}; there are: {available}", folder.display())]
    NoTag {
        /// The layout.
        folder: PathBuf,
        /// What was asked for.
        choice: String,
        /// What there is, separated by commas.
        available: String,
    },
    /// Several manifests with this tag.
    #[error(
        "{} has several images with the tag {tag:?}: name one as a whole, or by its digest; \
         there are: {available}",
        folder.display()
    )]
    SeveralWithTag {
        /// The layout.
        folder: PathBuf,
        /// The tag that was asked for.
        tag: String,
        /// What there is, separated by commas.
        available: String,
    },
    /// No tag was asked for, and there is not exactly one manifest.
    #[error(
        "{} has {count} images, so a tag or digest has to be named; there are: {available}",
        folder.display()
    )]
    NotOne {
        /// The layout.
        folder: PathBuf,
        /// How many manifests there are.
        count: usize,
        /// What there is, separated by commas.
        available: String,
    },
    /// A blob of another size than its descriptor says.
    #[error("{path} has {actual} bytes; its descriptor says {expected}")]
    Size {
        /// The file.
        path: PathBuf,
        /// The size in the descriptor, in bytes.
        expected: u64,
        /// The size of the file, in bytes.
        actual: u64,
    },
    /// A manifest whose bytes are others than its digest says.
    #[error("{path} has the digest {actual}")]
    Digest {
        /// The file.
        path: PathBuf,
        /// The digest of what is in it.
        actual: Digest,
    },
}

impl Layout {
    /// Opens a layout: reads `oci-layout` and `index.json`, or `manifest.json`
    /// of an archive that `docker save` wrote.
    pub fn open(format: Format, path: &Path) -> Result<Self, LayoutError> {
        let place = match format {
            Format::Folder => Place::Folder(path.into()),
            Format::Archive => Place::Archive(Archive::open(path)?),
            Format::DockerArchive => {
                let archive = Archive::open(path)?;
                let (images, index) = DockerImages::read(&archive, REFERENCE_NAME)?;
                let place = Place::Docker(archive, images);
                return Ok(Self { place, index });
            }
        };
        let index = place.index()?;
        Ok(Self { place, index })
    }

    /// The manifest (or index) that is chosen: by its digest, or by the
    /// annotation `org.opencontainers.image.ref.name`, which is the tag or a
    /// reference that ends in it, or by `io.containerd.image.name`. Without a
    /// choice the only manifest there is.
    pub fn resolve(&self, choice: Option<&Choice>) -> Result<Descriptor, LayoutError> {
        let chosen = |entry: &&IndexEntry| match choice {
            None => true,
            Some(Choice::Digest(digest)) => entry.descriptor.digest == *digest,
            Some(Choice::Name(tag)) => has_tag(entry, tag),
        };
        let mut found: Vec<_> = self.images().filter(chosen).collect();
        // What is called so as a whole is meant before what only ends so.
        if let Some(Choice::Name(tag)) = choice
            && found
                .iter()
                .any(|entry| names(entry).any(|name| name == tag))
        {
            found.retain(|entry| names(entry).any(|name| name == tag));
        }
        let folder = self.place.path().to_owned();
        let available = self.available();
        match (found.as_slice(), choice) {
            // The same manifest may be listed under several names.
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
        if let Place::Docker(_, images) = &self.place
            && let Some(bytes) = images.manifests.get(digest)
        {
            return Ok(bytes.clone());
        }
        let (path, file, size) = self.place.blob(digest)?;
        let bytes = read_document(path.clone(), file, size)?;
        let actual = Digest::of(&bytes);
        if actual != *digest {
            return Err(LayoutError::Digest { path, actual });
        }
        Ok(bytes.into())
    }

    /// A blob of the size that the descriptor says. What is in it is not
    /// verified; [`Layout::read_blob`] does that.
    fn open_blob(&self, descriptor: &Descriptor) -> Result<Take<File>, LayoutError> {
        let (path, file, actual) = self.place.blob(&descriptor.digest)?;
        if actual != descriptor.size {
            return Err(LayoutError::Size {
                path,
                expected: descriptor.size,
                actual,
            });
        }
        Ok(file)
    }

    /// A reader of a blob that reports the end only when size and digest hold.
    pub fn read_blob(
        &self,
        descriptor: &Descriptor,
    ) -> Result<VerifiedReader<Take<File>>, LayoutError> {
        let file = self.open_blob(descriptor)?;
        Ok(VerifiedReader::new(file, descriptor))
    }

    fn images(&self) -> impl Iterator<Item = &IndexEntry> {
        self.index
            .entries
            .iter()
            .filter(|entry| !entry.is_attestation())
    }

    /// What there is to choose from.
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

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Archive(archive) | Self::Docker(archive, _) => archive.path(),
        }
    }

    fn index(&self) -> Result<Index, LayoutError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Marker {
            image_layout_version: String,
        }
        let (path, file, size) = self.file("oci-layout")?;
        let marker = read_document(path.clone(), file, size)?;
        let marker: Option<Marker> = serde_json::from_slice(&marker).ok();
        if !marker.is_some_and(|marker| marker.image_layout_version.starts_with("1.")) {
            return Err(LayoutError::Version { path });
        }
        let (path, file, size) = self.file("index.json")?;
        let index = read_document(path.clone(), file, size)?;
        match Manifest::parse(&index, None) {
            Ok(Manifest::Index(index)) => Ok(index),
            Ok(Manifest::Image(_)) => {
                let source = ManifestError::Shape;
                Err(LayoutError::Index { path, source })
            }
            Err(source) => Err(LayoutError::Index { path, source }),
        }
    }

    /// The file with a blob, what to call it, and its size.
    fn blob(&self, digest: &Digest) -> Result<(PathBuf, Take<File>, u64), LayoutError> {
        if let Self::Docker(archive, images) = self {
            let unknown = || ArchiveError::Missing {
                path: archive.path().into(),
                name: digest.to_string(),
            };
            let name = images.blobs.get(digest).ok_or_else(unknown)?;
            return self.file(name);
        }
        self.file(&format!("blobs/sha256/{}", digest.hex()))
    }

    fn file(&self, name: &str) -> Result<(PathBuf, Take<File>, u64), LayoutError> {
        let path = self.path().join(name);
        let (file, size) = match self {
            Self::Folder(_) => {
                let (file, size) = open_file(&path)?;
                (file.take(size), size)
            }
            Self::Archive(archive) | Self::Docker(archive, _) => archive.file(name)?,
        };
        Ok((path, file, size))
    }
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
        name == tag || ends_in_tag()
    })
}

/// Opens a regular file and tells its size. Whatever else lies there is not
/// opened at all: a named pipe would make that wait for ever.
fn open_file(path: &Path) -> Result<(File, u64), LayoutError> {
    let read = |source| LayoutError::Read {
        path: path.into(),
        source,
    };
    if !std::fs::metadata(path).map_err(read)?.is_file() {
        return Err(LayoutError::NoFile { path: path.into() });
    }
    let file = File::open(path).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    Ok((file, size))
}

fn read_document(path: PathBuf, file: impl Read, size: u64) -> Result<Vec<u8>, LayoutError> {
    if size > MAX_DOCUMENT as u64 {
        return Err(LayoutError::TooLarge { path, size });
    }
    let mut bytes = Vec::new();
    if let Err(source) = file.take(MAX_DOCUMENT as u64).read_to_end(&mut bytes) {
        return Err(LayoutError::Read { path, source });
    }
    Ok(bytes)
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn folder(index: &Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        write("index.json", &index.to_string()).unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        folder
    }

    fn blob_path(folder: &tempfile::TempDir, digest: &Digest) -> PathBuf {
        folder.path().join("blobs/sha256").join(digest.hex())
    }

    fn entry(content: &str, annotations: &[(&str, &str)]) -> Value {
        let annotations: Value = annotations
            .iter()
            .map(|(k, v)| ((*k).to_owned(), json!(v)))
            .collect();
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": Digest::of(content.as_bytes()).to_string(),
            "size": content.len(),
            "annotations": annotations,
        })
    }

    fn resolve(entries: &[Value], tag: Option<&str>) -> Result<Digest, String> {
        let folder = folder(&json!({"schemaVersion": 2, "manifests": entries}));
        let layout = Layout::open(Format::Folder, folder.path()).unwrap();
        let choice = tag.map(|tag| Choice::Name(tag.to_owned()));
        let resolved = layout.resolve(choice.as_ref());
        resolved
            .map(|d| d.digest)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_tag_is_found_in_each_place_it_may_be() {
        let entries = [
            entry("one", &[(REFERENCE_NAME, "v1")]),
            entry("two", &[(REFERENCE_NAME, "quay.io/a/b:v2")]),
            entry("three", &[(CONTAINERD_NAME, "quay.io/a/b:v3")]),
        ];
        assert_eq!(resolve(&entries, Some("v1")), Ok(Digest::of(b"one")));
        assert_eq!(resolve(&entries, Some("v2")), Ok(Digest::of(b"two")));
        assert_eq!(
            resolve(&entries, Some("quay.io/a/b:v2")),
            Ok(Digest::of(b"two"))
        );
        assert_eq!(resolve(&entries, Some("v3")), Ok(Digest::of(b"three")));
        for missing in ["2", "", "b:v2x"] {
            let error = resolve(&entries, Some(missing)).unwrap_err();
            assert!(
                ["v1 (sha256:", "quay.io/a/b:v2 (", "b:v3 ("]
                    .iter()
                    .all(|t| error.contains(t)),
                "{error}"
            );
        }
        let error = resolve(&entries, None).unwrap_err();
        assert!(error.contains("3 images"), "{error}");
        assert!(error.contains("v1"), "{error}");
    }

    #[test]
    fn an_image_is_chosen_by_its_digest_or_its_whole_name() {
        let entries = [
            entry("one", &[(REFERENCE_NAME, "quay.io/a/b:v1")]),
            entry("two", &[(REFERENCE_NAME, "quay.io/c/d:v1")]),
            entry("three", &[]),
        ];
        let error = resolve(&entries, Some("v1")).unwrap_err();
        assert!(error.contains("several"), "{error}");
        let whole = resolve(&entries, Some("quay.io/c/d:v1"));
        assert_eq!(whole, Ok(Digest::of(b"two")));
        let folder = folder(&json!({"schemaVersion": 2, "manifests": entries}));
        let layout = Layout::open(Format::Folder, folder.path()).unwrap();
        let digest = |content: &[u8]| Choice::Digest(Digest::of(content));
        let found = layout.resolve(Some(&digest(b"three"))).unwrap();
        assert_eq!(found.digest, Digest::of(b"three"));
        let error = layout
            .resolve(Some(&digest(b"four")))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&Digest::of(b"three").to_string()), "{error}");
    }

    #[test]
    fn the_only_manifest_needs_no_tag() {
        assert_eq!(resolve(&[entry("one", &[])], None), Ok(Digest::of(b"one")));
        assert!(resolve(&[], None).unwrap_err().contains("none"));
    }

    #[test]
    fn a_tag_of_two_manifests_is_refused() {
        let entries = |second| {
            [
                entry("one", &[(REFERENCE_NAME, "v1")]),
                entry(second, &[(REFERENCE_NAME, "v1")]),
            ]
        };
        assert!(
            resolve(&entries("two"), Some("v1"))
                .unwrap_err()
                .contains("several")
        );
        assert_eq!(resolve(&entries("one"), Some("v1")), Ok(Digest::of(b"one")));
    }

    #[test]
    fn blobs_are_verified() {
        let folder = folder(&json!({"manifests": []}));
        let layout = Layout::open(Format::Folder, folder.path()).unwrap();
        let descriptor = |content: &[u8], size| Descriptor {
            media_type: String::new(),
            digest: Digest::of(content),
            size,
        };
        let good = descriptor(b"good", 4);
        std::fs::write(blob_path(&folder, &good.digest), "good").unwrap();
        assert_eq!(layout.manifest(&good.digest).unwrap(), "good");
        let mut text = String::new();
        layout
            .read_blob(&good)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "good");
        let longer = layout.open_blob(&descriptor(b"good", 5));
        assert!(matches!(longer, Err(LayoutError::Size { actual: 4, .. })));

        let bad = descriptor(b"bad?", 4);
        std::fs::write(blob_path(&folder, &bad.digest), "evil").unwrap();
        assert!(matches!(
            layout.manifest(&bad.digest),
            Err(LayoutError::Digest { .. })
        ));
        assert!(
            layout
                .read_blob(&bad)
                .unwrap()
                .read_to_end(&mut Vec::new())
                .is_err()
        );

        let missing = descriptor(b"missing", 7);
        assert!(matches!(
            layout.open_blob(&missing),
            Err(LayoutError::Read { .. })
        ));
        std::fs::create_dir(blob_path(&folder, &missing.digest)).unwrap();
        assert!(matches!(
            layout.open_blob(&missing),
            Err(LayoutError::NoFile { .. })
        ));
    }

    #[test]
    fn a_folder_that_is_no_layout_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let error = Layout::open(Format::Folder, empty.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("oci-layout"), "{error}");
        let folder = folder(&json!({"manifests": []}));
        for (name, text) in [
            ("index.json", "[]"),
            (
                "index.json",
                r#"{"manifests":[{"digest":"sha256:../../x","size":1}]}"#,
            ),
            ("oci-layout", r#"{"imageLayoutVersion":"2.0.0"}"#),
            ("oci-layout", "{}"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let error = Layout::open(Format::Folder, folder.path()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_document_that_is_too_large_is_not_read() {
        let folder = folder(&json!({"manifests": []}));
        let file = File::create(folder.path().join("index.json")).unwrap();
        file.set_len(MAX_DOCUMENT as u64 + 1).unwrap();
        assert!(matches!(
            Layout::open(Format::Folder, folder.path()),
            Err(LayoutError::TooLarge { .. })
        ));
    }
}
