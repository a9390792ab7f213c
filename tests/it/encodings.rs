//! The whole of a catalog in encodings that are made after it is served: who
//! gets which, and what becomes of their files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::http::{fruit, fruit_served};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, entry};
use crate::support::http::{self, Reply};
use crate::support::image::Image;
use crate::support::program::{PATIENCE, pause};
use crate::support::served::{Folders, Served};
use crate::support::upstream::Upstream;

const ALL: &str = "/catalogs/fruit/api/v1/all";
const METAS: &str = "/catalogs/fruit/api/v1/metas";
const BUNDLES: &str = "/catalogs/fruit/api/v1/metas?schema=olm.bundle";

/// Waits until the whole of the catalog `fruit` is encoded, which is done when
/// nobody else wants the processor.
pub(crate) fn wait(served: &mut Served) {
    served.wait_for_status_within(Duration::from_mins(2), "fruit", |status| {
        let bytes = &status["revision"]["bytes"];
        ["gzip", "zstd", "segments"]
            .iter()
            .all(|form| bytes[form].is_u64())
    });
}

fn ask(served: &Served, path: &str, accepted: &str) -> Reply {
    served.ask("GET", path, &[("Accept-Encoding", accepted)])
}

fn decode(reply: &Reply) -> Vec<u8> {
    match reply.header("content-encoding") {
        None => reply.body.clone(),
        Some("gzip") => {
            let mut decoder = flate2::bufread::GzDecoder::new(&reply.body[..]);
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
            assert!(decoder.into_inner().is_empty(), "one member and no more");
            plain
        }
        Some("zstd") => zstd::decode_all(&reply.body[..]).unwrap(),
        Some(other) => panic!("{other}"),
    }
}

/// The folder of the one revision there is.
fn revision(served: &Served) -> PathBuf {
    let revisions = fs::read_dir(served.program.data().join("revisions")).unwrap();
    let mut folders = revisions.map(|entry| entry.unwrap().path());
    let folder = folders.next().unwrap();
    assert_eq!(folders.next(), None);
    folder
}

