//! Which files of an archive are found, and which archives are rejected.

use tar::{EntryType, Header};

use super::*;

fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> tempfile::NamedTempFile {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    written(&builder.into_inner().unwrap())
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn add(builder: &mut tar::Builder<Vec<u8>>, name: &str, content: &str) {
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    builder
        .append_data(&mut header, name, content.as_bytes())
        .unwrap();
}

fn link(builder: &mut tar::Builder<Vec<u8>>, kind: EntryType, name: &str, target: &str) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(0);
    builder.append_link(&mut header, name, target).unwrap();
}

fn content(archive: &TarFiles, name: &str) -> Option<String> {
    let (mut file, size) = archive.file(name).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.len() as u64, size);
    Some(text)
}

#[test]
fn a_file_is_found_by_its_name_and_by_links_to_it() {
    let long = format!("{}/file", "long".repeat(60));
    let file = archive(|builder| {
        add(builder, "a/b", "first");
        add(builder, "a/b", "second");
        add(builder, &long, "long");
        link(builder, EntryType::Symlink, "c/d", "../a/b");
        link(builder, EntryType::Link, "e", "a/b");
        link(builder, EntryType::Symlink, "out", "../../etc/passwd");
        link(builder, EntryType::Symlink, "loop", "loop");
    });
    let archive = TarFiles::open(file.path()).unwrap();
    for name in ["a/b", "./a/b", "c/d", "e"] {
        assert_eq!(content(&archive, name).as_deref(), Some("second"), "{name}");
    }
    assert_eq!(content(&archive, &long).as_deref(), Some("long"));
    for name in ["a", "out", "loop", "", "../a/b", "etc/passwd"] {
        assert!(archive.find(name).is_err(), "{name}");
    }
}

#[test]
fn a_name_in_an_extended_header_applies() {
    let file = archive(|builder| {
        builder
            .append_pax_extensions([("path", b"blobs/x".as_slice())])
            .unwrap();
        add(builder, "short", "content");
    });
    let archive = TarFiles::open(file.path()).unwrap();
    assert_eq!(content(&archive, "blobs/x").as_deref(), Some("content"));
    assert!(archive.find("short").is_err());
}

#[test]
fn other_files_are_rejected() {
    let error = |bytes: &[u8]| {
        let file = written(bytes);
        TarFiles::open(file.path()).unwrap_err().to_string()
    };
    assert!(error(b"schema: olm.package").contains("cut inside a header"));
    assert!(error(&[b'x'; 1024]).contains("checksum of a header"));
    let mut gzip = b"\x1f\x8b".to_vec();
    gzip.resize(1024, 0);
    assert!(error(&gzip).contains("compressed with gzip"));
    let whole = {
        let file = archive(|builder| add(builder, "a", &"x".repeat(2000)));
        std::fs::read(file.path()).unwrap()
    };
    assert!(error(&whole[..1024]).contains("cut inside a file"));
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        TarFiles::open(folder.path()),
        Err(LayoutError::NoFile { .. })
    ));
}

#[test]
fn the_number_of_entries_is_bounded() {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_cksum();
    let file = written(&header.as_bytes().repeat(100_001));
    let error = TarFiles::open(file.path()).unwrap_err().to_string();
    assert!(error.contains("entries; the limit is 100000"), "{error}");
}

#[test]
fn a_huge_extended_header_is_rejected_unread() {
    let file = archive(|builder| {
        let value = vec![b'a'; 1 << 20];
        builder
            .append_pax_extensions([("comment", value.as_slice())])
            .unwrap();
        add(builder, "a", "b");
    });
    let error = TarFiles::open(file.path()).unwrap_err();
    assert!(matches!(error, LayoutError::Limit { .. }), "{error}");
}
