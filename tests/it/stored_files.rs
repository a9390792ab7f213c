//! Stored files that rot, are written to or cut: nothing wrong is served for long,
//! and what is damaged is rebuilt. Catalogs beside it go on.

use std::fs::{self, File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use images::digest::Digest;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::image::Image;
use crate::support::program::PATIENCE;
use crate::support::store::forget_sums;
use crate::support::upstream::Upstream;

/// Stored files are compared all the time.
const OFTEN: &str = "\n[scrub]\ninterval = \"100ms\"\n";
/// Stored files are compared once after each start, and when their dates change.
const ONCE: &str = "\n[scrub]\ninterval = \"never\"\n";
/// The files of a revision, without `metas.jsonl`, from which all others are made.
const MADE: [&str; 3] = ["messages.pb", "queries.jsonl", "index.bin"];
/// The files that are made after the publication.
const ENCODED: [&str; 4] = ["metas.deflate", "all.gz", "all.zst", "groups.bin"];

/// A catalog `a` of a folder that is read once.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        Catalog::small().write_to(&source, Format::Yaml);
        Self { folder }
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    fn config(&self, scrub: &str) -> String {
        let source = format!("file:{}", self.source().display());
        format!("poll = \"never\"\n{}{scrub}", catalog("a", &source))
    }

    /// Nobody can read the source any more.
    fn take_away(&self) {
        fs::rename(self.source(), self.folder.path().join("away")).unwrap();
    }

    fn bring_back(&self) {
        fs::rename(self.folder.path().join("away"), self.source()).unwrap();
    }
}

/// A catalog that is served whole.
fn serving(scrub: &str) -> (Place, Almanac) {
    let place = Place::new();
    let mut almanac = Almanac::start(&place.config(scrub));
    almanac.until_whole("a");
    (place, almanac)
}

/// The layer of the catalog's image, and the file of it.
fn layer_of(almanac: &mut Almanac) -> (Digest, PathBuf) {
    let manifest = almanac.until_pullable("a");
    let document: Value = serde_json::from_slice(&manifest.body).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    let layer: Digest = layer.parse().unwrap();
    let blobs = almanac.program.data().join("blobs/sha256");
    let file = blobs.join(layer.hex());
    (layer, file)
}

/// Answers to clients of the catalog.
fn answers(almanac: &mut Almanac) -> Vec<(String, u16, Vec<u8>)> {
    let mut answers = Vec::new();
    let paths = [
        "all",
        "metas?schema=olm.bundle",
        "packages",
        "packages/etcd",
        "packages/etcd/channels",
    ];
    let address = almanac.program.address("http");
    for path in paths {
        for encoding in ["identity", "gzip"] {
            let url = format!("/catalogs/a/api/v1/{path}");
            let headers = [("Accept-Encoding", encoding)];
            let reply = http::ask(address, "GET", &url, &headers, b"").unwrap();
            let plain = match reply.header("content-encoding") {
                Some("gzip") => {
                    let mut plain = Vec::new();
                    let mut gzip = flate2::read::GzDecoder::new(&reply.body[..]);
                    gzip.read_to_end(&mut plain).unwrap();
                    plain
                }
                _ => reply.body.clone(),
            };
            answers.push((format!("{encoding} {path}"), reply.status, plain));
        }
    }
    let packages = almanac.packages("a").unwrap().join(",");
    answers.push(("ListPackages".into(), 200, packages.into_bytes()));
    answers
}

