//! The pull half of the OCI distribution API: the rows of the specification's
//! conformance checks, who may pull, and what becomes of images when catalogs
//! change. `distribution::clients` has clients that others wrote.

mod clients;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use images::digest::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::{self, Reply};
use crate::support::image::{Blob, Built, Image, Index};
use crate::support::upstream::Upstream;

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const REPOSITORY: &str = "operators/catalog";
const PATIENCE: Duration = Duration::from_secs(30);

/// A catalog `a` that comes from a folder, with its slim image.
struct Slim {
    almanac: Almanac,
    address: SocketAddr,
    manifest: Reply,
    _folder: TempDir,
}

impl Slim {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Catalog::small().write_to(folder.path(), Format::Yaml);
        let source = format!("file:{}", folder.path().display());
        let mut almanac = Almanac::start(&following(&source));
        let manifest = almanac.until_pullable("a");
        let address = almanac.program.address("http");
        Self {
            almanac,
            address,
            manifest,
            _folder: folder,
        }
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&self.manifest.body).unwrap()
    }

    fn layer(&self) -> String {
        self.document()["layers"][0]["digest"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        http::ask(self.address, method, path, headers, b"").unwrap()
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }
}

/// The code of an OCI error document.
fn code(reply: &Reply) -> String {
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    let error = &document["errors"][0];
    assert!(error["message"].is_string(), "{document}");
    error["code"].as_str().unwrap().to_owned()
}

/// A full mirror, called `a`, of an image in a registry.
fn mirroring(upstream: &Upstream) -> Almanac {
    let source = upstream.reference(REPOSITORY, "v4.20");
    Almanac::start(&(following(&source) + "mirror = \"full\"\n"))
}

/// An image of two platforms.
fn index() -> Built {
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one("etcd"))
            .platform("linux", architecture)
            .build()
    };
    Index::new()
        .image(of_platform("amd64"))
        .image(of_platform("arm64"))
        .build()
}

#[test]
fn a_ping_is_answered() {
    let slim = Slim::start();
    for path in ["/v2/", "/v2"] {
        let reply = slim.get(path);
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.header("docker-distribution-api-version"),
            Some("registry/2.0")
        );
    }
}

#[test]
fn referrers_of_anything_are_an_index() {
    let slim = Slim::start();
    let digest = Digest::of(b"nothing that is there");
    let reply = slim.get(&format!("/v2/a/referrers/{digest}"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some(OCI_INDEX));
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    let empty = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []});
    assert_eq!(document, empty);
    let reply = slim.get("/v2/a/referrers/sha256:bad");
    assert_eq!(
        (reply.status, code(&reply).as_str()),
        (400, "DIGEST_INVALID")
    );
    let reply = slim.get(&format!("/v2/nobody/referrers/{digest}"));
    assert_eq!((reply.status, code(&reply).as_str()), (404, "NAME_UNKNOWN"));
}

#[test]
fn tags_are_listed_in_pages() {
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "v4.20", &index());
    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    let tags = |almanac: &mut Almanac, query: &str| {
        let reply = almanac.http(&format!("/v2/a/tags/list{query}"));
        assert_eq!(reply.status, 200);
        let document: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(document["name"], "a");
        let link = reply.header("link").map(str::to_owned);
        (document["tags"].clone(), link)
    };
    assert_eq!(tags(&mut almanac, ""), (json!(["latest", "v4.20"]), None));
    let next = "</v2/a/tags/list?n=1&last=latest>; rel=\"next\"".to_owned();
    assert_eq!(tags(&mut almanac, "?n=1"), (json!(["latest"]), Some(next)));
    assert_eq!(
        tags(&mut almanac, "?n=1&last=latest"),
        (json!(["v4.20"]), None)
    );
    assert_eq!(tags(&mut almanac, "?n=0"), (json!([]), None));
    assert_eq!(tags(&mut almanac, "?n=2").1, None);
    assert_eq!(tags(&mut almanac, "?last=latest").0, json!(["v4.20"]));
    assert_eq!(tags(&mut almanac, "?last=m").0, json!(["v4.20"]));
    let reply = almanac.http("/v2/a/tags/list?n=many");
    assert_eq!(reply.status, 400);
    code(&reply);
    let reply = almanac.http("/v2/b/tags/list");
    assert_eq!((reply.status, code(&reply).as_str()), (404, "NAME_UNKNOWN"));
    let all: Value = serde_json::from_slice(&almanac.http("/v2/_catalog").body).unwrap();
    assert_eq!(all, json!({"repositories": ["a", REPOSITORY]}));
}

