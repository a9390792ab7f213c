//! Catalogs that are exported, carried and imported: the same answers on the
//! other side, and nothing half-done when anything is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::legacy;
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::image::{Built, Image, Index};
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "operators/catalog";

/// An almanac with a folder's catalog `a` and a mirrored one, `b`.
struct Side {
    upstream: Upstream,
    almanac: Almanac,
    folder: TempDir,
    image: Built,
}

impl Side {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("catalog")).unwrap();
        Catalog::small().write_to(&folder.path().join("catalog"), Format::Yaml);
        let upstream = Upstream::start();
        let of_platform = |architecture: &str| {
            Image::of_catalog(&Catalog::one("etcd"))
                .platform("linux", architecture)
                .build()
        };
        let image = Index::new()
            .image(of_platform("amd64"))
            .image(of_platform("arm64"))
            .build();
        upstream.push(REPOSITORY, "v4.20", &image);
        let tag = format!("sha256-{}.sig", image.digest().hex());
        let signature = Image::new().edit_config(|config| config["signed"] = true.into());
        upstream.push(REPOSITORY, &tag, &signature.build());
        let config = Self::config_of(&folder, &upstream);
        let mut almanac = Almanac::start(&config);
        almanac.until_pullable("a");
        almanac.until_pullable("b");
        Self {
            upstream,
            almanac,
            folder,
            image,
        }
    }

    fn config_of(folder: &TempDir, upstream: &Upstream) -> String {
        let source = format!("file:{}", folder.path().join("catalog").display());
        let mirror = upstream.reference(REPOSITORY, "v4.20");
        format!(
            "{}{}mirror = \"full\"\n",
            following(&source),
            catalog("b", &mirror)
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn export(&self, name: &str, more: &[&str]) -> Finished {
        export(&self.almanac, &self.path(name), more)
    }

    fn exported(&self, name: &str, more: &[&str]) -> PathBuf {
        let finished = self.export(name, more);
        assert!(finished.status.success(), "{finished:?}");
        self.path(name)
    }
}

fn export(almanac: &Almanac, archive: &Path, more: &[&str]) -> Finished {
    let data = almanac.program.data();
    let start = Start::new(["export"])
        .argument(format!("--data-dir={}", data.display()))
        .argument(format!("--file={}", archive.display()));
    let more = more.iter();
    more.fold(start, |start, argument| start.argument(*argument))
        .run()
}

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

pub(super) fn import(archive: &Path, data: &Path) -> Finished {
    import_with(archive, data, &[])
}

pub(super) fn import_with(archive: &Path, data: &Path, more: &[&str]) -> Finished {
    let start = Start::new(["import"])
        .argument(format!("--data-dir={}", data.display()))
        .argument(archive.display().to_string());
    let more = more.iter();
    more.fold(start, |start, argument| start.argument(*argument))
        .run()
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

/// Content of a data folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
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

/// An almanac with a folder's catalog that changes, and another one, which stays.
pub(super) struct Carried {
    pub(super) almanac: Almanac,
    pub(super) config: String,
    folder: PathBuf,
    names: [&'static str; 2],
}

impl Carried {
    /// With the catalogs `a` and `b`.
    pub(super) fn start(folder: &TempDir) -> Self {
        Self::named(folder, ["a", "b"])
    }

    pub(super) fn named(folder: &TempDir, names: [&'static str; 2]) -> Self {
        let folder = folder.path().to_owned();
        for (path, package) in names.iter().zip(["etcd", "vault"]) {
            fs::create_dir(folder.join(path)).unwrap();
            Catalog::one(package).write_to(&folder.join(path), Format::Yaml);
        }
        let of = |name: &str| catalog(name, &format!("file:{}", folder.join(name).display()));
        let config = format!("poll = \"100ms\"\n{}{}", of(names[0]), of(names[1]));
        Self {
            almanac: Almanac::start(&config),
            config,
            folder,
            names,
        }
    }

    /// Exports once the first one has just that package, and the image is made of it.
    pub(super) fn export(&mut self, name: &str, package: &str, more: &[&str]) -> PathBuf {
        let [name_a, name_b] = self.names;
        let source = self.folder.join(name_a);
        fs::remove_dir_all(&source).unwrap();
        fs::create_dir(&source).unwrap();
        Catalog::one(package).write_to(&source, Format::Yaml);
        self.almanac.until_pullable(name_a);
        self.almanac.until_pullable(name_b);
        let archive = self.folder.join(name);
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed().as_secs() < 30, "waiting for {package}");
            if self.almanac.packages(name_a).ok() == Some(vec![package.to_owned()]) {
                let finished = export(&self.almanac, &archive, more);
                if finished.status.success() {
                    return archive;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_catalog_that_goes_back_is_carried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let data = folder.path().join("there");
    let mut last: Option<PathBuf> = None;
    let mut sizes = Vec::new();
    for (number, package) in ["etcd", "kafka", "etcd", "etcd"].into_iter().enumerate() {
        // What `b` is goes with the first, and is left out for good.
        let since = last.map(|last| format!("--since={}", last.display()));
        let more: Vec<&str> = match &since {
            None => Vec::new(),
            Some(since) => vec!["--catalog=a", since],
        };
        let archive = carried.export(&format!("{number}.tar"), package, &more);
        let finished = import(&archive, &data);
        assert!(finished.status.success(), "{number}: {finished:?}");
        sizes.push(fs::metadata(&archive).unwrap().len());
        last = Some(archive);
    }
    // Nothing is new in the last one; and what all of them left out is known.
    assert!(sizes[3] < sizes[2], "{sizes:?}");
    let since = format!("--since={}", last.unwrap().display());
    let archive = carried.export("both.tar", "etcd", &[&since]);
    assert!(fs::metadata(&archive).unwrap().len() < sizes[0]);
    assert!(import(&archive, &data).status.success());
    let mut there = Almanac::start_in(&data, &format!("offline = true\n{}", carried.config));
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
    assert_eq!(there.packages("b").unwrap(), ["vault"]);
}

/// How many dates as in 2026-01-02T03:04:05Z are in a text. The names of
/// folders in it may have any letter, so no single one of a date is looked for.
fn dates_in(text: &str) -> usize {
    let form = b"0000-00-00T00:00:00Z";
    let is_date = |window: &&[u8]| {
        window.iter().zip(form).all(|(byte, formed)| match formed {
            b'0' => byte.is_ascii_digit(),
            _ => byte == formed,
        })
    };
    text.as_bytes().windows(form.len()).filter(is_date).count()
}

#[test]
fn an_older_archive_is_taken_only_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    // Dates have seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = carried.export("second.tar", "kafka", &[]);
    let data = folder.path().join("there");
    assert!(import(&second, &data).status.success());
    let before = files(&data);
    let finished = import(&first, &data);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    for said in ["the catalog a", "newer here", "--older"] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    assert_eq!(dates_in(&finished.stderr), 2, "{finished:?}");
    assert!(files(&data).keys().eq(before.keys()));
    let finished = import_with(&first, &data, &["--older"]);
    assert!(finished.status.success(), "{finished:?}");
    let mut there = Almanac::start_in(&data, &format!("offline = true\n{}", carried.config));
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
}

#[test]
fn an_import_of_another_source_is_failing_offline_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("first.tar", "etcd", &[]);
    let data = folder.path().join("there");
    // Only `b` is where it was.
    let moved = carried.config.replace("/a\"", "/elsewhere\"");
    assert_ne!(moved, carried.config);
    let config = format!("offline = true\n{moved}{}", catalog("c", "file:/nowhere"));
    let file = folder.path().join("almanac.toml");
    fs::write(&file, &config).unwrap();
    let finished = import_with(&archive, &data, &[&format!("--config={}", file.display())]);
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        finished.stderr.contains("almanac: a is of file:"),
        "{finished:?}"
    );
    assert!(
        finished.stderr.contains("the same source on both sides"),
        "{finished:?}"
    );
    assert!(!finished.stderr.contains("almanac: b"), "{finished:?}");
    let mut there = Almanac::start_in(&data, &config);
    for (name, reason) in [
        ("a", "the stored revision is of file:"),
        ("c", "no revision of the catalog is stored"),
    ] {
        let status = there.until(name, "a reason", |status| status["state"] != "loading");
        assert_eq!(status["state"], "failing", "{status}");
        let error = status["last_error"].as_str().unwrap();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(there.status("b")["state"], "serving");
    assert_eq!(there.status("b")["last_error"], Value::Null);
    let log = there.program.log();
    let stored = log.matches("no revision of the catalog is stored").count();
    assert_eq!(stored, 1, "{log}");
}

#[test]
fn that_nothing_is_new_is_said_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let data = folder.path().join("there");
    assert!(import(&first, &data).status.success());
    let newest = ["a", "b"].map(|name| carried.almanac.status(name)["revision"]["id"].as_u64());
    let newest = newest.into_iter().flatten().max().unwrap();
    let archive = folder.path().join("second.tar");
    let by_file = format!("--since={}", first.display());
    for since in [by_file, format!("--since={newest}")] {
        let finished = export(&carried.almanac, &archive, &[&since]);
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
        let finished = import(&archive, &data);
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
    }
    // Nor is it when an archive between has left a catalog out.
    let first = format!("--since={}", first.display());
    assert!(
        export(&carried.almanac, &archive, &[&first, "--catalog=a"])
            .status
            .success()
    );
    let last = folder.path().join("third.tar");
    let since = format!("--since={}", archive.display());
    let finished = export(&carried.almanac, &last, &[&since]);
    assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
    let since = format!("--since={}", newest + 1);
    let finished = export(&carried.almanac, &archive, &[&since]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    for said in ["there is no revision", "a at ", "b at "] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
}

#[test]
fn a_number_that_was_taken_is_said_with_the_one_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("first.tar", "etcd", &["--catalog=a"]);
    let there = carried.almanac.status("a")["revision"]["id"].to_string();
    // Another catalog has both numbers on the other side.
    let own = tempfile::tempdir().unwrap();
    let config = carried.config.replace("name = \"a\"", "name = \"c\"");
    let mut almanac =
        Almanac::start_in(own.path(), &config.replace("name = \"b\"", "name = \"d\""));
    almanac.until_pullable("c");
    almanac.until_pullable("d");
    almanac.stop();
    let finished = import(&archive, own.path());
    assert!(finished.status.success(), "{finished:?}");
    let said = format!("imported a at revision 3, which was {there} there");
    assert!(finished.stderr.contains(&said), "{finished:?}");
}

#[test]
fn a_configuration_exports_its_own_catalogs() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    carried.export("all.tar", "etcd", &[]);
    let archive = folder.path().join("one.tar");
    let with = |catalogs: &[&str]| {
        let path = folder.path().join("almanac.toml");
        let catalogs = catalogs.iter().map(|name| catalog(name, "file:/nowhere"));
        fs::write(&path, catalogs.collect::<String>()).unwrap();
        export(
            &carried.almanac,
            &archive,
            &[&format!("--config={}", path.display())],
        )
    };
    let finished = with(&["b", "later"]);
    assert!(finished.status.success(), "{finished:?}");
    for said in [
        "exported b at",
        "does not have them: a;",
        "nothing is stored of later",
    ] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    assert!(!finished.stderr.contains("exported a"), "{finished:?}");
    let finished = with(&["later"]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("a, b"), "{finished:?}");
    // As before where the configuration only says where.
    let finished = with(&[]);
    assert!(finished.stderr.contains("exported a at"), "{finished:?}");
}

/// Serves an image index that lacks one of its platforms, and returns its digest.
fn serve_without_a_platform(upstream: &Upstream) -> images::digest::Digest {
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one("etcd"))
            .platform("linux", architecture)
            .build()
    };
    let other = of_platform("arm64");
    let index = Index::new()
        .image(of_platform("amd64"))
        .image(other)
        .build();
    index.for_each_blob(|blob| {
        upstream.put_blob(blob.bytes.clone());
    });
    let mut manifests = Vec::new();
    index.for_each_manifest(|manifest| manifests.push(manifest.clone()));
    for (name, manifest) in [
        (manifests[0].digest.to_string(), &manifests[0]),
        ("v4.20".to_owned(), &index.top),
    ] {
        let bytes = manifest.bytes.clone();
        upstream.put_manifest(REPOSITORY, &name, bytes, manifest.media_type);
    }
    index.digest()
}

