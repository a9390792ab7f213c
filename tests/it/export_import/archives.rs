//! What is in an archive, and what it needs to be taken.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::{REPOSITORY, Side, export, files, import};
use crate::legacy;
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::program::Start;
use crate::support::upstream::Upstream;

#[test]
fn an_archive_obeys_the_umask_and_that_of_a_restricted_catalog_is_for_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("catalog")).unwrap();
    Catalog::small().write_to(&path("catalog"), Format::Yaml);
    fs::write(path("tokens"), "a-token\n").unwrap();
    let source = format!("file:{}", path("catalog").display());
    let restricted = format!("token_files = [{:?}]\n", path("tokens"));
    let config = following(&source) + &catalog("closed", &source) + &restricted;
    fs::write(path("almanac.toml"), &config).unwrap();
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    almanac.until("closed", "a revision", |status| {
        status["state"] == "serving"
    });
    let script = path("umask.sh");
    let program = env!("CARGO_BIN_EXE_almanac");
    let text = format!("#!/bin/sh\numask \"$UMASK\"\nexec {program} \"$@\"\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (umask, catalog, wanted) in [
        ("022", "a", 0o644),
        ("077", "a", 0o600),
        ("002", "a", 0o664),
        ("022", "closed", 0o600),
    ] {
        let archive = path(&format!("{umask}-{catalog}.tar"));
        let finished = Start::new(["export", "--catalog", catalog])
            .argument(format!("--data-dir={}", almanac.program.data().display()))
            .argument(format!("--config={}", path("almanac.toml").display()))
            .argument(format!("--file={}", archive.display()))
            .variable("UMASK", umask)
            .program(&script)
            .run();
        assert!(finished.status.success(), "{finished:?}");
        let mode = archive.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, wanted, "{umask} {catalog}: {mode:o}");
    }
}

/// All that is answered of both catalogs.
fn answers(almanac: &mut Almanac) -> BTreeMap<String, String> {
    let address = almanac.program.address("http");
    let mut answers = BTreeMap::new();
    for name in ["a", "b"] {
        for path in [
            format!("/catalogs/{name}/api/v1/all"),
            format!("/catalogs/{name}/api/v1/metas?schema=olm.bundle"),
            format!("/catalogs/{name}/api/v1/packages"),
            format!("/v2/{name}/tags/list"),
            format!("/v2/{name}/manifests/latest"),
        ] {
            for encoding in ["identity", "gzip"] {
                // The whole has a smaller form a moment later.
                if encoding == "gzip" && path.ends_with("/all") {
                    continue;
                }
                let headers = [("Accept-Encoding", encoding)];
                let reply = http::ask(address, "GET", &path, &headers, b"").unwrap();
                assert_eq!(reply.status, 200, "{path}");
                let mut headers = reply.headers.clone();
                headers.retain(|(name, _)| name != "date");
                let digest = images::digest::Digest::of(&reply.body);
                answers.insert(
                    format!("{path} {encoding}"),
                    format!("{headers:?} {digest}"),
                );
            }
        }
        answers.insert(
            format!("{name} packages"),
            format!("{:?}", almanac.packages(name).unwrap()),
        );
        // Its other forms are made a moment after it.
        let mut status = almanac.until_whole(name);
        answers.insert(
            format!("{name} revision"),
            status["revision"].take().to_string(),
        );
        answers.insert(
            format!("{name} problems"),
            status["problems"].take().to_string(),
        );
    }
    answers
}

#[test]
fn what_is_imported_is_served_as_it_was() {
    let mut side = Side::start();
    // Beside the almanac that runs.
    let archive = side.exported("all.tar", &[]);
    let before = answers(&mut side.almanac);
    let config = Side::config_of(&side.folder, &side.upstream);
    side.almanac.stop();
    let data = side.almanac.program.data().to_owned();
    // The same without it.
    let second = side.exported("second.tar", &[]);
    assert!(fs::read(&archive).unwrap() == fs::read(second).unwrap());

    fs::remove_dir_all(&data).unwrap();
    let finished = import(&archive, &data);
    assert!(finished.status.success(), "{finished:?}");
    assert!(finished.stderr.contains("imported a"), "{finished:?}");
    side.upstream
        .misbehave(|behaviour| behaviour.status = Some(503));
    side.upstream.forget_requests();
    side.almanac
        .restart_with(&format!("offline = true\n{config}"));
    for name in ["a", "b"] {
        side.almanac.until_whole(name);
    }
    assert_eq!(answers(&mut side.almanac), before);
    // Every platform and signature came along.
    side.image.for_each_manifest(|manifest| {
        let path = format!("/v2/{REPOSITORY}/manifests/{}", manifest.digest);
        assert_eq!(side.almanac.http(&path).body, manifest.bytes);
    });
    let tag = format!("sha256-{}.sig", side.image.digest().hex());
    assert_eq!(
        side.almanac.http(&format!("/v2/b/manifests/{tag}")).status,
        200
    );
    assert_eq!(side.upstream.lines(), [""; 0]);

    // Nothing is taken from under an almanac that runs.
    let finished = import(&archive, &data);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("in use"), "{finished:?}");
    side.almanac.stop();
    let finished = import(&archive, &data);
    assert!(finished.stderr.contains("already there: a"), "{finished:?}");
}