#[test]
fn a_manifest_is_sent_by_tag_and_by_digest() {
    let slim = Slim::start();
    let digest = Digest::of(&slim.manifest.body).to_string();
    let length = slim.manifest.body.len().to_string();
    for reference in ["latest", &digest] {
        for method in ["GET", "HEAD"] {
            // One type alone is no reason to refuse, and neither is none.
            let accept = [("Accept", "application/vnd.oci.image.index.v1+json;;q=")];
            let reply = slim.ask(method, &format!("/v2/a/manifests/{reference}"), &accept);
            assert_eq!(reply.status, 200);
            assert_eq!(reply.header("content-type"), Some(OCI_MANIFEST));
            assert_eq!(reply.header("content-length"), Some(length.as_str()));
            assert_eq!(reply.header("docker-content-digest"), Some(digest.as_str()));
            if method == "HEAD" {
                assert!(reply.body.is_empty());
            } else {
                assert_eq!(reply.body, slim.manifest.body);
            }
        }
    }
}

#[test]
fn a_blob_is_sent_as_it_is() {
    let slim = Slim::start();
    let document = slim.document();
    for part in [&document["config"], &document["layers"][0]] {
        let digest = part["digest"].as_str().unwrap();
        let path = format!("/v2/a/blobs/{digest}");
        let asked = [("Accept-Encoding", "gzip, zstd")];
        let (get, head) = (
            slim.ask("GET", &path, &asked),
            slim.ask("HEAD", &path, &asked),
        );
        assert_eq!(Digest::of(&get.body).to_string(), digest);
        assert!(head.body.is_empty());
        for reply in [get, head] {
            assert_eq!(reply.status, 200);
            let length = part["size"].to_string();
            assert_eq!(reply.header("content-length"), Some(length.as_str()));
            assert_eq!(reply.header("docker-content-digest"), Some(digest));
            assert_eq!(reply.header("content-encoding"), None);
        }
    }
}

#[test]
fn what_is_not_there_is_told_apart_from_what_is_no_name() {
    let slim = Slim::start();
    let digest = Digest::of(b"nothing that is there");
    let other = format!("sha512:{}", "0".repeat(128));
    for (path, status, wanted) in [
        ("manifests/missing".to_owned(), 404, "MANIFEST_UNKNOWN"),
        (format!("manifests/{digest}"), 404, "MANIFEST_UNKNOWN"),
        (format!("manifests/{other}"), 404, "MANIFEST_UNKNOWN"),
        ("manifests/.hidden".to_owned(), 404, "MANIFEST_UNKNOWN"),
        (
            "manifests/sha256:baddigeststring".to_owned(),
            400,
            "DIGEST_INVALID",
        ),
        (format!("blobs/{digest}"), 404, "BLOB_UNKNOWN"),
        (format!("blobs/{other}"), 404, "BLOB_UNKNOWN"),
        ("blobs/sha256:bad".to_owned(), 400, "DIGEST_INVALID"),
        ("blobs/latest".to_owned(), 400, "DIGEST_INVALID"),
    ] {
        let reply = slim.get(&format!("/v2/a/{path}"));
        assert_eq!(
            (reply.status, code(&reply).as_str()),
            (status, wanted),
            "{path}"
        );
        let head = slim.ask("HEAD", &format!("/v2/a/{path}"), &[]);
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
    }
    // One suite sends a body along.
    let path = "/v2/a/manifests/sha256:totallywrong";
    let reply = http::ask(slim.address, "GET", path, &[], b"a body").unwrap();
    assert_eq!(
        (reply.status, code(&reply).as_str()),
        (400, "DIGEST_INVALID")
    );
    for (path, status, wanted) in [
        ("/v2/unknown/manifests/latest", 404, "NAME_UNKNOWN"),
        ("/v2/A/manifests/latest", 400, "NAME_INVALID"),
        ("/v2/a..b/tags/list", 400, "NAME_INVALID"),
        ("/v2/a/b/c", 404, "NAME_UNKNOWN"),
    ] {
        let reply = slim.get(path);
        assert_eq!(
            (reply.status, code(&reply).as_str()),
            (status, wanted),
            "{path}"
        );
    }
}

