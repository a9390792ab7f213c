use crate::digest::Digest;
use crate::manifest::index::REFERENCE_TYPE;
use crate::manifest::{
    DOCKER_MANIFEST, Index, MAX_DOCUMENT, MAX_ENTRIES, MAX_LAYERS, Manifest, ManifestError,
    OCI_INDEX, OCI_MANIFEST,
};
use serde_json::{Value, json};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(media_type: &str, content: &str) -> Value {
    json!({
        "mediaType": media_type,
        "digest": Digest::of(content.as_bytes()).to_string(),
        "size": content.len(),
    })
}

fn entry(content: &str, os: &str, architecture: &str, variant: Option<&str>) -> Value {
    let mut entry = descriptor(OCI_MANIFEST, content);
    entry["platform"] = json!({"os": os, "architecture": architecture, "variant": variant});
    entry
}

fn parse(document: &Value) -> Result<Manifest, ManifestError> {
    Manifest::parse(document.to_string().as_bytes(), None)
}

fn index_of(entries: &[Value]) -> Index {
    match parse(&json!({"schemaVersion": 2, "manifests": entries})).unwrap() {
        Manifest::Index(index) => index,
        Manifest::Image(_) => panic!("an index was written"),
    }
}

fn selected(entries: &[Value], platform: &str) -> Result<Digest, String> {
    index_of(entries)
        .select(&platform.parse().unwrap())
        .map(|descriptor| descriptor.digest)
        .map_err(|error| error.to_string())
}

#[test]
fn an_image_is_read_with_each_media_type() {
    for media_type in [Some(OCI_MANIFEST), Some(DOCKER_MANIFEST), None] {
        let mut document = json!({
            "schemaVersion": 2,
            "config": descriptor("c", "config"),
            "layers": [descriptor(LAYER, "one"), descriptor(LAYER, "two")],
            "annotations": {"unread": [1]},
        });
        if let Some(media_type) = media_type {
            document["mediaType"] = media_type.into();
        }
        let Manifest::Image(image) = parse(&document).unwrap() else {
            panic!("{media_type:?}");
        };
        assert_eq!(image.config.digest, Digest::of(b"config"));
        assert_eq!(image.layers.len(), 2);
        assert_eq!(image.layers[1].digest, Digest::of(b"two"));
        assert_eq!(image.layers[1].size, 3);
        assert_eq!(image.layers[1].media_type, LAYER);
    }
}

#[test]
fn an_index_selects_the_image_of_the_platform() {
    let entries = [
        entry("amd", "linux", "amd64", None),
        entry("arm7", "linux", "arm", Some("v7")),
        entry("arm6", "linux", "arm", Some("v6")),
        entry("arm64", "linux", "arm64", Some("v8")),
        entry("note", "unknown", "unknown", None),
    ];
    assert_eq!(selected(&entries, "linux/amd64"), Ok(Digest::of(b"amd")));
    assert_eq!(selected(&entries, "linux/amd64/v3"), Ok(Digest::of(b"amd")));
    assert_eq!(selected(&entries, "linux/arm64"), Ok(Digest::of(b"arm64")));
    assert_eq!(selected(&entries, "linux/arm/v6"), Ok(Digest::of(b"arm6")));
    assert_eq!(selected(&entries, "linux/arm"), Ok(Digest::of(b"arm7")));
    let error = selected(&entries, "linux/s390x").unwrap_err();
    assert!(error.contains("linux/s390x"), "{error}");
    assert!(error.contains("linux/amd64, linux/arm/v7"), "{error}");
    assert!(!error.contains("unknown"), "{error}");
    assert!(selected(&entries, "unknown/unknown").is_err());
}

#[test]
fn the_only_image_of_an_index_needs_no_platform() {
    let mut note = descriptor(OCI_MANIFEST, "note");
    note["annotations"] = json!({REFERENCE_TYPE: "attestation-manifest"});
    let only = descriptor(OCI_MANIFEST, "only");
    let entries = [note, only.clone()];
    assert_eq!(selected(&entries, "linux/amd64"), Ok(Digest::of(b"only")));
    assert!(selected(&[only.clone(), only], "linux/amd64").is_err());
    assert!(selected(&[], "linux/amd64").unwrap_err().contains("none"));
}