/// A file of the one revision, once there is only one.
fn file(almanac: &Almanac, name: &str) -> PathBuf {
    let begin = Instant::now();
    loop {
        let revisions = almanac.revisions();
        if let [revision] = &revisions[..]
            && !revision.starts_with("new-")
        {
            let folder = almanac.program.data().join("revisions").join(revision);
            // After a repair, encodings come a moment later.
            if folder.join(name).exists() {
                return folder.join(name);
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{revisions:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn writable(path: &Path) -> File {
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Changes a byte in the middle, and leaves no other trace, as a disk does.
pub(crate) fn flip(path: &Path) {
    let mut file = writable(path);
    let metadata = file.metadata().unwrap();
    let middle = SeekFrom::Start(metadata.len() / 2);
    let mut byte = [0];
    file.seek(middle).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(middle).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
    file.set_modified(metadata.modified().unwrap()).unwrap();
}

fn cut(path: &Path, length: impl Fn(u64) -> u64) {
    let file = writable(path);
    file.set_len(length(file.metadata().unwrap().len()))
        .unwrap();
}

fn until_verified(almanac: &mut Almanac) {
    almanac.until("a", "a verification", |status| {
        status["verified"].is_string()
    });
}

/// Waits until damage of a file was found and repaired.
fn until_repaired(almanac: &mut Almanac, name: &str) -> Value {
    let repaired = |status: &Value| {
        let files = status["damage"]["files"].to_string();
        let is_done = status["damage"]["repair"] == "done" && status["state"] == "serving";
        files.contains(name) && is_done
    };
    almanac.until("a", &format!("the repair of {name}"), repaired)
}

#[test]
fn a_flipped_byte_in_a_made_file_is_found_and_the_file_made_again() {
    let (place, mut almanac) = serving(OFTEN);
    let before = answers(&mut almanac);
    let date = almanac.status("a")["revision"]["modified"].clone();
    // Only other stored files can help.
    place.take_away();
    for name in MADE {
        almanac.until_encoded(1);
        flip(&file(&almanac, name));
        let status = until_repaired(&mut almanac, name);
        assert_eq!(status["revision"]["modified"], date, "{name}");
        assert!(answers(&mut almanac) == before, "{name}");
        let counted = format!("almanac_stored_damage_total{{catalog=\"a\",file=\"{name}\"}} 0\n");
        assert!(!almanac.metrics().contains(&counted), "{name}");
        let log = almanac.program.log();
        assert!(log.contains(&format!("{name} is damaged")), "{log}");
    }
    almanac.until_whole("a");
    assert!(answers(&mut almanac) == before);
}

#[test]
fn a_flipped_byte_in_an_encoded_file_is_found_and_the_file_encoded_again() {
    let (_place, mut almanac) = serving(OFTEN);
    almanac.until_encoded(1);
    let before = answers(&mut almanac);
    let revision = almanac.status("a")["revision"]["id"].clone();
    for name in ENCODED {
        let path = file(&almanac, name);
        let good = fs::read(&path).unwrap();
        flip(&path);
        until_repaired(&mut almanac, name);
        assert!(answers(&mut almanac) == before, "{name}");
        let begin = Instant::now();
        while fs::read(&path).ok().as_ref() != Some(&good) {
            assert!(begin.elapsed() < PATIENCE, "{name} is not made again");
            std::thread::sleep(Duration::from_millis(10));
        }
        almanac.until_whole("a");
    }
    // Nothing else had to be made again.
    assert_eq!(almanac.status("a")["revision"]["id"], revision);
}

/// No client waits for this file.
#[test]
fn a_flipped_byte_in_what_the_next_revision_copies_takes_no_answer_away() {
    let (_place, mut almanac) = serving(OFTEN);
    let before = answers(&mut almanac);
    let revision = almanac.status("a")["revision"]["id"].clone();
    let path = file(&almanac, "pieces.bin");
    flip(&path);
    until_repaired(&mut almanac, "pieces.bin");
    assert!(answers(&mut almanac) == before);
    assert!(!path.exists());
    let counted = "almanac_stored_damage_total{catalog=\"a\",file=\"pieces.bin\"} 1\n";
    assert!(almanac.metrics().contains(counted));
    almanac.until_whole("a");
    assert_eq!(almanac.status("a")["revision"]["id"], revision);
}

/// Encodings are added after the publication, and count as the other files do.
#[test]
fn a_written_encoded_file_is_noticed_by_its_date() {
    let place = Place::new();
    let mut almanac = Almanac::start(&place.config(ONCE));
    until_verified(&mut almanac);
    almanac.until_encoded(1);
    for name in ENCODED {
        let path = file(&almanac, name);
        let good = fs::read(&path).unwrap();
        flip(&path);
        let changing = writable(&path);
        let begin = Instant::now();
        let counted = format!("almanac_stored_damage_total{{catalog=\"a\",file=\"{name}\"}} 1");
        // The date changes between any two looks.
        for seconds in 1.. {
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            changing.set_modified(date).unwrap();
            if almanac.metrics().contains(&counted) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{name}");
            std::thread::sleep(Duration::from_millis(50));
        }
        while fs::read(&path).ok().as_ref() != Some(&good) {
            assert!(begin.elapsed() < PATIENCE, "{name} is not made again");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn damaged_lines_are_read_from_the_source_again_and_others_go_on() {
    let place = Place::new();
    let other = tempfile::tempdir().unwrap();
    Catalog::one("other").write_to(other.path(), Format::Yaml);
    let other = catalog("b", &format!("file:{}", other.path().display()));
    let config = place.config(&other) + OFTEN;
    let mut almanac = Almanac::start(&config);
    almanac.until("b", "the other catalog", |status| {
        status["state"] == "serving"
    });
    almanac.until_whole("a");
    let before = answers(&mut almanac);
    place.take_away();
    let revision = almanac.status("a")["revision"]["id"].to_string();
    let folder = almanac.program.data().join("revisions").join(revision);
    flip(&folder.join("metas.jsonl"));
    // Without its source there is nothing to serve.
    let is_withdrawn = |status: &Value| status["state"] == "damaged" && status["failures"] != 0;
    let status = almanac.until("a", "damage", is_withdrawn);
    assert_eq!(status["damage"]["repair"], "reading");
    assert_eq!(almanac.all("a").status, 503);
    let refused = almanac.packages("a").unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let ready = almanac.ready();
    assert_eq!(
        (ready.status, &*ready.text()),
        (200, "ok; stored files are damaged: a\n")
    );
    assert_eq!(almanac.packages("b").unwrap(), ["other"]);
    let log = almanac.program.log();
    assert!(log.contains("metas.jsonl is damaged"), "{log}");
    assert!(log.contains("the source is read again"), "{log}");

    // Nor after a start.
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.all("a").status, 503);

    // The digest of the source is the same, and it is read nevertheless.
    place.bring_back();
    almanac.program.signal("HUP");
    almanac.until_whole("a");
    assert!(answers(&mut almanac) == before);
    assert_eq!(almanac.ready().text(), "ok\n");
}

#[test]
fn a_source_that_never_changes_is_read_again_when_its_lines_are_damaged() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::small()).build();
    upstream.push("a/b", "v1", &image);
    let tagged = upstream.reference("a/b", "v1");
    let (name, _) = tagged.rsplit_once(':').unwrap();
    let fixed = format!("{name}@{}", image.digest());
    let mut almanac = Almanac::start(&(following(&fixed) + OFTEN));
    almanac.until_at("a", &image.digest());
    almanac.until_whole("a");
    let before = answers(&mut almanac);
    flip(&file(&almanac, "metas.jsonl"));
    until_repaired(&mut almanac, "metas.jsonl");
    assert!(answers(&mut almanac) == before);
}

#[test]
fn damage_during_a_stop_is_found_after_the_start() {
    let (place, mut almanac) = serving(ONCE);
    almanac.until_encoded(1);
    let before = answers(&mut almanac);
    place.take_away();
    for name in [
        "messages.pb",
        "queries.jsonl",
        "metas.deflate",
        "all.gz",
        "groups.bin",
    ] {
        almanac.until_encoded(1);
        let path = file(&almanac, name);
        almanac.stop();
        flip(&path);
        almanac.program.restart();
        until_repaired(&mut almanac, name);
        assert!(answers(&mut almanac) == before, "{name}");
    }
}

#[test]
fn a_file_that_was_cut_is_never_served_in_part() {
    let (place, mut almanac) = serving(ONCE);
    let before = answers(&mut almanac);
    place.take_away();
    for name in MADE.into_iter().chain(["metas.jsonl"]) {
        let path = file(&almanac, name);
        almanac.stop();
        let whole = fs::read(&path).unwrap();
        cut(&path, |length| length / 2);
        almanac.program.restart();
        let list = before.iter().find(|(what, ..)| what == "identity packages");
        let (_, _, list) = list.unwrap();
        let begin = Instant::now();
        // Made again from the lines, or not served.
        let wanted = if name == "metas.jsonl" { 503 } else { 200 };
        loop {
            let reply = almanac.http("/catalogs/a/api/v1/packages");
            match reply.status {
                200 => assert!(reply.body == *list, "{name}: {}", reply.text()),
                other => assert_eq!(other, 503, "{name}"),
            }
            let status = almanac.status("a");
            if reply.status == wanted && (wanted == 200 || status["failures"] != 0) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{name}: {status:#}");
        }
        let log = almanac.program.log();
        let told = format!("bytes instead of {}", whole.len());
        assert!(log.contains(&told), "{name}: {log}");
    }
}

#[test]
fn a_mapped_file_that_is_cut_ends_the_program_with_a_clear_line() {
    let place = Place::new();
    let mut almanac = Almanac::start(&place.config(ONCE));
    let begin = Instant::now();
    loop {
        almanac.until_whole("a");
        until_verified(&mut almanac);
        let before = answers(&mut almanac);
        cut(&file(&almanac, "metas.jsonl"), |_| 0);
        let address = almanac.program.address("http");
        let path = "/catalogs/a/api/v1/metas?schema=olm.package";
        let Ok(reply) = http::get(address, path) else {
            let status = almanac.program.wait(PATIENCE);
            assert_eq!(status.code(), Some(74));
            let log = almanac.program.log();
            assert!(log.contains("while it was served (SIGBUS)"), "{log}");
            almanac.program.restart();
            almanac.until_whole("a");
            assert!(answers(&mut almanac) == before);
            return;
        };
        // The cut was noticed before the request.
        assert_eq!(reply.status, 503);
        assert!(begin.elapsed() < PATIENCE);
    }
}

#[test]
fn a_file_that_somebody_writes_to_is_noticed_by_its_date() {
    let (_place, mut almanac) = serving(ONCE);
    until_verified(&mut almanac);
    let before = answers(&mut almanac);
    let path = file(&almanac, "queries.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let mut file = writable(&path);
    file.write_all(&bytes).unwrap();
    until_repaired(&mut almanac, "queries.jsonl");
    assert!(answers(&mut almanac) == before);
}

#[test]
fn a_revision_of_a_version_without_sums_gets_them() {
    let (_place, mut almanac) = serving(ONCE);
    let before = answers(&mut almanac);
    let first = almanac.status("a")["revision"]["id"].clone();
    let data = almanac.program.data().to_owned();
    let forget = |damage: bool, almanac: &mut Almanac| {
        let path = file(almanac, "metas.jsonl");
        almanac.stop();
        forget_sums(&data);
        if damage {
            flip(&path);
        }
        almanac.program.restart();
    };
    forget(false, &mut almanac);
    until_verified(&mut almanac);
    let second = almanac.status("a")["revision"]["id"].clone();
    assert_ne!(first, second, "its files were made again, from its lines");
    assert!(answers(&mut almanac) == before);
    // Lines that are not those of its digest come from the source.
    forget(true, &mut almanac);
    until_repaired(&mut almanac, "metas.jsonl");
    assert!(answers(&mut almanac) == before);
}

#[test]
fn a_damaged_blob_is_never_sent_and_made_again() {
    let place = Place::new();
    let mut almanac = Almanac::start(&place.config(ONCE));
    let (layer, path) = layer_of(&mut almanac);
    until_verified(&mut almanac);
    almanac.stop();
    flip(&path);
    almanac.program.restart();
    until_pulled(&mut almanac, &layer);
    let status = until_repaired(&mut almanac, &layer.hex());
    assert_eq!(status["damage"]["files"].as_array().unwrap().len(), 1);
    let log = almanac.program.log();
    assert!(log.contains("does not have its digest"), "{log}");
}

#[test]
fn a_damaged_blob_of_a_mirrored_image_is_fetched_again() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::small()).build();
    upstream.push("a/b", "v1", &image);
    let config = following(&upstream.reference("a/b", "v1")) + "mirror = \"full\"\n" + ONCE;
    let mut almanac = Almanac::start(&config);
    let (layer, path) = layer_of(&mut almanac);
    almanac.stop();
    flip(&path);
    almanac.program.restart();
    until_pulled(&mut almanac, &layer);
}

/// Pulls a blob until it comes, which must be whole.
fn until_pulled(almanac: &mut Almanac, digest: &Digest) {
    almanac.until_pullable("a");
    let path = format!("/v2/a/blobs/{digest}");
    let begin = Instant::now();
    loop {
        let reply = almanac.http(&path);
        if reply.status == 200 {
            assert_eq!(Digest::of(&reply.body), *digest);
            return;
        }
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(begin.elapsed() < PATIENCE, "{}", almanac.status("a"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_damaged_record_is_written_again_while_the_catalog_is_served() {
    let (place, mut almanac) = serving(OFTEN);
    almanac.until_pullable("a");
    place.take_away();
    let before = answers(&mut almanac);
    for name in ["record.json", "image-record.json"] {
        flip(&file(&almanac, name));
        until_repaired(&mut almanac, name);
        almanac.until_whole("a");
        almanac.until_pullable("a");
        assert!(answers(&mut almanac) == before, "{name}");
        // The record has all that a lost database said.
        file(&almanac, name);
        almanac.stop();
        let data = almanac.program.data().to_owned();
        fs::remove_file(data.join("almanac.db")).unwrap();
        almanac.program.restart();
        almanac.until_whole("a");
        assert!(answers(&mut almanac) == before, "{name}");
        let search = almanac.http("/catalogs/a/api/v1/search?q=etcd");
        assert!(search.text().contains("etcd"), "{name}");
    }
}

#[test]
fn a_written_record_is_noticed_by_its_date() {
    let (_place, mut almanac) = serving(ONCE);
    almanac.until_pullable("a");
    until_verified(&mut almanac);
    // The stamps of before are taken.
    std::thread::sleep(Duration::from_secs(3));
    let path = file(&almanac, "record.json");
    writable(&path).set_len(7).unwrap();
    until_repaired(&mut almanac, "record.json");
}

#[test]
fn stored_files_are_read_only() {
    let (_place, mut almanac) = serving(ONCE);
    almanac.until_pullable("a");
    almanac.until_encoded(1);
    for folder in ["revisions", "blobs"] {
        let folder = almanac.program.data().join(folder);
        let files = almanac.files(folder.file_name().unwrap().to_str().unwrap());
        assert!(!files.is_empty());
        for name in files.keys() {
            let mode = fs::metadata(folder.join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o444, "{name}");
        }
    }
}

#[test]
fn the_interval_of_the_scrub_takes_effect_at_once() {
    let (place, mut almanac) = serving(ONCE);
    almanac.until_encoded(1);
    until_verified(&mut almanac);
    flip(&file(&almanac, "messages.pb"));
    let refused = place.config("\n[scrub]\nrate = 0\n");
    almanac.reconfigure(&refused);
    let state = almanac.until_configuration("a refusal", |state| state["error"].is_string());
    assert!(
        state["error"].to_string().contains("almanac.toml"),
        "{state}"
    );
    assert!(almanac.status("a")["damage"].is_null());
    almanac.reconfigure(&place.config(OFTEN));
    until_repaired(&mut almanac, "messages.pb");
}