#[test]
fn a_range_of_a_blob_is_sent_or_refused() {
    let slim = Slim::start();
    let path = format!("/v2/a/blobs/{}", slim.layer());
    let whole = slim.get(&path).body;
    let length = whole.len();
    assert!(length > 200, "{length}");
    let last = length - 1;
    for (range, from, to) in [
        ("bytes=50-149".to_owned(), 50, 149),
        ("bytes=50-".to_owned(), 50, last),
        ("bytes=-50".to_owned(), length - 50, last),
        (format!("bytes=100-{}", length + 1000), 100, last),
    ] {
        let reply = slim.ask("GET", &path, &[("Range", &range)]);
        assert_eq!(reply.status, 206, "{range}");
        let stated = format!("bytes {from}-{to}/{length}");
        assert_eq!(reply.header("content-range"), Some(stated.as_str()));
        assert_eq!(
            reply.header("content-length"),
            Some((to - from + 1).to_string().as_str())
        );
        assert_eq!(reply.body, whole[from..=to], "{range}");
    }
    // There are no ranges of a HEAD.
    for range in ["bytes=50-149".to_owned(), format!("bytes={length}-")] {
        let reply = slim.ask("HEAD", &path, &[("Range", &range)]);
        assert_eq!(reply.status, 200, "{range}");
        let stated = reply.header("content-length").map(str::to_owned);
        assert_eq!(stated, Some(length.to_string()));
        assert_eq!(reply.header("content-range"), None);
    }
    for range in [
        "bytes=50-0".to_owned(),
        format!("bytes={length}-"),
        format!("bytes={}-{}", length + 1, length + 100),
        "bytes=a-b".to_owned(),
    ] {
        let reply = slim.ask("GET", &path, &[("Range", &range)]);
        assert_eq!(
            (reply.status, code(&reply).as_str()),
            (416, "RANGE_INVALID"),
            "{range}"
        );
        let stated = format!("bytes */{length}");
        assert_eq!(reply.header("content-range"), Some(stated.as_str()));
    }
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let slim = Slim::start();
    let path = format!("/v2/a/blobs/{}", slim.layer());
    let etag = slim.get(&path).header("etag").unwrap().to_owned();
    let reply = slim.ask("GET", &path, &[("If-None-Match", &etag)]);
    assert_eq!((reply.status, reply.body.len()), (304, 0));
}

#[test]
fn nothing_can_be_pushed_or_deleted() {
    let slim = Slim::start();
    for (method, path) in [
        ("POST", "/v2/a/blobs/uploads/"),
        ("PUT", "/v2/a/manifests/latest"),
        ("PATCH", "/v2/a/blobs/uploads/1"),
        ("DELETE", "/v2/a/manifests/latest"),
    ] {
        let reply = slim.ask(method, path, &[]);
        assert_eq!((reply.status, code(&reply).as_str()), (405, "UNSUPPORTED"));
        assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    }
    assert_eq!(slim.get("/v2/a/manifests/latest").status, 200);
}

#[test]
fn a_slim_image_has_the_catalog_byte_for_byte() {
    let mut slim = Slim::start();
    let layer = slim.get(&format!("/v2/a/blobs/{}", slim.layer())).body;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
    let mut text = String::new();
    let mut paths = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        paths.push(entry.path().unwrap().display().to_string());
        let header = entry.header();
        assert_eq!(header.mtime().unwrap(), 0);
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        entry.read_to_string(&mut text).unwrap();
    }
    assert_eq!(text, slim.almanac.all("a").text());
    let config = slim.document()["config"]["digest"].clone();
    let config = slim.get(&format!("/v2/a/blobs/{}", config.as_str().unwrap()));
    let config: Value = serde_json::from_slice(&config.body).unwrap();
    let label = "operators.operatorframework.io.index.configs.v1";
    assert_eq!(config["config"]["Labels"][label], "/configs");
    assert!(
        paths.iter().all(|path| path.starts_with("configs/")),
        "{paths:?}"
    );
}

#[test]
fn the_same_content_makes_the_same_image() {
    let (one, other) = (Slim::start(), Slim::start());
    assert_eq!(one.manifest.body, other.manifest.body);

    // Also of another image, in other files and another form.
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::small()).build();
    upstream.push(REPOSITORY, "v4.20", &image);
    let source = upstream.reference(REPOSITORY, "v4.20");
    let mut almanac = Almanac::start(&following(&source));
    assert_eq!(almanac.until_pullable("a").body, one.manifest.body);
    // And under the tag that it is followed by.
    let reply = almanac.http("/v2/a/manifests/v4.20");
    assert_eq!(reply.body, one.manifest.body);

    // A start has it at once, and makes nothing.
    let files = |almanac: &Almanac| -> Vec<u64> {
        let folder = almanac.program.data().join("blobs/sha256");
        let blobs = almanac.blobs().into_iter();
        let number = |blob| fs::metadata(folder.join(blob)).unwrap().ino();
        blobs.map(number).collect()
    };
    let before = files(&almanac);
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.http("/v2/a/manifests/latest").status, 200);
    assert_eq!(files(&almanac), before);
}