#[test]
fn a_catalog_without_its_image_stands_in_nobodys_way() {
    let upstream = Upstream::start();
    let digest = serve_without_a_platform(&upstream);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("catalog");
    fs::create_dir(&source).unwrap();
    Catalog::one("vault").write_to(&source, Format::Yaml);
    let config = format!(
        "{}{}mirror = \"full\"\n",
        following(&format!("file:{}", source.display())),
        catalog("b", &upstream.reference(REPOSITORY, "v4.20"))
    );
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    almanac.until_at("b", &digest);
    let archive = folder.path().join("all.tar");
    let finished = export(&almanac, &archive, &[]);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    let wanted = "the image of the catalog b is not made yet";
    for said in [wanted, "name the other catalogs with --catalog"] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    let finished = export(&almanac, &archive, &["--catalog=a"]);
    assert!(finished.status.success(), "{finished:?}");
}

#[test]
fn an_image_that_was_not_made_yet_is_made_offline() {
    let upstream = Upstream::start();
    let digest = serve_without_a_platform(&upstream);
    let config = following(&upstream.reference(REPOSITORY, "v4.20"));
    // The whole image cannot be mirrored.
    let mut almanac = Almanac::start(&format!("{config}mirror = \"full\"\n"));
    almanac.until_at("a", &digest);
    assert_ne!(almanac.http("/v2/a/manifests/latest").status, 200);
    almanac.stop();
    upstream.forget_requests();
    almanac.restart_with(&format!("offline = true\n{config}"));
    almanac.until_pullable("a");
    assert_eq!(almanac.http("/v2/a/manifests/v4.20").status, 200);
    assert_eq!(upstream.lines(), [""; 0]);
}

