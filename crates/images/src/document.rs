//! Writing the documents of an image: configuration, manifest, index, layout.
//!
//! The types are those of `oci-spec`, and the bytes depend on the values alone:
//! the same image has the same digest on every machine. Configurations and
//! manifests keep the order of fields in the image-spec; the keys of an index
//! are sorted.
//!
//! ```
//! use images::document;
//! use images::manifest::{Descriptor, OCI_CONFIG, OCI_LAYER_GZIP};
//! use images::{Digest, Manifest, Platform};
//!
//! let platform = Platform::default();
//! let label = ("org.opencontainers.image.title", "example");
//! let config = document::image_config(&platform, label, &[Digest::of(b"archive")])?;
//! let layer = Descriptor::new(OCI_LAYER_GZIP, b"compressed archive");
//! let manifest = document::image_manifest(&Descriptor::new(OCI_CONFIG, &config), &[layer])?;
//! assert!(matches!(Manifest::parse(&manifest, None)?, Manifest::Image(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;

use oci_spec::OciSpecError;
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor as SpecDescriptor, Digest as SpecDigest,
    ImageConfigurationBuilder, ImageIndexBuilder, ImageManifest, ImageManifestBuilder, MediaType,
    OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};
use serde::Serialize;

use crate::digest::Digest;
use crate::manifest::{DOCKER_MANIFEST, Descriptor, Index, OCI_INDEX, OCI_MANIFEST};
use crate::platform::Platform;

/// The date of every configuration. It is fixed, so that it changes no digest.
/// Without a date, tools show an image of the year 1.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The version of the image layout.
const LAYOUT_VERSION: &str = "1.0.0";

/// A value that has no place in a document.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the document of an image")]
pub struct DocumentError(#[from] OciSpecError);

impl From<serde_json::Error> for DocumentError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.into())
    }
}

/// An image configuration with one label, for layers whose uncompressed
/// archives have the digests `diff_ids`, lowest first. Its date is the start of
/// 1970.
///
/// There is one label because `oci-spec` keeps labels in a hash map: several
/// of them would come in any order.
pub fn image_config(
    platform: &Platform,
    (label, value): (&str, &str),
    diff_ids: &[Digest],
) -> Result<Vec<u8>, DocumentError> {
    let labels = HashMap::from([(label.to_owned(), value.to_owned())]);
    let diff_ids: Vec<String> = diff_ids.iter().map(Digest::to_string).collect();
    let mut config = ImageConfigurationBuilder::default()
        .created(CREATED)
        .architecture(Arch::from(platform.architecture.as_str()))
        .os(Os::from(platform.os.as_str()))
        .config(ConfigBuilder::default().labels(labels).build()?)
        .rootfs(RootFsBuilder::default().diff_ids(diff_ids).build()?);
    if let Some(variant) = &platform.variant {
        config = config.variant(variant.as_str());
    }
    in_order(&config.build()?)
}

/// An OCI image manifest with its layers, lowest first.
pub fn image_manifest(
    config: &Descriptor,
    layers: &[Descriptor],
) -> Result<Vec<u8>, DocumentError> {
    in_order(&manifest(OCI_MANIFEST, config, layers)?)
}

/// A Docker image manifest with its layers, lowest first.
pub(crate) fn docker_manifest(
    config: &Descriptor,
    layers: &[Descriptor],
) -> Result<Vec<u8>, DocumentError> {
    sorted(&manifest(DOCKER_MANIFEST, config, layers)?)
}

/// An OCI index.
pub fn image_index(index: &Index) -> Result<Vec<u8>, DocumentError> {
    let mut manifests = Vec::with_capacity(index.entries.len());
    for entry in &index.entries {
        let mut descriptor = spec_descriptor(&entry.descriptor)?;
        if let Some(platform) = &entry.platform {
            let mut spec_platform = PlatformBuilder::default()
                .architecture(Arch::from(platform.architecture.as_str()))
                .os(Os::from(platform.os.as_str()));
            if let Some(variant) = &platform.variant {
                spec_platform = spec_platform.variant(variant.as_str());
            }
            descriptor.set_platform(Some(spec_platform.build()?));
        }
        if !entry.annotations.is_empty() {
            let annotations = entry.annotations.clone().into_iter();
            descriptor.set_annotations(Some(annotations.collect()));
        }
        manifests.push(descriptor);
    }
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::from(OCI_INDEX))
        .manifests(manifests)
        .build()?;
    sorted(&index)
}

