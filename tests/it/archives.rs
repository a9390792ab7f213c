//! Files that archives are not written to, and archives that no export wrote.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use images::digest::Digest;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::program::{Finished, Start};

/// An almanac that has the catalog `a`.
struct Side {
    folder: TempDir,
    data: PathBuf,
    config: String,
}

impl Side {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("catalog");
        Catalog::one("etcd").write_to(&source, Format::Yaml);
        let data = folder.path().join("data");
        let config = following(&format!("file:{}", source.display()));
        let mut almanac = Almanac::start_in(&data, &config);
        almanac.until_pullable("a");
        almanac.stop();
        Self {
            folder,
            data,
            config,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn export(&self, output: &Path, more: &[&str]) -> Finished {
        let start = Start::new(["export"])
            .argument(format!("--data-dir={}", self.data.display()))
            .argument(format!("--output={}", output.display()));
        let more = more.iter();
        more.fold(start, |start, argument| start.argument(*argument))
            .run()
    }

    fn exported(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let finished = self.export(&path, &[]);
        assert!(finished.status.success(), "{finished:?}");
        path
    }
}

fn import(archive: &str, data: &Path) -> Finished {
    Start::new(["import", archive])
        .argument(format!("--data-dir={}", data.display()))
        .run()
}

/// The same archive with other metadata, of which all digests are right.
fn changed(archive: &Path, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut reader = tar::Archive::new(fs::File::open(archive).unwrap());
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in reader.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        files.push((name, bytes));
    }
    let mut marker: Value = serde_json::from_slice(&files[1].1).unwrap();
    let mut metadata: Value = serde_json::from_slice(&files[3].1).unwrap();
    change(&mut metadata);
    let metadata = metadata.to_string().into_bytes();
    let digest = Digest::of(&metadata);
    marker["metadata"] = digest.to_string().into();
    files[1].1 = marker.to_string().into_bytes();
    files[3] = (format!("blobs/sha256/{}", digest.hex()), metadata);
    let mut writer = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        writer.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn only_a_file_is_replaced_by_an_archive() {
    let side = Side::new();
    let folder = side.path("folder");
    fs::create_dir(&folder).unwrap();
    let fifo = side.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let (to_fifo, to_nothing) = (side.path("to-fifo"), side.path("to-nothing"));
    symlink(&fifo, &to_fifo).unwrap();
    symlink(side.path("nothing"), &to_nothing).unwrap();
    for path in [&folder, &fifo, &to_fifo, &to_nothing] {
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        let finished = side.export(path, &[]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        for said in [path.to_str().unwrap(), "file; name"] {
            assert!(finished.stderr.contains(said), "{finished:?}");
        }
        let now = fs::symlink_metadata(path).unwrap().file_type();
        assert_eq!(now, kind, "{}", path.display());
    }
    // A link stays one, and leads to the archive.
    let (file, link) = (side.path("file"), side.path("link"));
    fs::write(&file, "what was there").unwrap();
    symlink("file", &link).unwrap();
    let finished = side.export(&link, &[]);
    assert!(finished.status.success(), "{finished:?}");
    assert!(link.is_symlink());
    let imported = import(file.to_str().unwrap(), &side.path("there"));
    assert!(imported.status.success(), "{imported:?}");
}

#[test]
fn the_archive_that_the_other_side_has_is_not_replaced() {
    let side = Side::new();
    let first = side.exported("first.tar");
    let before = fs::read(&first).unwrap();
    symlink(&first, side.path("link.tar")).unwrap();
    for (since, output) in [("first.tar", "first.tar"), ("link.tar", "first.tar")] {
        let since = format!("--since={}", side.path(since).display());
        let finished = side.export(&side.path(output), &[&since]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        assert!(
            finished.stderr.contains(": it is the archive of --since"),
            "{finished:?}"
        );
    }
    assert!(fs::read(&first).unwrap() == before);
    let folder = side.path("folder");
    fs::create_dir(&folder).unwrap();
    let finished = side.export(&folder, &[]);
    let said = format!(
        "written to {}: it exists and is not a file",
        folder.display()
    );
    assert!(finished.stderr.contains(&said), "{finished:?}");
}

#[test]
fn metadata_that_no_export_writes_are_refused_and_nothing_changes() {
    let side = Side::new();
    let archive = side.exported("good.tar");
    let there = side.path("there");
    let refused = |said: &str, change: &dyn Fn(&mut Value)| {
        let bad = side.path("bad.tar");
        fs::write(&bad, changed(&archive, |json| change(json))).unwrap();
        let finished = import(bad.to_str().unwrap(), &there);
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        assert!(finished.stderr.contains(said), "{said}: {finished:?}");
        assert!(!there.exists());
    };
    for number in [i64::MAX, 0, -5] {
        refused("the number", &|json| {
            json["catalogs"][0]["id"] = number.into();
        });
    }
    refused("the year 9999", &|json| {
        json["catalogs"][0]["modified"] = 900_000_000_000_000_000_u64.into();
    });
    refused("the catalog a twice", &|json| {
        let first = json["catalogs"][0].clone();
        json["catalogs"].as_array_mut().unwrap().push(first);
    });
    // The last date and the last number that there are do no harm.
    let last = side.path("last.tar");
    let bytes = changed(&archive, |json| {
        json["catalogs"][0]["id"] = ((1_i64 << 53) - 1).into();
        json["catalogs"][0]["modified"] = 253_402_300_799_u64.into();
    });
    fs::write(&last, bytes).unwrap();
    let imported = import(last.to_str().unwrap(), &there);
    assert!(imported.status.success(), "{imported:?}");
    let mut almanac = Almanac::start_in(&there, &side.config);
    let date = |almanac: &mut Almanac| {
        let reply = almanac.all("a");
        httpdate::parse_http_date(reply.header("last-modified").unwrap()).unwrap()
    };
    let first = date(&mut almanac);
    assert!(first <= SystemTime::now(), "a date is never in the future");
    // What comes after is taken all the same.
    Catalog::one("vault").write_to(&side.path("catalog"), Format::Yaml);
    almanac.until("a", "the change", |status| {
        status["revision"]["id"].as_i64() == Some(1 << 53)
    });
    let second = date(&mut almanac);
    // It may have come in the same second.
    let latest = SystemTime::now() + Duration::from_secs(1);
    assert!(first <= second && second <= latest);
}

#[test]
fn what_is_no_file_is_no_archive() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let finished = import(folder.path().to_str().unwrap(), &data);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    assert!(finished.stderr.contains("has to be a file"), "{finished:?}");
    let finished = import("-", &data);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("to a file first"), "{finished:?}");
    assert!(!data.exists());
}