#[test]
fn an_ambiguous_document_is_rejected() {
    let config = descriptor("c", "config");
    for document in [
        json!({"config": config, "layers": [], "manifests": []}),
        json!({"mediaType": OCI_INDEX, "config": config, "layers": []}),
        json!({"mediaType": OCI_MANIFEST, "manifests": []}),
        json!({"layers": [], "manifests": []}),
    ] {
        assert!(
            matches!(parse(&document), Err(ManifestError::Ambiguous)),
            "{document}"
        );
    }
}

#[test]
fn unsupported_documents_are_rejected_by_name() {
    let schema_1 = json!({"schemaVersion": 1, "fsLayers": []});
    assert!(matches!(parse(&schema_1), Err(ManifestError::Schema1)));
    let signed = Manifest::parse(
        b"{",
        Some("application/vnd.docker.distribution.manifest.v1+prettyjws"),
    );
    assert!(matches!(signed, Err(ManifestError::Schema1)));
    let version_3 = json!({"schemaVersion": 3, "manifests": []});
    assert!(matches!(
        parse(&version_3),
        Err(ManifestError::SchemaVersion(3))
    ));
    let other = json!({"mediaType": "text/html", "manifests": []});
    assert!(matches!(parse(&other), Err(ManifestError::MediaType(_))));
    for media_type in [
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    ] {
        let foreign = json!({
            "config": descriptor("c", "config"),
            "layers": [descriptor(media_type, "far")],
        });
        let error = parse(&foreign).unwrap_err().to_string();
        assert!(error.contains(media_type), "{error}");
    }
}

#[test]
fn other_documents_are_rejected() {
    for text in [
        "",
        "null",
        "[]",
        "[2,null,null,null,[]]",
        "{}",
        "<html></html>",
        r#"{"config":{}}"#,
        r#"{"manifests":[{}]}"#,
        r#"{"manifests":[{"digest":"sha256:abc","size":1}]}"#,
        r#"{"manifests":[{"digest":"sha256:abc","size":-1}]}"#,
        r#"{"manifests":{}}"#,
    ] {
        assert!(Manifest::parse(text.as_bytes(), None).is_err(), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(Manifest::parse(deep.as_bytes(), None).is_err());
}

#[test]
fn the_limits_hold() {
    let large = vec![b' '; MAX_DOCUMENT + 1];
    assert!(matches!(
        Manifest::parse(&large, None),
        Err(ManifestError::TooLarge { .. })
    ));
    let layers = vec![descriptor(LAYER, "layer"); MAX_LAYERS + 1];
    let image = json!({"config": descriptor("c", "config"), "layers": layers});
    assert!(matches!(
        parse(&image),
        Err(ManifestError::TooManyLayers(513))
    ));
    let index = json!({"manifests": vec![descriptor(OCI_MANIFEST, "image"); MAX_ENTRIES + 1]});
    assert!(matches!(
        parse(&index),
        Err(ManifestError::TooManyEntries(4097))
    ));
}

#[test]
fn a_null_in_place_of_a_text_is_an_empty_text() {
    let mut image = descriptor(OCI_MANIFEST, "image");
    image["annotations"] = json!({"a": null, "b": "c"});
    image["platform"] = json!({"os": null, "architecture": "amd64", "variant": null});
    let mut other = descriptor(OCI_MANIFEST, "other");
    other["mediaType"] = Value::Null;
    other["annotations"] = Value::Null;
    let Ok(Manifest::Index(index)) = parse(&json!({"manifests": [image, other]})) else {
        panic!("it is an index");
    };
    let annotations = &index.entries[0].annotations;
    assert_eq!(annotations["a"], "");
    assert_eq!(annotations["b"], "c");
    assert!(index.entries[1].annotations.is_empty());
}
