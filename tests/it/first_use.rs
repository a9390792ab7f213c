//! Stored files that were damaged while almanac was stopped: clients get no wrong byte,
//! from the first answer on.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::stored_files::flip;
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::http;

/// The verification of the files takes longer than the test.
const SLOW: &str = "\n[scrub]\ninterval = \"never\"\nrate = 1\n";

/// A catalog of several blocks, in all files.
fn large() -> Catalog {
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = || -> String { (0..1 << 20).map(|_| random.alphanumeric()).collect() };
    (0..5).fold(Catalog::new(), |catalog, number| {
        let description = text();
        catalog.package(&format!("large-{number}"), |package| {
            let head = entry(&format!("large-{number}.v1.0.0"));
            package.description(&description).channel("stable", [head])
        })
    })
}

fn started(source: &Path) -> Almanac {
    let source = format!("file:{}", source.display());
    let config = format!("poll = \"never\"\n{}{SLOW}", catalog("a", &source));
    let mut almanac = Almanac::start(&config);
    almanac.until_whole("a");
    almanac.until_encoded(1);
    almanac
}

/// The lines of the catalog, unpacked, or the status of a refusal.
fn lines(almanac: &mut Almanac, path: &str, accepted: &str) -> Result<Vec<u8>, u16> {
    let address = almanac.program.address("http");
    let headers = [("Accept-Encoding", accepted)];
    let path = format!("/catalogs/a/api/v1/{path}");
    let reply = http::ask(address, "GET", &path, &headers, b"").unwrap();
    if reply.status != 200 {
        return Err(reply.status);
    }
    Ok(match reply.header("content-encoding") {
        Some("gzip") => {
            let mut plain = Vec::new();
            let mut gzip = flate2::read::GzDecoder::new(&reply.body[..]);
            gzip.read_to_end(&mut plain).unwrap();
            plain
        }
        Some("zstd") => zstd::decode_all(&reply.body[..]).unwrap(),
        _ => reply.body,
    })
}

#[test]
fn no_wrong_byte_is_sent_right_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("catalog");
    fs::create_dir(&source).unwrap();
    large().write_to(&source, Format::JsonLines);
    let mut almanac = started(&source);
    let package = "/catalogs/a/api/v1/packages/large-2";
    let details = almanac.http(package).text();
    for (name, path, accepted) in [
        ("metas.jsonl", "all", "identity"),
        ("queries.jsonl", "all", "identity"),
        ("all.gz", "all", "gzip"),
        ("all.zst", "all", "zstd"),
        ("metas.deflate", "metas?schema=olm.package", "gzip"),
    ] {
        let good = lines(&mut almanac, path, "identity").unwrap();
        let revision = almanac.status("a")["revision"]["id"].to_string();
        almanac.stop();
        let stored = almanac.program.data().join("revisions").join(revision);
        flip(&stored.join(name));
        almanac.program.restart();
        almanac.program.wait_until_ready();
        let found = lines(&mut almanac, path, accepted);
        if name == "metas.jsonl" {
            assert_eq!(found, Err(503), "{name}");
        } else {
            assert!(found.unwrap() == good, "{name}");
        }
        let found = almanac.http(package);
        let is_right = found.status == 503 || found.text() == details;
        assert!(is_right, "{name}: {}", found.status);
        // What is damaged is made again, at once.
        let repaired = |status: &Value| {
            let files = status["damage"]["files"].to_string();
            let is_done = status["damage"]["repair"] == "done" && status["state"] == "serving";
            files.contains(name) && is_done
        };
        almanac.until("a", &format!("the repair of {name}"), repaired);
        almanac.until_whole("a");
        almanac.until_encoded(1);
        assert!(
            lines(&mut almanac, path, accepted).unwrap() == good,
            "{name}"
        );
    }
}

#[test]
fn no_wrong_byte_of_a_call_is_sent_right_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    large().write_to(folder.path(), Format::JsonLines);
    let mut almanac = started(folder.path());
    let good = almanac.packages("a").unwrap();
    let revision = almanac.status("a")["revision"]["id"].to_string();
    almanac.stop();
    let stored = almanac.program.data().join("revisions").join(revision);
    flip(&stored.join("messages.pb"));
    almanac.program.restart();
    almanac.program.wait_until_ready();
    match almanac.packages("a") {
        Ok(packages) => assert_eq!(packages, good),
        Err(refused) => assert_eq!(refused.code(), tonic::Code::Unavailable),
    }
}