#[test]
fn almanac_follows_the_slim_image_of_another() {
    let mut slim = Slim::start();
    let source = format!("{}/a:latest", slim.address);
    let mut second = Almanac::start(&following(&source));
    let digest = Digest::of(&slim.manifest.body);
    second.until_at("a", &digest);
    assert_eq!(second.all("a").text(), slim.almanac.all("a").text());
}

#[test]
fn a_moved_tag_makes_another_image_and_lets_pulls_end() {
    let upstream = Upstream::start();
    let image = |package: &str| Image::of_catalog(&Catalog::one(package)).build();
    upstream.push(REPOSITORY, "v4.20", &image("first"));
    let source = upstream.reference(REPOSITORY, "v4.20");
    let mut almanac = Almanac::start(&following(&source));
    let first = almanac.until_pullable("a").body;
    upstream.push(REPOSITORY, "v4.20", &image("second"));
    let begin = Instant::now();
    while almanac.http("/v2/a/manifests/latest").body == first {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    // Whoever has begun to pull the first finds the rest of it.
    let document: Value = serde_json::from_slice(&first).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    let reply = almanac.http(&format!("/v2/a/blobs/{layer}"));
    assert_eq!(Digest::of(&reply.body).to_string(), layer);
    let digest = Digest::of(&first);
    let reply = almanac.http(&format!("/v2/a/manifests/{digest}"));
    assert_eq!(reply.body, first);
}

#[test]
fn a_mirror_has_every_platform_and_signature_under_both_names() {
    let upstream = Upstream::start();
    let image = index();
    upstream.push(REPOSITORY, "v4.20", &image);
    // As cosign does it: by a tag, and by a subject that the fallback tag lists.
    let subject = image.digest();
    let signature = Image::new().edit_config(|config| config["signed"] = true.into());
    let signature = signature.build();
    let tag = format!("sha256-{}.sig", subject.hex());
    upstream.push(REPOSITORY, &tag, &signature);
    let config = upstream.put_blob("{}");
    let referrer = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": "application/vnd.example.signature",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2},
        "layers": [],
        "subject": {"mediaType": OCI_INDEX, "digest": subject, "size": 1},
        "annotations": {"by": "test"},
    })
    .to_string();
    let digest = upstream.put_manifest(REPOSITORY, "unused", referrer.clone(), OCI_MANIFEST);
    let list = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [{"mediaType": OCI_MANIFEST, "digest": digest, "size": referrer.len()}],
    });
    let fallback = format!("sha256-{}", subject.hex());
    upstream.put_manifest(REPOSITORY, &fallback, list.to_string(), OCI_INDEX);

    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    for name in ["a", REPOSITORY] {
        let reply = almanac.http(&format!("/v2/{name}/manifests/v4.20"));
        assert_eq!(reply.body, image.top.bytes);
        assert_eq!(reply.header("content-type"), Some(OCI_INDEX));
        let mut parts = BTreeSet::new();
        image.for_each_manifest(|part| {
            parts.insert((part.digest, "manifests"));
        });
        image.for_each_blob(|part| {
            parts.insert((part.digest, "blobs"));
        });
        signature.for_each_blob(|part| {
            parts.insert((part.digest, "blobs"));
        });
        for (digest, kind) in parts {
            let reply = almanac.http(&format!("/v2/{name}/{kind}/{digest}"));
            assert_eq!(Digest::of(&reply.body), digest, "{kind}");
        }
        let reply = almanac.http(&format!("/v2/{name}/manifests/{tag}"));
        assert_eq!(reply.body, signature.top.bytes);

        let path = format!("/v2/{name}/referrers/{subject}");
        let list: Value = serde_json::from_slice(&almanac.http(&path).body).unwrap();
        let wanted = json!([{
            "mediaType": OCI_MANIFEST,
            "digest": digest,
            "size": referrer.len(),
            "artifactType": "application/vnd.example.signature",
            "annotations": {"by": "test"},
        }]);
        assert_eq!(list["manifests"], wanted);
        for (kind, count) in [("application/vnd.example.signature", 1), ("other", 0)] {
            let reply = almanac.http(&format!("{path}?artifactType={kind}"));
            assert_eq!(reply.header("oci-filters-applied"), Some("artifactType"));
            let list: Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(list["manifests"].as_array().unwrap().len(), count);
        }
    }
    // The tag that stands for the image here is not there in the source.
    assert_eq!(
        almanac
            .http(&format!("/v2/{REPOSITORY}/manifests/latest"))
            .status,
        404
    );

    // A client that means another registry names it.
    let (host, path) = (upstream.host(), format!("/v2/{REPOSITORY}/manifests/v4.20"));
    let reply = almanac.http(&format!("{path}?ns={host}"));
    assert_eq!(reply.body, image.top.bytes);
    assert_eq!(reply.header("oci-namespace"), Some(host.as_str()));
    assert_eq!(almanac.http(&format!("{path}?ns=quay.io")).status, 404);
    assert_eq!(
        almanac.http(&format!("/v2/a/tags/list?ns={host}")).status,
        404
    );

    // All of it is there without the registry.
    almanac.stop();
    drop(upstream);
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.http(&path).body, image.top.bytes);
}