#[test]
fn a_curated_catalog_is_made_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let archive = carried.export("all.tar", "etcd", &[]);
    let data = folder.path().join("there");
    assert!(import(&archive, &data).status.success());
    let curated = |name: &str, from: &str| {
        format!(
            "\n[[catalog]]\nname = {name:?}\nfrom = [{from:?}]\npackages = [{{ name = \"etcd\" }}]\n"
        )
    };
    // The first is made of the second, and what the last is made of is nowhere.
    let config = format!(
        "offline = true\n{}{}{}{}{}",
        carried.config,
        curated("first", "second"),
        curated("second", "a"),
        catalog("nowhere", "registry.invalid/x:1"),
        curated("last", "nowhere"),
    );
    let mut there = Almanac::start_in(&data, &config);
    there.program.wait_until_ready();
    assert_eq!(there.packages("first").unwrap(), ["etcd"]);
    there.until_pullable("first");
    assert_eq!(there.status("last")["failures"], 0);
    assert_eq!(there.all("last").status, 503);

    // The next archive is taken beside what was made.
    there.stop();
    let next = carried.export("next.tar", "kafka", &[]);
    assert!(import(&next, &data).status.success());
    let config = config.replace("name = \"etcd\" }]", "name = \"kafka\" }]");
    let mut there = Almanac::start_in(&data, &config);
    let begin = Instant::now();
    while there.packages("first").ok() != Some(vec!["kafka".to_owned()]) {
        assert!(begin.elapsed().as_secs() < 30);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_no_archive_is_told_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let tar_of = |name: &str, text: &[u8]| {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, text).unwrap();
        archive.into_inner().unwrap()
    };
    let compressed = {
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut encoder = encoder;
        std::io::Write::write_all(&mut encoder, &tar_of("oci-layout", b"{}")).unwrap();
        encoder.finish().unwrap()
    };
    for (bytes, said) in [
        (compressed, "gunzip"),
        (tar_of("manifest.json", b"[]"), "oci-archive:FILE"),
        // As other tools write it.
        (
            tar_of("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#),
            "oci-archive:FILE",
        ),
        (b"not at all".to_vec(), "it is not a tar"),
        (Vec::new(), "it is empty"),
    ] {
        fs::write(&path, bytes).unwrap();
        let data = folder.path().join("data");
        let finished = import(&path, &data);
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        assert!(finished.stderr.contains(said), "{said}: {finished:?}");
        assert!(!data.exists());
    }
}