/// The file `oci-layout`, which marks an image layout.
pub fn layout_marker() -> Result<Vec<u8>, DocumentError> {
    let marker = OciLayoutBuilder::default()
        .image_layout_version(LAYOUT_VERSION)
        .build()?;
    in_order(&marker)
}

fn manifest(
    media_type: &str,
    config: &Descriptor,
    layers: &[Descriptor],
) -> Result<ImageManifest, DocumentError> {
    let layers: Result<Vec<_>, _> = layers.iter().map(spec_descriptor).collect();
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::from(media_type))
        .config(spec_descriptor(config)?)
        .layers(layers?)
        .build()?;
    Ok(manifest)
}

fn spec_descriptor(descriptor: &Descriptor) -> Result<SpecDescriptor, DocumentError> {
    let digest: SpecDigest = descriptor.digest.to_string().parse()?;
    let media_type = MediaType::from(descriptor.media_type.as_str());
    Ok(SpecDescriptor::new(media_type, descriptor.size, digest))
}

/// The bytes with the fields in the order of the specification.
fn in_order(document: &impl Serialize) -> Result<Vec<u8>, DocumentError> {
    Ok(serde_json::to_vec(document)?)
}

/// The bytes with sorted keys: hash maps inside come in any order otherwise.
fn sorted(document: &impl Serialize) -> Result<Vec<u8>, DocumentError> {
    Ok(serde_json::to_vec(&serde_json::to_value(document)?)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::{IndexEntry, OCI_CONFIG, OCI_LAYER_GZIP};

    fn text(bytes: Result<Vec<u8>, DocumentError>) -> String {
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    #[test]
    fn documents_keep_their_bytes_so_that_digests_stay_the_same() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let config = image_config(&Platform::default(), ("com.example", "/folder"), &[a]);
        assert_eq!(
            text(config),
            format!(
                r#"{{"created":"1970-01-01T00:00:00Z","architecture":"amd64","os":"linux","config":{{"Labels":{{"com.example":"/folder"}}}},"rootfs":{{"type":"layers","diff_ids":["{a}"]}}}}"#
            )
        );
        let layer = Descriptor::new(OCI_LAYER_GZIP, b"b");
        let manifest = image_manifest(&Descriptor::new(OCI_CONFIG, b"a"), &[layer]);
        assert_eq!(
            text(manifest),
            format!(
                r#"{{"schemaVersion":2,"mediaType":"{OCI_MANIFEST}","config":{{"mediaType":"{OCI_CONFIG}","digest":"{a}","size":1}},"layers":[{{"mediaType":"{OCI_LAYER_GZIP}","digest":"{b}","size":1}}]}}"#
            )
        );
        let manifest = docker_manifest(&Descriptor::new("c", b"a"), &[Descriptor::new("l", b"b")]);
        assert_eq!(
            text(manifest),
            format!(
                r#"{{"config":{{"digest":"{a}","mediaType":"c","size":1}},"layers":[{{"digest":"{b}","mediaType":"l","size":1}}],"mediaType":"{DOCKER_MANIFEST}","schemaVersion":2}}"#
            )
        );
        assert_eq!(text(layout_marker()), r#"{"imageLayoutVersion":"1.0.0"}"#);
    }

    #[test]
    fn the_keys_of_an_index_are_sorted() {
        let a = Digest::of(b"a");
        let annotations = ["z", "m", "a", "q"].map(|key| (key.to_owned(), "x".to_owned()));
        let entry = IndexEntry {
            descriptor: Descriptor::new(OCI_MANIFEST, b"a"),
            platform: Some("linux/arm64/v8".parse().unwrap()),
            annotations: BTreeMap::from(annotations),
        };
        assert_eq!(
            text(image_index(&Index {
                entries: vec![entry]
            })),
            format!(
                r#"{{"manifests":[{{"annotations":{{"a":"x","m":"x","q":"x","z":"x"}},"digest":"{a}","mediaType":"{OCI_MANIFEST}","platform":{{"architecture":"arm64","os":"linux","variant":"v8"}},"size":1}}],"mediaType":"{OCI_INDEX}","schemaVersion":2}}"#
            )
        );
    }
}
