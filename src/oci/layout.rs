//! OCI layout folders (OCI image specification, image-layout): the same
//! manifests and blobs, without a registry.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use crate::digest::Digest;
use crate::oci::manifest::{Descriptor, Index, IndexEntry, MAX_DOCUMENT, Manifest, ManifestError};
use crate::oci::verify::VerifiedReader;

const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The most tags an error lists, and how much of each, in characters.
const MAX_LISTED: usize = 50;
const MAX_SHOWN: usize = 200;

/// An OCI layout folder. Blobs are found by digest alone, so nothing in the
/// folder's documents can lead out of it.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
    index: Index,
}

/// Why something could not be had from a layout folder.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
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
    /// No manifest with this tag.
    #[error("{folder} has no manifest with the tag {tag:?}; there are: {available}")]
    NoTag {
        /// The layout folder.
        folder: PathBuf,
        /// The tag that was asked for.
        tag: String,
        /// The tags there are, separated by commas.
        available: String,
    },
    /// Several manifests with this tag.
    #[error("{folder} has several manifests with the tag {tag:?}")]
    SeveralWithTag {
        /// The layout folder.
        folder: PathBuf,
        /// The tag that was asked for.
        tag: String,
    },
    /// No tag was asked for, and there is not exactly one manifest.
    #[error("{folder} has {count} manifests, so a tag has to be named; there are: {available}")]
    NotOne {
        /// The layout folder.
        folder: PathBuf,
        /// How many manifests there are.
        count: usize,
        /// The tags there are, separated by commas.
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
    /// Opens a layout folder: reads `oci-layout` and `index.json`.
    pub fn open(folder: &Path) -> Result<Self, LayoutError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Marker {
            image_layout_version: String,
        }
        let path = folder.join("oci-layout");
        let marker: Option<Marker> = serde_json::from_slice(&read_document(&path)?).ok();
        if !marker.is_some_and(|marker| marker.image_layout_version.starts_with("1.")) {
            return Err(LayoutError::Version { path });
        }
        let path = folder.join("index.json");
        let index = match Manifest::parse(&read_document(&path)?, None) {
            Ok(Manifest::Index(index)) => index,
            Ok(Manifest::Image(_)) => {
                let source = ManifestError::Shape;
                return Err(LayoutError::Index { path, source });
            }
            Err(source) => return Err(LayoutError::Index { path, source }),
        };
        Ok(Self {
            folder: folder.into(),
            index,
        })
    }

    /// The manifest (or index) with a tag: by the annotation
    /// `org.opencontainers.image.ref.name`, which is the tag or a reference
    /// that ends in it, or by `io.containerd.image.name`. Without a tag the
    /// only manifest there is.
    pub fn resolve(&self, tag: Option<&str>) -> Result<Descriptor, LayoutError> {
        let found = self
            .images()
            .filter(|entry| tag.is_none_or(|tag| has_tag(entry, tag)))
            .map(|entry| &entry.descriptor)
            .collect::<Vec<_>>();
        let folder = self.folder.clone();
        match (found.as_slice(), tag) {
            // The same manifest may be listed under several names.
            ([first, others @ ..], _) if others.iter().all(|d| d.digest == first.digest) => {
                Ok((*first).clone())
            }
            (_, None) => Err(LayoutError::NotOne {
                folder,
                count: found.len(),
                available: self.tags(),
            }),
            ([], Some(tag)) => Err(LayoutError::NoTag {
                folder,
                tag: cut(tag),
                available: self.tags(),
            }),
            (_, Some(tag)) => Err(LayoutError::SeveralWithTag {
                folder,
                tag: cut(tag),
            }),
        }
    }

    /// Where the blob with this digest lies, if it is there.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs").join("sha256").join(digest.hex())
    }

    /// A manifest, verified, of at most 4 MiB.
    pub fn manifest(&self, digest: &Digest) -> Result<Bytes, LayoutError> {
        let path = self.blob_path(digest);
        let bytes = read_document(&path)?;
        let actual = Digest::of(&bytes);
        if actual != *digest {
            return Err(LayoutError::Digest { path, actual });
        }
        Ok(bytes.into())
    }

    /// A blob of the size that the descriptor says. What is in it is not
    /// verified; [`Layout::read_blob`] does that.
    pub fn open_blob(&self, descriptor: &Descriptor) -> Result<File, LayoutError> {
        let path = self.blob_path(&descriptor.digest);
        let (file, actual) = open_file(&path)?;
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
    pub fn read_blob(&self, descriptor: &Descriptor) -> Result<VerifiedReader<File>, LayoutError> {
        let file = self.open_blob(descriptor)?;
        Ok(VerifiedReader::new(file, descriptor))
    }

    fn images(&self) -> impl Iterator<Item = &IndexEntry> {
        self.index
            .entries
            .iter()
            .filter(|entry| !entry.is_attestation())
    }

    fn tags(&self) -> String {
        let tags = self
            .images()
            .flat_map(names)
            .take(MAX_LISTED)
            .map(cut)
            .collect::<Vec<_>>();
        if tags.is_empty() {
            "none".into()
        } else {
            tags.join(", ")
        }
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

fn read_document(path: &Path) -> Result<Vec<u8>, LayoutError> {
    let (file, size) = open_file(path)?;
    let too_large = |size| LayoutError::TooLarge {
        path: path.into(),
        size,
    };
    if size > MAX_DOCUMENT as u64 {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    let limit = MAX_DOCUMENT as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|source| LayoutError::Read {
            path: path.into(),
            source,
        })?;
    if bytes.len() > MAX_DOCUMENT {
        return Err(too_large(bytes.len() as u64));
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
        let layout = Layout::open(folder.path()).unwrap();
        let resolved = layout.resolve(tag);
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
                error.contains("v1, quay.io/a/b:v2, quay.io/a/b:v3"),
                "{error}"
            );
        }
        let error = resolve(&entries, None).unwrap_err();
        assert!(error.contains("3 manifests"), "{error}");
        assert!(error.contains("v1"), "{error}");
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
        let layout = Layout::open(folder.path()).unwrap();
        let descriptor = |content: &[u8], size| Descriptor {
            media_type: String::new(),
            digest: Digest::of(content),
            size,
        };
        let good = descriptor(b"good", 4);
        std::fs::write(layout.blob_path(&good.digest), "good").unwrap();
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
        std::fs::write(layout.blob_path(&bad.digest), "evil").unwrap();
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
        std::fs::create_dir(layout.blob_path(&missing.digest)).unwrap();
        assert!(matches!(
            layout.open_blob(&missing),
            Err(LayoutError::NoFile { .. })
        ));
    }

    #[test]
    fn a_folder_that_is_no_layout_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let error = Layout::open(empty.path()).unwrap_err().to_string();
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
            let error = Layout::open(folder.path()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_document_that_is_too_large_is_not_read() {
        let folder = folder(&json!({"manifests": []}));
        let file = File::create(folder.path().join("index.json")).unwrap();
        file.set_len(MAX_DOCUMENT as u64 + 1).unwrap();
        assert!(matches!(
            Layout::open(folder.path()),
            Err(LayoutError::TooLarge { .. })
        ));
    }
}
