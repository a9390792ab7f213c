//! Archives of `docker save`, with a `manifest.json` that names files of the
//! archive. Its images are read as if they were in an OCI layout: a manifest is
//! made for each, with the layer digests in its configuration.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;

use bytes::Bytes;
use serde::Deserialize;

use crate::digest::{Digest, Hasher};
use crate::document::{self, DocumentError};
use crate::layers::compression;
use crate::layout::error::LayoutError;
use crate::layout::files::read_document;
use crate::layout::tar_files::TarFiles;
use crate::manifest::{
    DOCKER_CONFIG, DOCKER_LAYER, DOCKER_MANIFEST, Descriptor, Index, IndexEntry, MAX_LAYERS, cut,
    null_as_default,
};

/// The file that lists the images.
pub(super) const MANIFEST: &str = "manifest.json";
/// The most images, and the most names of one.
const MAX_IMAGES: usize = 1000;

/// The files with the blobs of the images.
#[derive(Clone, Debug, Default)]
pub(super) struct DockerImages {
    /// The made manifests.
    pub(super) manifests: HashMap<Digest, Bytes>,
    /// The names of the files with blobs.
    pub(super) blobs: HashMap<Digest, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    repo_tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "null_as_default")]
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct SavedConfig {
    rootfs: Root,
}

#[derive(Deserialize)]
struct Root {
    #[serde(default, deserialize_with = "null_as_default")]
    diff_ids: Vec<Digest>,
}

impl DockerImages {
    /// Reads the images of an archive. `name_key` is the annotation for their
    /// names.
    pub(super) fn read(archive: &TarFiles, name_key: &str) -> Result<(Self, Index), LayoutError> {
        let bytes = document(archive, MANIFEST)?;
        let wrong = |name: &str, problem: String| LayoutError::Document {
            path: archive.path().join(cut(name)),
            problem,
        };
        let listed: Vec<SavedImage> =
            serde_json::from_slice(&bytes).map_err(|error| wrong(MANIFEST, error.to_string()))?;
        if listed.len() > MAX_IMAGES {
            return Err(wrong(MANIFEST, format!("more than {MAX_IMAGES} images")));
        }
        let mut images = Self::default();
        let mut entries = Vec::new();
        for image in listed {
            let config = document(archive, &image.config)?;
            let parsed: SavedConfig = serde_json::from_slice(&config)
                .map_err(|error| wrong(&image.config, error.to_string()))?;
            let ids = parsed.rootfs.diff_ids;
            if ids.len() != image.layers.len() || ids.len() > MAX_LAYERS {
                let problem = format!("{} layers with {} digests", image.layers.len(), ids.len());
                return Err(wrong(&image.config, problem));
            }
            let mut layers = Vec::with_capacity(ids.len());
            for (name, id) in image.layers.iter().zip(ids) {
                layers.push(images.layer(archive, name, id)?);
            }
            let config = Descriptor::new(DOCKER_CONFIG, &config);
            images.blobs.insert(config.digest, image.config);
            let descriptor = images
                .manifest(&config, &layers)
                .map_err(|error| wrong(MANIFEST, error.to_string()))?;
            // Images without names are saved with `null`.
            let mut names = image.repo_tags.unwrap_or_default();
            names.truncate(MAX_IMAGES);
            let mut add = |annotations| {
                entries.push(IndexEntry {
                    descriptor: descriptor.clone(),
                    platform: None,
                    annotations,
                });
            };
            if names.is_empty() {
                add(BTreeMap::new());
            }
            for name in names {
                add(BTreeMap::from([(name_key.to_owned(), name)]));
            }
        }
        Ok((images, Index { entries }))
    }

    /// The descriptor of a layer. The digest of an uncompressed one is in the
    /// configuration. A compressed one is read to compute its digest.
    fn layer(
        &mut self,
        archive: &TarFiles,
        name: &str,
        id: Digest,
    ) -> Result<Descriptor, LayoutError> {
        let read = |source| LayoutError::Read {
            path: archive.path().join(cut(name)),
            source,
        };
        let (mut file, size) = archive.file(name)?;
        let mut buffer = vec![0; 64 << 10];
        let mut length = file.read(&mut buffer).map_err(read)?;
        let digest = if compression(&buffer[..length]).is_some() {
            let mut hasher = Hasher::default();
            while length > 0 {
                hasher.update(&buffer[..length]);
                length = file.read(&mut buffer).map_err(read)?;
            }
            hasher.finish()
        } else {
            id
        };
        self.blobs.insert(digest, name.to_owned());
        Ok(Descriptor {
            media_type: DOCKER_LAYER.into(),
            digest,
            size,
        })
    }

