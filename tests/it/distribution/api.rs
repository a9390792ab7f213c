//! The rows of the specification's conformance checks.

use images::digest::Digest;
use serde_json::{Value, json};

use super::{OCI_INDEX, OCI_MANIFEST, REPOSITORY, Slim, code, index, mirroring};
use crate::support::almanac::Almanac;
use crate::support::http;
use crate::support::upstream::Upstream;

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