#[test]
fn a_client_gets_the_best_encoding_that_it_takes() {
    let mut served = fruit_served();
    wait(&mut served);
    let plain = served.get(ALL);
    let mut tags = std::collections::BTreeSet::new();
    for path in [ALL, METAS] {
        for (accepted, wanted) in [
            ("", None),
            ("identity", None),
            ("br, deflate", None),
            ("gzip", Some("gzip")),
            ("*", Some("gzip")),
            ("zstd", Some("zstd")),
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("gzip;q=1.0, zstd;q=0.5", Some("gzip")),
            ("gzip;q=0.5, zstd;q=0.5", Some("zstd")),
            ("zstd;q=0, gzip;q=0.001", Some("gzip")),
            ("identity;q=1, gzip;q=0.5", None),
            ("identity;q=0, zstd;q=0.1", Some("zstd")),
            ("*;q=0", None),
        ] {
            let reply = ask(&served, path, accepted);
            assert_eq!(reply.status, 200, "{accepted}");
            assert_eq!(reply.header("content-encoding"), wanted, "{accepted}");
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
            let length = reply.body.len().to_string();
            assert_eq!(reply.header("content-length"), Some(&*length));
            assert_eq!(reply.header("last-modified"), plain.header("last-modified"));
            assert!(decode(&reply) == plain.body, "{accepted}");
            let tag = reply.header("etag").unwrap().to_owned();
            assert!(tag.starts_with('"'), "{tag} is strong");
            tags.insert((wanted.unwrap_or_default().to_owned(), tag));
            let head = served.ask("HEAD", path, &[("Accept-Encoding", accepted)]);
            for header in ["etag", "content-length", "content-encoding"] {
                assert_eq!(head.header(header), reply.header(header), "{accepted}");
            }
        }
    }
    // Each has a tag of its own.
    assert_eq!(tags.len(), 3, "{tags:?}");
    // The whole compresses better than each blob alone.
    let status = served.status("fruit");
    let bytes = &status["revision"]["bytes"];
    assert_eq!(bytes["identity"], plain.body.len());
    let segments = fs::metadata(revision(&served).join("metas.deflate")).unwrap();
    assert!(bytes["gzip"].as_u64().unwrap() < segments.len());
    assert!(bytes["zstd"].as_u64().unwrap() < segments.len());
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    for encoding in ["gzip", "zstd"] {
        let line = format!(
            "almanac_catalog_encoded_bytes{{catalog=\"fruit\",encoding=\"{encoding}\"}} {}",
            bytes[encoding]
        );
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn a_selection_and_what_is_small_are_as_they_were() {
    let mut served = fruit_served();
    wait(&mut served);
    let path = format!("{METAS}?schema=olm.bundle");
    let plain = served.get(&path);
    assert_eq!(ask(&served, &path, "zstd").header("content-encoding"), None);
    let packed = ask(&served, &path, "zstd, gzip");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(decode(&packed) == plain.body);
    let small = format!("{METAS}?schema=olm.package&name=apple");
    assert_eq!(
        ask(&served, &small, "gzip").header("content-encoding"),
        None
    );
    // Unless the client would have it in no other way.
    let packed = ask(&served, &small, "gzip, identity;q=0");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(decode(&packed) == served.get(&small).body);
}

#[test]
fn a_client_keeps_the_form_that_it_has() {
    let mut served = fruit_served();
    wait(&mut served);
    let accepted = ("Accept-Encoding", "gzip, zstd");
    let forms = ["identity", "gzip", "zstd"].map(|form| ask(&served, ALL, form));
    for form in &forms {
        let tag = form.header("etag").unwrap();
        for path in [ALL, METAS] {
            let headers = [accepted, ("If-None-Match", tag)];
            let reply = served.ask("GET", path, &headers);
            assert_eq!((reply.status, reply.header("etag")), (304, Some(tag)));
            assert!(reply.body.is_empty());
            let reply = served.ask("GET", path, &[accepted, ("If-Match", tag)]);
            assert_eq!((reply.status, reply.header("etag")), (200, Some(tag)));
        }
        // The rest of what it has a piece of.
        let reply = served.ask(
            "GET",
            ALL,
            &[accepted, ("Range", "bytes=100-"), ("If-Range", tag)],
        );
        assert_eq!(reply.status, 206);
        let encoding = reply.header("content-encoding");
        assert_eq!(encoding, form.header("content-encoding"));
        assert_eq!(reply.header("etag"), Some(tag));
        let told = format!("bytes 100-{}/{}", form.body.len() - 1, form.body.len());
        assert_eq!(reply.header("content-range"), Some(&*told));
        assert!(reply.body == form.body[100..]);
    }
    // One that it does not take any more is another.
    let zstd = forms[2].header("etag").unwrap();
    let headers = [("Accept-Encoding", "gzip"), ("If-None-Match", zstd)];
    let reply = served.ask("GET", ALL, &headers);
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    assert_eq!(reply.status, 200);
    // A piece of something that is no more: the whole, as good as it gets.
    let headers = [accepted, ("Range", "bytes=100-"), ("If-Range", "\"x\"")];
    let reply = served.ask("GET", ALL, &headers);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-encoding"), Some("zstd"));
    assert!(decode(&reply) == forms[0].body);
}

/// A program that has encoded the whole and ended, the whole, and the folder of its revision.
fn encoded_and_ended() -> (Served, Vec<u8>, PathBuf) {
    let folders = Folders::of("fruit", &fruit());
    let arguments = folders.sources().into_iter();
    let served = Served::start(arguments.chain(["--poll".into(), "never".into()]));
    let mut served = served.keeping(&folders);
    wait(&mut served);
    let plain = served.get(ALL).body;
    let folder = revision(&served);
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
    (served, plain, folder)
}

#[test]
fn a_file_that_is_not_whole_is_never_served_and_made_again() {
    let (served, plain, folder) = encoded_and_ended();
    // What a crash may leave, and what a disk may do.
    let left = folder.parent().unwrap().join("new-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("all.gz"), "half").unwrap();
    let cut = |name: &str, keep: fn(u64) -> u64| {
        let writable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(folder.join(name), writable).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(folder.join(name))
            .unwrap();
        file.set_len(keep(file.metadata().unwrap().len())).unwrap();
    };
    cut("all.gz", |length| length - 1);
    cut("all.zst", |length| length / 2);
    let mut served = served.start_again();
    assert!(!left.exists());
    for _ in 0..2 {
        for accepted in ["gzip", "zstd", "identity"] {
            assert!(decode(&ask(&served, ALL, accepted)) == plain, "{accepted}");
        }
        wait(&mut served);
    }
    assert!(served.program.log().contains("an encoded file is damaged"));
    // Files that are there are not made again.
    let made = |name| fs::metadata(folder.join(name)).unwrap().modified().unwrap();
    let before = ["all.gz", "all.zst"].map(made);
    let mut served = served.restart();
    wait(&mut served);
    assert_eq!(["all.gz", "all.zst"].map(made), before);
}

#[test]
fn without_room_for_its_file_the_whole_is_sent_in_segments() {
    let (mut served, plain, folder) = encoded_and_ended();
    // A folder in its place that cannot be replaced.
    let block = |name| {
        fs::remove_file(folder.join(name)).unwrap();
        fs::create_dir_all(folder.join(name).join("full")).unwrap();
    };
    for name in ["all.gz", "all.zst"] {
        block(name);
    }
    served.program.restart();
    served.program.wait_until_ready();
    served.program.wait_for_log("two warnings", |log| {
        log.matches("could not be encoded").count() == 2
    });
    let all = |served: &mut Served, accepted| {
        let headers = [("Accept-Encoding", accepted)];
        let http = served.program.address("http");
        http::ask(http, "GET", ALL, &headers, b"").unwrap()
    };
    let packed = all(&mut served, "zstd, gzip");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(decode(&packed) == plain);
    assert_eq!(all(&mut served, "zstd").header("content-encoding"), None);

    // Without segments, the lines are sent as they are.
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
    block("metas.deflate");
    served.program.restart();
    served.program.wait_until_ready();
    let reply = all(&mut served, "zstd, gzip");
    assert_eq!(reply.header("content-encoding"), None);
    assert!(reply.body == plain);
}

#[test]
fn encodings_go_with_their_revision_and_come_with_the_next() {
    let folders = Folders::of("fruit", &fruit());
    let arguments = folders.sources().into_iter();
    let mut served = Served::start(arguments.chain(["--poll".into(), "100ms".into()]));
    for _ in 0..3 {
        for catalog in [Catalog::small(), fruit()] {
            let before = served.status("fruit")["revision"]["id"].clone();
            folders.replace("fruit", &catalog);
            served.wait_for_status("fruit", |status| status["revision"]["id"] != before);
        }
    }
    wait(&mut served);
    let plain = served.get(ALL).body;
    assert!(decode(&ask(&served, ALL, "zstd")) == plain);
    assert!(decode(&ask(&served, ALL, "gzip")) == plain);
    let begin = std::time::Instant::now();
    let revisions = || fs::read_dir(served.program.data().join("revisions")).unwrap();
    while revisions().count() > 1 {
        assert!(begin.elapsed() < crate::support::program::PATIENCE);
        pause(begin);
    }
    assert!(
        !served.program.log().contains("could not be"),
        "{}",
        served.program.log()
    );
}

#[test]
fn a_client_that_comes_when_almanac_is_ready_gets_gzip() {
    let mut served = Served::catalogs(&Folders::of("fruit", &fruit()));
    served.program.wait_until_ready();
    for path in [ALL, BUNDLES] {
        let reply = ask(&served, path, "gzip");
        assert_eq!(reply.header("content-encoding"), Some("gzip"), "{path}");
        assert!(decode(&reply) == served.get(path).body, "{path}");
    }
}

/// A source that is built anew every night often has the same content.
#[test]
fn a_new_revision_with_the_same_content_keeps_all_forms() {
    let upstream = Upstream::start();
    let image = |note: &str| {
        let catalog = Image::of_catalog(&fruit());
        catalog.label("note", note).build()
    };
    upstream.push("a/fruit", "v1", &image("first"));
    let source = upstream.reference("a/fruit", "v1");
    let config = format!("poll = \"100ms\"\n{}", catalog("fruit", &source));
    let mut almanac = Almanac::start(&config);
    almanac.until_whole("fruit");
    almanac.until_encoded(1);
    let forms = [(ALL, "gzip"), (ALL, "zstd"), (BUNDLES, "gzip")];
    let address = almanac.program.address("http");
    let get = |path, accepted: &str, tag: &str| {
        let headers = [("Accept-Encoding", accepted), ("If-None-Match", tag)];
        http::ask(address, "GET", path, &headers, b"").unwrap()
    };
    let tags = forms.map(|(path, accepted)| {
        let reply = get(path, accepted, "\"none\"");
        assert_eq!(reply.header("content-encoding"), Some(accepted));
        reply.header("etag").unwrap().to_owned()
    });
    for note in ["second", "third"] {
        let image = image(note);
        upstream.push("a/fruit", "v1", &image);
        let begin = std::time::Instant::now();
        loop {
            // Also at the moment at which the new revision is published.
            for ((path, accepted), tag) in forms.iter().zip(&tags) {
                assert_eq!(get(path, accepted, tag).status, 304, "{path} {accepted}");
            }
            let status = almanac.status("fruit");
            if status["revision"]["digest"] == image.digest().to_string() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{status:#}");
        }
        for _ in 0..50 {
            for ((path, accepted), tag) in forms.iter().zip(&tags) {
                assert_eq!(get(path, accepted, tag).status, 304, "{path} {accepted}");
            }
        }
    }
}

/// The image of the catalog `fruit`, as soon as it is another one than `before`.
fn image(served: &Served, before: &[u8]) -> Vec<u8> {
    let begin = std::time::Instant::now();
    loop {
        let reply = served.get("/v2/fruit/manifests/latest");
        if reply.status == 200 && reply.body != before {
            return reply.body;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", reply.status);
        pause(begin);
    }
}

/// Each version is compressed in part by the one before.
#[test]
fn updates_back_and_forth_answer_as_a_fresh_store_does() {
    let changed = fruit().package("added", |package| {
        package.channel("stable", [entry("added.v1.0.0"), entry("added.v2.0.0")])
    });
    // In an order, and with repetitions, that leave little to copy.
    let mixed = (0..90).fold(changed.clone(), |catalog, number| {
        let package = ["added", "apple"][number % 2];
        catalog.blob(serde_json::json!({
            "schema": "example.text",
            "package": package,
            "name": format!("{}", number % 7),
            "text": "text ".repeat(400),
        }))
    });
    let sides = [fruit(), changed, mixed];
    let folders = Folders::of("fruit", &sides[0]);
    let mut served = Served::catalogs(&folders);
    let answers = |served: &mut Served| {
        wait(served);
        [(ALL, "gzip"), (ALL, "zstd"), (BUNDLES, "gzip")].map(|(path, encoding)| {
            let reply = ask(served, path, encoding);
            assert_eq!(reply.header("content-encoding"), Some(encoding));
            assert!(!decode(&reply).is_empty());
            reply.body
        })
    };
    let expected = sides.clone().map(|side| {
        let mut served = Served::catalogs(&Folders::of("fruit", &side));
        let image = image(&served, b"");
        (served.get(ALL).body, answers(&mut served), image)
    });
    let mut before = image(&served, b"");
    assert!(before == expected[0].2);
    for round in 1..9 {
        let number = round % sides.len();
        folders.replace("fruit", &sides[number]);
        let begin = std::time::Instant::now();
        while served.get(ALL).body != expected[number].0 {
            assert!(begin.elapsed() < PATIENCE, "round {round}");
            pause(begin);
        }
        if round == 4 {
            served = served.restart();
            served.program.wait_until_ready();
        }
        assert!(answers(&mut served) == expected[number].1, "round {round}");
        before = image(&served, &before);
        assert!(before == expected[number].2, "round {round}");
    }
}