#[test]
fn a_signature_that_comes_later_is_found() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("etcd")).build();
    upstream.push(REPOSITORY, "v4.20", &image);
    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    let tag = format!("sha256-{}.sig", image.digest().hex());
    let path = format!("/v2/a/manifests/{tag}");
    assert_eq!(almanac.http(&path).status, 404);
    let signature = Image::new().build();
    upstream.push(REPOSITORY, &tag, &signature);
    let begin = Instant::now();
    while almanac.http(&path).body != signature.top.bytes {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An image of which one platform is missing at first, and that.
fn half(upstream: &Upstream) -> (Built, Blob) {
    let image = index();
    image.for_each_blob(|blob| {
        upstream.put_blob(blob.bytes.clone());
    });
    let mut manifests = Vec::new();
    image.for_each_manifest(|manifest| manifests.push(manifest.clone()));
    put(upstream, &manifests[0]);
    upstream.put_manifest(REPOSITORY, "v4.20", image.top.bytes.clone(), OCI_INDEX);
    (image, manifests.swap_remove(1))
}

fn put(upstream: &Upstream, manifest: &Blob) {
    let (name, bytes) = (manifest.digest.to_string(), manifest.bytes.clone());
    upstream.put_manifest(REPOSITORY, &name, bytes, manifest.media_type);
}

#[test]
fn a_mirror_that_fails_is_tried_again_and_the_catalog_is_served() {
    let upstream = Upstream::start();
    let (image, missing) = half(&upstream);
    let mut almanac = mirroring(&upstream);
    almanac.until_at("a", &image.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
    let reply = almanac.http("/v2/a/manifests/latest");
    assert_eq!((reply.status, code(&reply).as_str()), (503, "UNAVAILABLE"));
    assert!(reply.header("retry-after").is_some());
    almanac
        .program
        .wait_for_log("a failure", |log| log.contains("cannot make the image"));
    almanac.until("a", "the reason", |status| {
        let error = status["image_error"].as_str();
        error.is_some_and(|error| error.contains(&missing.digest.to_string()))
    });
    let admin = almanac.program.address("admin").to_string();
    let told = crate::support::program::Start::new(["status", &format!("--admin={admin}")]).run();
    assert!(
        told.stderr
            .contains("catalog a: no image of the served revision yet"),
        "{told:?}"
    );
    put(&upstream, &missing);
    almanac.until_pullable("a");
    almanac.until("a", "the end", |status| status["image_error"].is_null());
}

#[test]
fn a_restart_serves_the_image_before_while_the_mirror_of_the_next_one_fails() {
    let upstream = Upstream::start();
    let before = Image::of_catalog(&Catalog::one("kafka")).build();
    upstream.push(REPOSITORY, "v4.20", &before);
    let mut almanac = mirroring(&upstream);
    let digest = |almanac: &mut Almanac| {
        let reply = almanac.http("/v2/a/manifests/latest");
        let digest = reply.header("docker-content-digest").map(str::to_owned);
        (reply.status, digest)
    };
    almanac.until_pullable("a");
    let shown = (200, Some(before.digest().to_string()));
    assert_eq!(digest(&mut almanac), shown);
    let (image, missing) = half(&upstream);
    almanac.until_at("a", &image.digest());
    for ends_by_itself in [true, false] {
        if ends_by_itself {
            almanac.stop();
        } else {
            almanac.program.kill9();
        }
        almanac.program.restart();
        assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
        assert_eq!(digest(&mut almanac), shown);
        let path = format!("/v2/a/manifests/{}", before.digest());
        assert_eq!(almanac.http(&path).body, before.top.bytes);
        before.for_each_blob(|blob| {
            let pulled = almanac.http(&format!("/v2/a/blobs/{}", blob.digest));
            assert_eq!(pulled.body, blob.bytes);
        });
    }
    // Nor does it go with a change of the tag.
    upstream.put_manifest(REPOSITORY, "v4.21", image.top.bytes.clone(), OCI_INDEX);
    let source = upstream.reference(REPOSITORY, "v4.21");
    almanac.stop();
    almanac.restart_with(&(following(&source) + "mirror = \"full\"\n"));
    almanac.until("a", "a revision of the tag", |status| {
        let source = status["revision"]["source"].as_str();
        source.is_some_and(|source| source.contains("v4.21"))
    });
    almanac.stop();
    almanac.program.restart();
    assert_eq!(digest(&mut almanac), shown);
    put(&upstream, &missing);
    let begin = Instant::now();
    let next = (200, Some(image.digest().to_string()));
    while digest(&mut almanac) != next {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nothing of the other stays.
    let kept = almanac.blobs();
    before.for_each_blob(|blob| {
        assert!(!kept.contains(&blob.digest.hex()), "{kept:?}");
    });
}

#[test]
fn a_hangup_has_a_mirror_that_failed_tried_again_at_once() {
    let upstream = Upstream::start();
    let (image, missing) = half(&upstream);
    let source = upstream.reference(REPOSITORY, "v4.20");
    let config = catalog("a", &source) + "poll = \"1h\"\nmirror = \"full\"\n";
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &image.digest());
    // The third try would come after ten seconds.
    let failures = |log: &str| log.matches("cannot make the image").count();
    let program = &mut almanac.program;
    program.wait_for_log("two failures", |log| failures(log) == 2);
    put(&upstream, &missing);
    // A configuration that is taken wakes it anyway, one that is refused does
    // not. The catalog itself has not failed.
    almanac.reconfigure("nonsense");
    let again = |log: &str| log.contains("trying again: a retry was requested");
    almanac.program.wait_for_log("another try", again);
    almanac.until_pullable("a");
}

/// Neither is what somebody means who says neither registry.
#[test]
fn two_registries_with_one_path_are_told_apart() {
    let (one, other) = (Upstream::start(), Upstream::start());
    one.push(REPOSITORY, "v4.20", &index());
    let image = Image::of_catalog(&Catalog::one("kafka")).build();
    other.push(REPOSITORY, "v4.20", &image);
    other.misbehave(|behaviour| behaviour.status = Some(503));
    let source = |upstream: &Upstream| upstream.reference(REPOSITORY, "v4.20");
    let full = "mirror = \"full\"\n";
    let config = format!(
        "{}{full}{}{full}",
        following(&source(&one)),
        catalog("b", &source(&other))
    );
    let mut almanac = Almanac::start(&config);
    almanac.until_pullable("a");
    almanac.program.wait_for_log("a warning", |log| {
        log.contains("two mirrored registries have this path")
    });
    let path = format!("/v2/{REPOSITORY}/manifests/v4.20");
    // Nor before there is anything of one of them.
    let reply = almanac.http(&path);
    assert_eq!((reply.status, code(&reply).as_str()), (503, "UNAVAILABLE"));
    let reply = almanac.http(&format!("{path}?ns={}", one.host()));
    assert_eq!(reply.body, index().top.bytes);
    other.behave();
    almanac.until_pullable("b");
    let reply = almanac.http(&path);
    assert_eq!(
        (reply.status, code(&reply).as_str()),
        (404, "MANIFEST_UNKNOWN")
    );
    assert!(reply.text().contains("ns=REGISTRY"), "{}", reply.text());
    let tags = almanac.http(&format!("/v2/{REPOSITORY}/tags/list")).text();
    assert!(!tags.contains("v4.20"), "{tags}");
    for (upstream, image) in [(&one, &index()), (&other, &image)] {
        let reply = almanac.http(&format!("{path}?ns={}", upstream.host()));
        assert_eq!(reply.body, image.top.bytes);
        let by_digest = format!("/v2/{REPOSITORY}/manifests/{}", image.digest());
        assert_eq!(almanac.http(&by_digest).body, image.top.bytes);
    }
    // What both have is one.
    other.push(REPOSITORY, "v4.20", &index());
    almanac.until_at("b", &index().digest());
    let begin = Instant::now();
    while almanac.http(&path).status != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_folder_cannot_be_mirrored_whole() {
    let folder = tempfile::tempdir().unwrap();
    let config = following(&format!("file:{}", folder.path().display()));
    let path = folder.path().join("almanac.toml");
    fs::write(&path, config + "mirror = \"full\"\n").unwrap();
    let start = crate::support::program::Start::new(["serve", "--config", path.to_str().unwrap()]);
    let finished = start.run();
    assert_eq!(finished.status.code(), Some(2));
    assert!(
        finished.stderr.contains("mirror = \"slim\""),
        "{}",
        finished.stderr
    );
}

/// Two catalogs, of which `closed` has a token of its own.
fn guarded(folder: &TempDir, tables: &str) -> Almanac {
    let path = folder.path().join("catalog");
    fs::create_dir(&path).unwrap();
    Catalog::small().write_to(&path, Format::JsonLines);
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "catalog-secret\n").unwrap();
    let source = format!("file:{}", path.display());
    let config = catalog("open", &source)
        + &catalog("closed", &source)
        + &format!("token_files = [\"{}\"]\n{tables}", tokens.display());
    let mut almanac = Almanac::start(&config);
    let admin = almanac.program.address("admin");
    let begin = Instant::now();
    // The images of both are made.
    let made = |metrics: String| metrics.contains("almanac_image_seconds_count 2\n");
    while !made(http::get(admin, "/metrics").unwrap().text()) {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    almanac
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    )
}

fn with(address: SocketAddr, path: &str, headers: &[(&str, String)]) -> Reply {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    http::ask(address, "GET", path, &headers, b"").unwrap()
}

fn status(address: SocketAddr, path: &str, authorization: &str) -> u16 {
    let headers = [("Authorization", authorization.to_owned())];
    with(address, path, &headers).status
}

#[test]
fn a_catalog_with_tokens_asks_for_them_here_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = guarded(&folder, "");
    let address = almanac.program.address("http");
    let (open, closed) = ("/v2/open/manifests/latest", "/v2/closed/manifests/latest");
    assert_eq!(almanac.http(open).status, 200);
    let reply = almanac.http(closed);
    assert_eq!((reply.status, code(&reply).as_str()), (401, "UNAUTHORIZED"));
    assert_eq!(
        reply.header("www-authenticate"),
        Some("Basic realm=\"almanac\"")
    );
    // Clients only send what they have when the ping asks for it.
    assert_eq!(almanac.http("/v2/").status, 401);
    for (authorization, wanted) in [
        (basic("any", "catalog-secret"), 200),
        ("Bearer catalog-secret".to_owned(), 200),
        (basic("any", "wrong"), 401),
        ("Bearer wrong".to_owned(), 401),
        ("Basic !".to_owned(), 401),
    ] {
        for path in ["/v2/", closed] {
            assert_eq!(
                status(address, path, &authorization),
                wanted,
                "{authorization}"
            );
        }
    }
    // No blob is had by a way around.
    let document: Value = serde_json::from_slice(&almanac.http(open).body).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    assert_eq!(
        almanac.http(&format!("/v2/closed/blobs/{layer}")).status,
        401
    );
    let names = |reply: Reply| serde_json::from_slice::<Value>(&reply.body).unwrap();
    let some = json!({"repositories": ["open"]});
    assert_eq!(names(almanac.http("/v2/_catalog")), some);
}

#[test]
fn a_user_pulls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(
        &users,
        format!("ann:{}\n", bcrypt::hash("pass:word", 4).unwrap()),
    )
    .unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let (open, closed) = ("/v2/open/manifests/latest", "/v2/closed/manifests/latest");
    for path in ["/v2/", open, closed, "/v2/nobody/tags/list", "/v2/_catalog"] {
        assert_eq!(almanac.http(path).status, 401, "{path}");
    }
    let ann = basic("ann", "pass:word");
    assert_eq!(status(address, "/v2/", &ann), 200);
    assert_eq!(status(address, open, &ann), 200);
    // A catalog with tokens wants those, and does not exist for others.
    for path in ["/v2/closed/tags/list", "/v2/absent/tags/list"] {
        let reply = with(address, path, &[("Authorization", ann.clone())]);
        assert_eq!((reply.status, code(&reply).as_str()), (404, "NAME_UNKNOWN"));
        let wanted = "that these credentials may pull";
        assert!(reply.text().contains(wanted), "{}", reply.text());
    }
    for (user, password) in [("ann", "word"), ("bob", "pass:word")] {
        assert_eq!(status(address, open, &basic(user, password)), 401);
    }

    // New files count without a restart.
    fs::write(&users, format!("bob:{}\n", bcrypt::hash("new", 4).unwrap())).unwrap();
    let begin = Instant::now();
    while status(address, open, &basic("bob", "new")) != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status(address, open, &ann), 401);
    let log = almanac.program.log();
    assert!(!log.contains("pass:word"), "{log}");
}