#[test]
fn an_export_into_a_folder_that_is_not_there_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let carried = Carried::start(&folder);
    let missing = folder.path().join("missing");
    let finished = export(&carried.almanac, &missing.join("a.tar"), &[]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let said = format!("there is no folder {} ", missing.display());
    assert!(finished.stderr.contains(&said), "{finished:?}");
}

#[test]
fn an_import_that_is_killed_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let second = carried.export("second.tar", "kafka", &[]);
    let there = folder.path().join("there");
    assert!(import(&first, &there).status.success());
    let copy = |name: &str| {
        let copy = folder.path().join(name);
        let copied = Command::new("cp").arg("-r").args([&there, &copy]).status();
        assert!(copied.unwrap().success());
        copy
    };
    let whole = copy("whole");
    let begin = Instant::now();
    assert!(import(&second, &whole).status.success());
    let time = begin.elapsed();
    let config = format!("offline = true\n{}", carried.config);
    for step in 0..8 {
        let data = copy(&format!("killed-{step}"));
        let mut program = Start::new(["import"])
            .argument(format!("--data-dir={}", data.display()))
            .argument(second.display().to_string())
            .start();
        std::thread::sleep(time * step / 8);
        program.kill9();
        let mut almanac = Almanac::start_in(&data, &config);
        almanac.program.wait_until_ready();
        let packages = almanac.packages("a").unwrap();
        assert!(["etcd", "kafka"].contains(&&*packages[0]), "{packages:?}");
        assert!(almanac.all("a").text().contains(&packages[0]));
        assert_eq!(almanac.http("/v2/a/manifests/latest").status, 200);
        assert_eq!(almanac.packages("b").unwrap(), ["vault"]);
        almanac.stop();
        // The next one succeeds, and nothing is left of the one before.
        assert!(import(&second, &data).status.success());
        let names = |data: &Path| -> Vec<String> {
            let blobs = fs::read_dir(data.join("blobs/sha256")).unwrap();
            let mut names: Vec<String> = blobs
                .map(|blob| blob.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&data), names(&whole));
    }
}