    /// Makes the manifest of an image.
    fn manifest(
        &mut self,
        config: &Descriptor,
        layers: &[Descriptor],
    ) -> Result<Descriptor, DocumentError> {
        let bytes = Bytes::from(document::docker_manifest(config, layers)?);
        let descriptor = Descriptor::new(DOCKER_MANIFEST, &bytes);
        self.manifests.insert(descriptor.digest, bytes);
        Ok(descriptor)
    }
}

fn document(archive: &TarFiles, name: &str) -> Result<Vec<u8>, LayoutError> {
    let (file, size) = archive.file(name)?;
    read_document(archive.path().join(cut(name)), file, size)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::MAX_DOCUMENT;

    const NAME: &str = "name";

    fn config_of(ids: &[Digest]) -> Value {
        json!({"rootfs": {"type": "layers", "diff_ids": ids}})
    }

    fn read(files: &[(&str, &[u8])]) -> Result<(DockerImages, Index), LayoutError> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), builder.into_inner().unwrap()).unwrap();
        DockerImages::read(&TarFiles::open(file.path())?, NAME)
    }

    fn listed(image: &Value) -> String {
        json!([image]).to_string()
    }

    #[test]
    fn each_name_of_an_image_is_listed_and_its_layers_are_found() {
        let plain = b"plain".as_slice();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"packed").unwrap();
        let gzip = gzip.finish().unwrap();
        let ids = [Digest::of(plain), Digest::of(b"packed")];
        let config = config_of(&ids).to_string();
        let list = listed(&json!({
            "Config": "config.json", "RepoTags": ["a/b:v1", "a/b:v2"], "Layers": ["1.tar", "2.tar"]
        }));
        let (images, index) = read(&[
            ("1.tar", plain),
            ("2.tar", &gzip),
            ("config.json", config.as_bytes()),
            (MANIFEST, list.as_bytes()),
        ])
        .unwrap();
        let names: Vec<_> = index.entries.iter().map(|e| &e.annotations[NAME]).collect();
        assert_eq!(names, ["a/b:v1", "a/b:v2"]);
        let digest = index.entries[0].descriptor.digest;
        let manifest: Value = serde_json::from_slice(&images.manifests[&digest]).unwrap();
        let layers = &manifest["layers"];
        // The digest of an uncompressed layer is in the configuration.
        assert_eq!(layers[0]["digest"], ids[0].to_string());
        assert_eq!(layers[1]["digest"], Digest::of(&gzip).to_string());
        assert_eq!(layers[1]["size"], gzip.len());
        assert_eq!(images.blobs[&Digest::of(&gzip)], "2.tar");
        assert_eq!(images.blobs[&Digest::of(config.as_bytes())], "config.json");
    }

    #[test]
    fn contradictions_are_rejected_by_name() {
        let config = config_of(&[Digest::of(b"one")]).to_string();
        let image =
            |config: &str, layers: &[&str]| listed(&json!({"Config": config, "Layers": layers}));
        for (list, said) in [
            ("{}".to_owned(), "/manifest.json is not valid"),
            (image("config.json", &[]), "0 layers with 1 digests"),
            (
                image("config.json", &["missing.tar"]),
                "no file \"missing.tar\"",
            ),
            (image("../config.json", &[]), "no file \"../config.json\""),
            (image("1.tar", &[]), "/1.tar is not valid"),
        ] {
            let files = [
                ("1.tar", b"one".as_slice()),
                ("config.json", config.as_bytes()),
                (MANIFEST, list.as_bytes()),
            ];
            let error = read(&files).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let large = vec![b' '; MAX_DOCUMENT + 1];
        let error = read(&[(MANIFEST, &large)]).unwrap_err().to_string();
        assert!(error.contains("the limit is"), "{error}");
    }
}