#[test]
fn a_user_pulls_with_a_token_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(
        &users,
        format!("ann:{}\n", bcrypt::hash("word", 4).unwrap()),
    )
    .unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\nflow = \"token\"\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let open = "/v2/open/manifests/latest";
    let reply = almanac.http(open);
    assert_eq!(reply.status, 401);
    let challenge = format!(
        "Bearer realm=\"http://{address}/v2/token\",service=\"almanac\",\
         scope=\"repository:open:pull\""
    );
    assert_eq!(reply.header("www-authenticate"), Some(challenge.as_str()));

    let token = |scope: &str, authorization: Option<String>| {
        let path = format!("/v2/token?service=almanac&scope={scope}");
        let headers: Vec<_> = authorization
            .map(|a| ("Authorization", a))
            .into_iter()
            .collect();
        let reply = with(address, &path, &headers);
        let document: Value = serde_json::from_slice(&reply.body).unwrap();
        let token = document["token"].as_str().unwrap_or_default().to_owned();
        (reply.status, format!("Bearer {token}"))
    };
    let (given, ann) = token("repository:open:pull", Some(basic("ann", "word")));
    assert_eq!(given, 200);
    assert_eq!(status(address, open, &ann), 200);
    assert_eq!(status(address, "/v2/", &ann), 200);
    // It is good for nothing else.
    assert_eq!(status(address, "/v2/closed/tags/list", &ann), 404);
    // It shows nothing of what it is not good for.
    let content = |token: &str| {
        let (payload, _) = token
            .strip_prefix("Bearer ")
            .unwrap()
            .split_once('.')
            .unwrap();
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
        serde_json::from_slice::<Value>(&payload).unwrap()["repositories"].clone()
    };
    let scopes = ["closed", "absent"].map(|name| format!("repository:{name}:pull"));
    for scope in scopes {
        let (_, given) = token(&scope, Some(basic("ann", "word")));
        assert_eq!(content(&given), json!({}), "{scope}");
    }
    let (_, closed) = token(
        "repository%3Aclosed%3Apull,push",
        Some(basic("any", "catalog-secret")),
    );
    assert_eq!(status(address, "/v2/closed/tags/list", &closed), 200);
    assert_eq!(status(address, open, &closed), 404);
    // Whoever says nothing gets a token that is good for what all may have.
    let (given, nobody) = token("repository:open:pull", None);
    assert_eq!(given, 200);
    assert_eq!(status(address, open, &nobody), 401);
    let (given, _) = token("repository:open:pull", Some(basic("ann", "wrong")));
    assert_eq!(given, 401);
}

