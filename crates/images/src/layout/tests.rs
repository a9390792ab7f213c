//! Which image of a layout is chosen, and which files are rejected.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::digest::Digest;
use crate::layout::image_layout::CONTAINERD_NAME;
use crate::layout::{Choice, Format, Layout, LayoutError};
use crate::manifest::{Descriptor, MAX_DOCUMENT, REFERENCE_NAME};

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
fn a_tag_is_found_in_each_annotation() {
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
fn a_name_without_a_registry_is_one_of_docker_hub() {
    let entries = [
        entry("one", &[(REFERENCE_NAME, "team/aa:latest")]),
        entry("two", &[(REFERENCE_NAME, "docker.io/team/bb:v1")]),
        entry("three", &[(REFERENCE_NAME, "docker.io/library/cc:latest")]),
    ];
    for (name, content) in [
        ("team/aa:latest", "one"),
        ("team/aa", "one"),
        ("docker.io/team/aa:latest", "one"),
        ("team/bb:v1", "two"),
        ("cc:latest", "three"),
    ] {
        let found = resolve(&entries, Some(name));
        assert_eq!(found, Ok(Digest::of(content.as_bytes())), "{name}");
    }
    assert!(resolve(&entries, Some("team/bb")).is_err());
    assert!(resolve(&entries, Some("other/aa:latest")).is_err());
}

#[test]
fn an_archive_of_the_other_format_is_refused_with_its_prefix() {
    for (file, format, prefix) in [
        ("oci-layout", Format::DockerArchive, "oci-archive"),
        ("manifest.json", Format::Archive, "docker-archive"),
    ] {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        builder.append_data(&mut header, file, &b"{}"[..]).unwrap();
        let archive = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(archive.path(), builder.into_inner().unwrap()).unwrap();
        let error = Layout::open(format, archive.path())
            .unwrap_err()
            .to_string();
        let said = format!("write {prefix}:{}", archive.path().display());
        assert!(error.ends_with(&said), "{error}");
    }
}

#[test]
fn the_only_manifest_needs_no_tag() {
    assert_eq!(resolve(&[entry("one", &[])], None), Ok(Digest::of(b"one")));
    assert!(resolve(&[], None).unwrap_err().contains("none"));
}

#[test]
fn a_tag_of_two_manifests_is_rejected() {
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
    let longer = layout.read_blob(&descriptor(b"good", 5));
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
        layout.read_blob(&missing),
        Err(LayoutError::Read { .. })
    ));
    std::fs::create_dir(blob_path(&folder, &missing.digest)).unwrap();
    assert!(matches!(
        layout.read_blob(&missing),
        Err(LayoutError::NoFile { .. })
    ));
}

#[test]
fn a_folder_that_is_no_layout_is_rejected() {
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
