//! Stored files that were damaged while almanac was stopped: clients get no wrong byte,
//! from the first answer on.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use almanac::proto;
use almanac::snapshot::{Comparing, Query};
use serde_json::Value;

use crate::stored_files::flip;
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::Client;
use crate::support::http;
use crate::support::in_store::InStore;
use crate::support::runtime::block_on;

/// The verification of the files takes longer than the test.
const SLOW: &str = "\n[scrub]\ninterval = \"never\"\nrate = 1\n";

/// A catalog of several blocks, in all files.
fn large(packages: usize) -> Catalog {
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = || -> String { (0..1 << 20).map(|_| random.alphanumeric()).collect() };
    (0..packages).fold(Catalog::new(), |catalog, number| {
        let description = text();
        catalog.package(&format!("large-{number}"), |package| {
            let head = entry(&format!("large-{number}.v1.0.0"));
            package.description(&description).channel("stable", [head])
        })
    })
}

#[tokio::test]
async fn many_bytes_are_compared_on_no_thread_that_serves() {
    let place = InStore::new().await;
    place.publish(&large(8)).await;
    let encoding = place.encode();
    place.until_encoded().await;
    encoding.end().await;
    let snapshot = place.snapshot();
    // A few lines, which lie in all parts of the files.
    let query = Query {
        schema: Some("olm.channel".into()),
        ..Query::default()
    };
    let selection = snapshot.clone().select(&query);
    assert!(selection.length() < 4 << 10);
    assert!(selection.segments(Comparing::Few).is_err());
    assert!(selection.identity(Comparing::Few).is_err());
    // Later ones wait for nothing.
    for comparing in [Comparing::All, Comparing::Few] {
        let segments = selection.segments(comparing).unwrap().unwrap();
        let lines = selection.identity(comparing).unwrap();
        assert_eq!(lines.length, selection.length());
        let mut plain = Vec::new();
        let gzip = selection.gzip(&segments).parts.concat();
        let mut gzip = flate2::read::GzDecoder::new(&gzip[..]);
        gzip.read_to_end(&mut plain).unwrap();
        assert!(plain == lines.parts.concat());
    }
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
    large(5).write_to(&source, Format::JsonLines);
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

/// The answers of calls for all bundles: the list, and each bundle of `known` alone.
fn bundles(
    almanac: &mut Almanac,
    known: &[proto::Bundle],
) -> Vec<Result<Vec<proto::Bundle>, tonic::Code>> {
    let address = almanac.program.address("grpc");
    block_on(async {
        let client = Client::new(address);
        let list = "/api.Registry/ListBundles";
        let listed = client.stream(list, proto::ListBundlesRequest {});
        let mut answers = vec![listed.await.map_err(|refused| refused.code())];
        for bundle in known {
            let request = proto::GetBundleRequest {
                pkg_name: bundle.package_name.clone(),
                channel_name: bundle.channel_name.clone(),
                csv_name: bundle.csv_name.clone(),
            };
            let answer = client.unary("/api.Registry/GetBundle", request).await;
            answers.push(
                answer
                    .map(|one| vec![one])
                    .map_err(|refused| refused.code()),
            );
        }
        answers
    })
}

#[test]
fn no_wrong_byte_of_a_call_is_sent_right_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    large(5).write_to(folder.path(), Format::JsonLines);
    let mut almanac = started(folder.path());
    let known = bundles(&mut almanac, &[]).remove(0).unwrap();
    assert_eq!(known.len(), 5);
    let good = bundles(&mut almanac, &known);
    assert!(good.iter().all(Result::is_ok));
    let revision = almanac.status("a")["revision"]["id"].to_string();
    almanac.stop();
    let stored = almanac.program.data().join("revisions").join(revision);
    flip(&stored.join("messages.pb"));
    almanac.program.restart();
    almanac.program.wait_until_ready();
    let found = bundles(&mut almanac, &known);
    for (found, good) in found.into_iter().zip(good) {
        match found {
            Ok(_) => assert_eq!(found, good),
            Err(code) => assert_eq!(code, tonic::Code::Unavailable),
        }
    }
    // They needed the damaged bytes: nothing else has read them.
    almanac.until("a", "the damage", |status| {
        let files = status["damage"]["files"].to_string();
        files.contains("messages.pb")
    });
}