#[test]
fn a_token_is_given_for_credentials_alone_and_tells_nobody_what_exists() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let line = |user: &str| format!("{user}:{}\n", bcrypt::hash("word", 4).unwrap());
    fs::write(&users, line("ann")).unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\nflow = \"token\"\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let ask = |authorization: &str| {
        let path = "/v2/token?service=almanac&scope=repository:open:pull";
        let headers = [("Authorization", authorization.to_owned())];
        let headers = &headers[usize::from(authorization.is_empty())..];
        let reply = with(address, path, headers);
        let document: Value = serde_json::from_slice(&reply.body).unwrap();
        let token = document["token"].as_str().unwrap_or_default();
        (reply.status, format!("Bearer {token}"), document)
    };
    let (open, absent) = ("/v2/open/tags/list", "/v2/absent/tags/list");
    let (given, ann, document) = ask(&basic("ann", "word"));
    assert_eq!(given, 200);
    assert!(document["expires_in"].as_u64().unwrap() <= 300);
    assert_eq!(
        [open, absent].map(|path| status(address, path, &ann)),
        [200, 404]
    );
    // A token makes no other token, so that none outlives its user for long.
    assert_eq!(ask(&ann).0, 401);
    // A token for nobody is not better than none.
    let (given, nobody, _) = ask("");
    assert_eq!(given, 200);
    assert_eq!(status(address, "/v2/", &nobody), 200);
    for path in [open, absent, "/v2/_catalog"] {
        assert_eq!(status(address, path, &nobody), 401, "{path}");
        let [with_token, without] = [("Authorization", nobody.clone()), ("Accept", "*/*".into())]
            .map(|header| with(address, path, &[header]));
        assert_eq!(with_token.body, without.body, "{path}");
    }
    assert_eq!(ask(&nobody).0, 401);

    fs::write(&users, line("bob")).unwrap();
    let begin = Instant::now();
    while ask(&basic("ann", "word")).0 != 401 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ask(&ann).0, 401);
}