#[test]
fn what_the_other_side_has_is_left_out() {
    let mut side = Side::start();
    let first = side.exported("first.tar", &[]);
    let other = tempfile::tempdir().unwrap();
    assert!(import(&first, other.path()).status.success());
    let changed = Catalog::one("another");
    fs::remove_dir_all(side.path("catalog")).unwrap();
    fs::create_dir(side.path("catalog")).unwrap();
    changed.write_to(&side.path("catalog"), Format::Yaml);
    let revision = side.almanac.status("b")["revision"]["id"].to_string();
    let newest = revision.parse::<u32>().unwrap().max(2);
    side.almanac.until("a", "the change", |status| {
        status["revision"]["id"].as_u64().unwrap() > u64::from(newest)
    });
    side.almanac.until_pullable("a");
    let text = changed.text(Format::JsonLines);
    let since = format!("--since={}", first.display());
    let begin = Instant::now();
    // The image is made a moment after the revision.
    let second = loop {
        let finished = side.export("second.tar", &[&since]);
        if finished.status.success() {
            break side.path("second.tar");
        }
        assert!(begin.elapsed().as_secs() < 30, "{finished:?}");
    };
    let third = side.exported("third.tar", &[&format!("--since={newest}")]);
    let length = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(length(&second) < length(&first));
    assert!(length(&third) < length(&first));

    let elsewhere = tempfile::tempdir().unwrap();
    let finished = import(&second, elsewhere.path());
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    for part in ["sha256:", "without --since"] {
        assert!(finished.stderr.contains(part), "{finished:?}");
    }
    for archive in [&second, &third] {
        let finished = import(archive, other.path());
        assert!(finished.status.success(), "{finished:?}");
    }
    let config = format!(
        "offline = true\n{}",
        Side::config_of(&side.folder, &side.upstream)
    );
    let mut there = Almanac::start_in(other.path(), &config);
    assert_eq!(there.all("a").text(), text);
    assert_eq!(there.packages("b").unwrap(), ["etcd"]);
}

#[test]
fn one_flipped_bit_is_found_and_nothing_changes() {
    let side = Side::start();
    let archive = side.exported("all.tar", &[]);
    let other = tempfile::tempdir().unwrap();
    assert!(import(&archive, other.path()).status.success());
    let before = files(other.path());
    let good = fs::read(&archive).unwrap();
    let mut reader = tar::Archive::new(&good[..]);
    let mut blobs = 0;
    let places: Vec<(String, u64, u64)> = reader
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            (name, entry.raw_file_position(), entry.size())
        })
        .collect();
    for (name, start, size) in places {
        let mut bad = good.clone();
        bad[(start + size / 2) as usize] ^= 1;
        let path = side.path("bad.tar");
        fs::write(&path, bad).unwrap();
        let finished = import(&path, other.path());
        assert!(
            matches!(finished.status.code(), Some(2 | 3)),
            "{name}: {finished:?}"
        );
        if let Some(hex) = name.strip_prefix("blobs/sha256/") {
            blobs += 1;
            assert!(finished.stderr.contains(hex), "{name}: {finished:?}");
        }
        assert!(files(other.path()) == before, "{name}");
    }
    assert!(blobs > 8, "{blobs}");
    for part in [good.len() / 2, 512, 1] {
        let path = side.path("cut.tar");
        fs::write(&path, &good[..part]).unwrap();
        let finished = import(&path, other.path());
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        assert!(files(other.path()) == before);
    }
}

#[test]
fn an_archive_of_a_newer_version_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.tar");
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    for (name, text) in [
        ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        (
            "almanac.json",
            r#"{"format":99,"version":"9.1.0","else":1}"#,
        ),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, name, text.as_bytes())
            .unwrap();
    }
    archive.finish().unwrap();
    let data = folder.path().join("data");
    let finished = import(&path, &data);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    let wanted = "import it with almanac 9.1.0 or newer";
    assert!(finished.stderr.contains(wanted), "{finished:?}");
    assert!(!data.exists());
}

#[test]
fn what_cannot_be_exported_says_why() {
    let side = Side::start();
    let finished = side.export("none.tar", &["--catalog=c"]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("there are: a, b"), "{finished:?}");
    assert!(!side.path("none.tar").exists());
    let finished = Start::new(["export", "--data-dir=/nowhere", "--file=a.tar"]).run();
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    assert!(finished.stderr.contains("--data-dir"), "{finished:?}");

    // Without signatures there are none.
    let whole = side.exported("whole.tar", &[]);
    let bare = side.exported("bare.tar", &["--without-signatures", "--catalog=b"]);
    let index = |path: &Path| {
        let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
        let mut entries = archive.entries().unwrap();
        let entry = entries.find(|entry| {
            let path = entry.as_ref().unwrap().path().unwrap().into_owned();
            path == Path::new("index.json")
        });
        serde_json::from_reader::<_, Value>(entry.unwrap().unwrap()).unwrap()
    };
    assert!(index(&whole).to_string().contains(".sig"));
    assert!(!index(&bare).to_string().contains(".sig"));
    let data = tempfile::tempdir().unwrap();
    assert!(import(&bare, data.path()).status.success());
}

#[test]
fn a_mirrored_database_is_imported() {
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "v4.10", &legacy::image());
    let source = upstream.reference(REPOSITORY, "v4.10");
    let config = format!("{}mirror = \"full\"\n", following(&source));
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    let text = almanac.all("a").text();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("all.tar");
    let finished = export(&almanac, &archive, &[]);
    assert!(finished.status.success(), "{finished:?}");

    let there = folder.path().join("there");
    let finished = import(&archive, &there);
    assert!(finished.status.success(), "{finished:?}");
    let mut there = Almanac::start_in(&there, &format!("offline = true\n{config}"));
    assert_eq!(there.all("a").text(), text);
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
}