#[test]
fn an_export_that_is_killed_leaves_no_half_of_an_archive() {
    let side = Side::start();
    let begin = Instant::now();
    let whole = fs::read(side.exported("whole.tar", &[])).unwrap();
    let time = begin.elapsed();
    let file = side.path("killed.tar");
    for step in 0..8 {
        let mut program = Start::new(["export"])
            .argument(format!(
                "--data-dir={}",
                side.almanac.program.data().display()
            ))
            .argument(format!("--file={}", file.display()))
            .start();
        std::thread::sleep(time * step / 8);
        program.kill9();
        // All of it has the name, or nothing has.
        if file.exists() {
            assert!(fs::read(&file).unwrap() == whole, "step {step}");
            fs::remove_file(&file).unwrap();
        }
    }
    // What a killed one left is no hindrance, and is removed.
    let left = side.path(".almanac-export-left");
    fs::write(&left, "").unwrap();
    let running = side.path(".almanac-export-running");
    let file = fs::File::create(&running).unwrap();
    file.lock().unwrap();
    let again = side.exported("killed.tar", &[]);
    assert!(fs::read(again).unwrap() == whole);
    let entries = fs::read_dir(side.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unfinished: Vec<String> = names.filter(|name| name.starts_with('.')).collect();
    assert_eq!(unfinished, [".almanac-export-running"]);
}
