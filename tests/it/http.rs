//! catalogd's HTTP API of the running program, as its clients use it.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::cases::cases;
use crate::support::catalog::{Catalog, entry};
use crate::support::http::Reply;
use crate::support::image::Image;
use crate::support::served::{Folders, Served};

const ALL: &str = "/catalogs/fruit/api/v1/all";
const METAS: &str = "/catalogs/fruit/api/v1/metas";
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

/// Four packages of different sizes with blobs of other schemas, some of them
/// of no package, and texts that are hard to write.
pub(crate) fn fruit() -> Catalog {
    let names = ["apple", "banana", "cherry", "pear"];
    let catalog = (1..)
        .zip(names)
        .fold(Catalog::new(), |catalog, (many, name)| {
            catalog.package(name, |package| {
                let versions: Vec<String> = (1..=many * many)
                    .map(|number| format!("{name}.v{number}.0.0"))
                    .collect();
                let entries = versions.iter().enumerate().map(|(at, version)| match at {
                    0 => entry(version),
                    _ => entry(version).replaces(&versions[at - 1]),
                });
                package
                    .description("\"quoted\" <b>&\u{2028} käse 🧀")
                    .channel("stable", entries)
                    .channel("fast", [entry(&versions[0])])
                    .custom("io.example.lifecycle", json!({"name": "stable"}))
            })
        });
    catalog
        .blob(json!({"schema": "io.example.lifecycle", "name": "stable"}))
        .blob(json!({"schema": "io.example.lifecycle", "package": "nobody", "x": 1.0}))
}

pub(crate) fn fruit_served() -> Served {
    Served::catalogs(&Folders::of("fruit", &fruit()))
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut decoder = flate2::bufread::GzDecoder::new(bytes);
    let mut plain = Vec::new();
    decoder.read_to_end(&mut plain).unwrap();
    assert!(decoder.into_inner().is_empty(), "one member and no more");
    plain
}

/// All headers but the time of day, sorted.
fn lasting(reply: &Reply) -> BTreeSet<&(String, String)> {
    let headers = reply.headers.iter();
    headers.filter(|(name, _)| name != "date").collect()
}

#[test]
fn the_whole_catalog_is_lines_of_canonical_json() {
    let served = fruit_served();
    let reply = served.get(ALL);
    assert_eq!(reply.status, 200);
    for (name, value) in [
        ("content-type", "application/jsonl"),
        ("accept-ranges", "bytes"),
        ("vary", "Accept-Encoding"),
        ("content-length", &reply.body.len().to_string()),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    assert_eq!(reply.header("content-encoding"), None);
    assert!(httpdate::parse_http_date(reply.header("last-modified").unwrap()).is_ok());
    assert!(reply.header("etag").unwrap().starts_with('"'));

    let text = reply.text();
    assert!(text.ends_with("}\n"));
    let found: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sorted = |values: Vec<Value>| -> BTreeSet<String> {
        let texts = values.iter().map(ToString::to_string);
        // As a number, 1.0 is 1.
        texts.map(|text| text.replace("1.0", "1")).collect()
    };
    assert_eq!(sorted(found), sorted(fruit().blobs()));
    assert!(text.contains(r#"\"quoted\" <b>&\u2028 käse 🧀"#), "{text}");
    assert!(text.contains(r#"{"package":"nobody","schema":"io.example.lifecycle","x":1}"#));
    // Parameters mean nothing here.
    let other = served.get(&format!("{ALL}?schema=olm.package&bogus=1"));
    assert_eq!((other.status, other.body), (200, reply.body));
}

#[test]
fn a_selection_takes_what_is_equal_in_all_that_is_asked() {
    let served = fruit_served();
    let all = served.get(ALL).text();
    let metas = |query: &str| -> String {
        let reply = served.get(&format!("{METAS}{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/jsonl"));
        assert_eq!(reply.header("accept-ranges"), None);
        assert!(reply.header("last-modified").is_some());
        reply.text()
    };
    for whole in ["", "?", "?schema=&package=&name=", "?schema", "?&&"] {
        assert_eq!(metas(whole), all, "{whole}");
    }
    let count = |query: &str| metas(query).lines().count();
    for (query, wanted) in [
        ("?schema=olm.package", 4),
        ("?schema=olm.bundle", 30),
        ("?schema=olm.bundle&package=cherry", 9),
        ("?name=stable&schema=olm.channel", 4),
        ("?name=stable", 9),
        // A package's own blob has no field "package".
        ("?package=apple", 4),
        ("?schema=olm.package&package=apple", 0),
        ("?schema=olm.package&name=apple", 1),
        ("?package=nobody", 1),
        ("?schema=nope", 0),
        ("?schema=olm.package&name=nope", 0),
        // The first value of a key counts.
        ("?schema=olm.package&schema=olm.bundle", 4),
        ("?schema=&schema=olm.package", all.lines().count()),
        // As browsers and Go write them.
        ("?schema=olm%2Epackage&name=%61pple", 1),
        ("?name=apple+pie", 0),
    ] {
        assert_eq!(count(query), wanted, "{query}");
    }
    // In the order of the catalog.
    let bundles: Vec<&str> = all
        .lines()
        .filter(|line| line.contains(r#""schema":"olm.bundle""#))
        .collect();
    assert_eq!(
        metas("?schema=olm.bundle").lines().collect::<Vec<_>>(),
        bundles
    );
}

#[test]
fn what_cannot_be_answered_is_refused_with_the_texts_of_catalogd() {
    let served = fruit_served();
    let bad_name = "invalid catalog name: ";
    // The line of catalogd, and one more.
    let unknown = "404 Not Found\nthere is no catalog \"nope\"; there are \"fruit\"\n";
    let slash = format!("{ALL}/");
    for (path, status, text) in [
        (&*format!("{METAS}?bogus=1"), 400, "400 Bad Request\n"),
        (&format!("{METAS}?schema=a&bogus"), 400, "400 Bad Request\n"),
        (&format!("{METAS}?Schema=a"), 400, "400 Bad Request\n"),
        (&format!("{METAS}?schema=%zz"), 400, "400 Bad Request\n"),
        // The question is looked at before the catalog.
        (
            "/catalogs/nope/api/v1/metas?bogus=1",
            400,
            "400 Bad Request\n",
        ),
        ("/catalogs/nope/api/v1/metas", 404, unknown),
        ("/catalogs/nope/api/v1/all", 404, unknown),
        ("/catalogs/No_Such/api/v1/all", 400, bad_name),
        ("/catalogs/-a/api/v1/metas", 400, bad_name),
        ("/catalogs/..%2Ffruit/api/v1/all", 400, bad_name),
        ("/nope", 404, "404 page not found\n"),
        ("/catalogs/fruit/api/v2/all", 404, "404 page not found\n"),
        (&slash, 404, "404 page not found\n"),
        ("/etc/api/v1/all", 404, "404 page not found\n"),
    ] {
        let reply = served.get(path);
        assert_eq!(reply.status, status, "{path}");
        let found = reply.text();
        let same = if text == bad_name {
            found.starts_with(text) && found.ends_with('\n')
        } else {
            found == text
        };
        assert!(same, "{path}: {found:?}");
        let kind = reply.header("content-type");
        assert_eq!(kind, Some("text/plain; charset=utf-8"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("etag"), None, "{path}");
    }
}

/// catalogd has no queries, so its clients never ask there.
#[test]
fn an_unknown_path_of_the_queries_is_a_problem_with_a_remedy() {
    let served = fruit_served();
    for path in [
        "/catalogs/fruit/api/v1/nope",
        "/catalogs/fruit/api/v1/package/apple",
        "/api/v1/package/apple",
        "/catalogs/fruit/",
    ] {
        let reply = served.get(path);
        let kind = reply.header("content-type");
        assert_eq!(
            (reply.status, kind),
            (404, Some("application/problem+json")),
            "{path}"
        );
        let problem: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(
            problem["type"], "urn:almanac:problem:unknown-path",
            "{path}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("/openapi.json"), "{path}: {detail}");
    }
}

#[test]
fn a_wrong_parameter_of_metas_is_named_in_a_header() {
    let served = fruit_served();
    for (query, hint) in [
        (
            "shema=olm.bundle",
            "metas has no parameter \"shema\"; did you mean \"schema\"?",
        ),
        (
            "schema=%zz",
            "a value has a wrong escape: write %25 for a percent sign",
        ),
    ] {
        let reply = served.get(&format!("{METAS}?{query}"));
        assert_eq!((reply.status, &*reply.text()), (400, "400 Bad Request\n"));
        assert_eq!(reply.header("almanac-hint"), Some(hint));
    }
}

#[test]
fn only_get_and_head_are_methods() {
    let served = fruit_served();
    for path in [ALL, METAS, "/catalogs/nope/api/v1/all"] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
            let reply = served.ask(method, path, &[]);
            assert_eq!(reply.status, 405, "{method} {path}");
            assert_eq!(reply.text(), "Method Not Allowed\n");
            assert_eq!(reply.header("allow"), Some("GET, HEAD"));
        }
    }
}

#[test]
fn head_has_the_headers_of_get() {
    let mut served = fruit_served();
    // Else the second of two answers may be one that was made meanwhile.
    crate::encodings::wait(&mut served);
    let bogus = format!("{METAS}?bogus=1");
    let empty = format!("{METAS}?name=nope");
    for path in [ALL, METAS, &empty, &bogus, "/catalogs/nope/api/v1/all"] {
        for headers in [&[][..], &[GZIP], &[("If-None-Match", "*")]] {
            let get = served.ask("GET", path, headers);
            let head = served.ask("HEAD", path, headers);
            assert_eq!(get.status, head.status, "{path} {headers:?}");
            assert_eq!(lasting(&get), lasting(&head), "{path} {headers:?}");
            assert!(head.body.is_empty());
        }
    }
}

#[test]
fn gzip_is_one_member_of_known_length() {
    let mut served = fruit_served();
    crate::encodings::wait(&mut served);
    for path in [
        ALL.to_owned(),
        METAS.to_owned(),
        format!("{METAS}?schema=olm.bundle"),
    ] {
        let plain = served.get(&path);
        let reply = served.ask("GET", &path, &[GZIP]);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length));
        assert_eq!(reply.header("transfer-encoding"), None);
        assert_eq!(reply.header("accept-ranges"), None);
        assert!(reply.body.len() < plain.body.len());
        assert_eq!(gunzip(&reply.body), plain.body);
        // Another state of the same content.
        assert_ne!(reply.header("etag"), plain.header("etag"));
        assert_eq!(reply.header("last-modified"), plain.header("last-modified"));
    }
    // What is small is sent as it is, and so is what nobody asked to compress.
    let small = format!("{METAS}?schema=olm.package&name=apple");
    for (path, encoding) in [
        (&*small, "gzip"),
        (ALL, "identity"),
        (ALL, "gzip;q=0"),
        (ALL, "br"),
    ] {
        let reply = served.ask("GET", path, &[("Accept-Encoding", encoding)]);
        assert_eq!(reply.header("content-encoding"), None, "{encoding}");
        assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
        assert_eq!(reply.body, served.get(path).body);
    }
}

#[test]
fn every_selection_is_the_same_in_every_form() {
    let served = fruit_served();
    let lines: Vec<(Value, String)> = served
        .get(ALL)
        .text()
        .lines()
        .map(|line| (serde_json::from_str(line).unwrap(), format!("{line}\n")))
        .collect();
    // Each value that a key has, one that it has not, and none.
    let values = |key: &str| -> Vec<String> {
        let values = lines
            .iter()
            .map(|(blob, _)| blob[key].as_str().unwrap_or_default());
        let values: BTreeSet<&str> = values.chain(["", "nope"]).collect();
        values.into_iter().map(str::to_owned).collect()
    };
    let choice = |key: &str| prop::sample::select(values(key));
    proptest!(cases(150), |(
        schema in choice("schema"),
        package in choice("package"),
        name in choice("name"),
    )| {
        let wanted: String = lines
            .iter()
            .filter(|(blob, _)| {
                [("schema", &schema), ("package", &package), ("name", &name)]
                    .iter()
                    .all(|(key, value)| value.is_empty() || blob[*key] == **value)
            })
            .map(|(_, line)| line.as_str())
            .collect();
        let path = format!("{METAS}?schema={schema}&package={package}&name={name}");
        let plain = served.get(&path);
        prop_assert_eq!(plain.text(), wanted.as_str());
        let packed = served.ask("GET", &path, &[GZIP]);
        prop_assert_eq!(packed.header("content-encoding").is_some(), wanted.len() >= 1024);
        let body = match packed.header("content-encoding") {
            Some(_) => gunzip(&packed.body),
            None => packed.body,
        };
        prop_assert_eq!(body, wanted.as_bytes());
    });
}

#[test]
fn a_client_that_has_it_gets_nothing() {
    let mut served = fruit_served();
    crate::encodings::wait(&mut served);
    let selection = format!("{METAS}?schema=olm.package");
    for path in [ALL, &selection] {
        let reply = served.get(path);
        let etag = reply.header("etag").unwrap();
        let packed = served.ask("GET", path, &[GZIP]);
        let modified = reply.header("last-modified").unwrap();
        let other = "Mon, 02 Jan 2006 15:04:05 GMT";
        let several = format!("\"a\", W/{etag}");
        for (headers, status) in [
            (&[("If-None-Match", etag)][..], 304),
            (&[("If-None-Match", &several)], 304),
            (&[("If-None-Match", "*")], 304),
            (&[("If-None-Match", "\"other\"")], 200),
            (&[("If-Modified-Since", modified)], 304),
            (&[("If-Modified-Since", other)], 200),
            (&[("If-Modified-Since", "yesterday")], 200),
            // An entity tag says more than a date.
            (
                &[
                    ("If-None-Match", "\"other\""),
                    ("If-Modified-Since", modified),
                ],
                200,
            ),
            (&[("If-Match", etag)], 200),
            (&[("If-Match", "\"other\"")], 412),
            (&[("If-Unmodified-Since", other)], 412),
            (&[("If-Unmodified-Since", modified)], 200),
        ] {
            let conditional = served.ask("GET", path, headers);
            assert_eq!(conditional.status, status, "{path} {headers:?}");
            assert_eq!(conditional.header("last-modified"), Some(modified));
            assert_eq!(conditional.header("etag"), Some(etag));
            let whole = status == 200;
            assert_eq!(!conditional.body.is_empty(), whole, "{headers:?}");
            // Of 304 it would be the length of what is not sent.
            let length = conditional.header("content-length");
            assert_eq!(length.is_some(), status != 304, "{headers:?}");
        }
        let etag = packed.header("etag").unwrap();
        let again = served.ask("GET", path, &[GZIP, ("If-None-Match", etag)]);
        assert_eq!(again.status, 304, "{path}");
    }
    // Other content has another tag.
    let tags: BTreeSet<_> = [
        "?schema=olm.package",
        "?schema=olm.bundle",
        "?name=nope",
        "",
    ]
    .iter()
    .map(|query| served.get(&format!("{METAS}{query}")))
    .map(|reply| reply.header("etag").unwrap().to_owned())
    .collect();
    assert_eq!(tags.len(), 4);
}

#[test]
fn a_range_of_the_whole_is_sent() {
    let served = fruit_served();
    let whole = served.get(ALL);
    let (body, length) = (&whole.body, whole.body.len());
    let ranged = |range: &str| served.ask("GET", ALL, &[("Range", range)]);
    for (range, from, to) in [
        ("bytes=0-99".to_owned(), 0, 100),
        ("bytes=7-7".to_owned(), 7, 8),
        (format!("bytes={}-", length - 5), length - 5, length),
        ("bytes=-10".to_owned(), length - 10, length),
        ("bytes=10-999999999".to_owned(), 10, length),
        ("bytes=-999999999".to_owned(), 0, length),
    ] {
        let reply = ranged(&range);
        assert_eq!(reply.status, 206, "{range}");
        let told = format!("bytes {from}-{}/{length}", to - 1);
        assert_eq!(reply.header("content-range"), Some(&*told), "{range}");
        assert_eq!(reply.body, body[from..to], "{range}");
    }
    for range in [format!("bytes={length}-"), "bytes=-0".to_owned()] {
        let reply = ranged(&range);
        assert_eq!(reply.status, 416, "{range}");
        let told = format!("bytes */{length}");
        assert_eq!(reply.header("content-range"), Some(&*told), "{range}");
    }
    let reply = ranged("bytes=0-1,5-6");
    let kind = reply.header("content-type").unwrap();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let part = |from: usize, to: usize| {
        let text = String::from_utf8_lossy(&body[from..=to]).into_owned();
        format!(
            "\r\n--{boundary}\r\nContent-Type: application/jsonl\r\n\
             Content-Range: bytes {from}-{to}/{length}\r\n\r\n{text}"
        )
    };
    let wanted = format!("{}{}\r\n--{boundary}--\r\n", part(0, 1), part(5, 6));
    assert_eq!((reply.status, reply.text()), (206, wanted));
    assert_eq!(
        reply.header("content-length"),
        Some(&*reply.body.len().to_string())
    );
    for range in ["bytes=9-3", "lines=0-1", "bytes=0-,0-", "bytes=x-"] {
        let reply = ranged(range);
        assert_eq!((reply.status, reply.body.len()), (200, length), "{range}");
    }
    // A range of something that is no more.
    let conditional = |condition: &str| {
        let headers = [("Range", "bytes=0-9"), ("If-Range", condition)];
        served.ask("GET", ALL, &headers).status
    };
    assert_eq!(conditional(whole.header("etag").unwrap()), 206);
    assert_eq!(conditional(whole.header("last-modified").unwrap()), 206);
    assert_eq!(conditional("\"other\""), 200);
    // A piece is one of the lines, as with catalogd, and selections have none.
    let packed = served.ask("GET", ALL, &[GZIP, ("Range", "bytes=0-9")]);
    assert_eq!(packed.status, 206);
    assert_eq!(packed.header("content-encoding"), None);
    assert_eq!(packed.body, body[..10]);
    assert_eq!(
        served.ask("GET", METAS, &[("Range", "bytes=0-9")]).status,
        200
    );
}

#[test]
fn a_catalog_that_is_not_loaded_is_unavailable_and_never_empty() {
    let folders = Folders::of("fruit", &fruit());
    let later = format!("later=file:{}", folders.path("later").display());
    let served = Served::start(folders.sources().into_iter().chain([later]));
    for path in [
        "/catalogs/later/api/v1/all",
        "/catalogs/later/api/v1/metas?name=a",
    ] {
        let reply = served.get(path);
        assert_eq!(reply.status, 503);
        assert!(reply.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
        assert_eq!(reply.text(), "catalog later is not loaded yet\n");
    }
    assert_eq!(served.get(ALL).status, 200);
}

#[test]
fn a_start_serves_what_was_served_before_and_says_so() {
    let folders = Folders::of("fruit", &fruit());
    let mut served = Served::start(
        folders
            .sources()
            .into_iter()
            .chain(["--poll".into(), "never".into()]),
    );
    crate::encodings::wait(&mut served);
    let paths = [ALL.to_owned(), format!("{METAS}?schema=olm.bundle")];
    let before = paths
        .each_ref()
        .map(|path| served.ask("GET", path, &[GZIP]));
    // Nothing to read from is there any more.
    let source = folders.path("fruit");
    std::fs::remove_dir_all(&source).unwrap();
    let mut served = served.restart();
    served.program.wait_until_ready();
    let after = paths
        .each_ref()
        .map(|path| served.ask("GET", path, &[GZIP]));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.status, after.status);
        assert_eq!(lasting(before), lasting(after));
        assert_eq!(before.body, after.body);
    }
}

#[test]
fn the_same_content_in_another_image_is_not_modified() {
    let folder = tempfile::tempdir().unwrap();
    let image = Image::of_catalog(&fruit());
    let first = image.build();
    first.add_to_layout(folder.path(), "latest");
    let source = format!("fruit=oci:{}:latest", folder.path().display());
    let mut served = Served::start([&source, "--poll", "100ms"]);
    let state = |served: &Served| {
        let reply = served.get(ALL);
        let header = |name| reply.header(name).unwrap().to_owned();
        (header("etag"), header("last-modified"))
    };
    let digest = |digest: images::digest::Digest| {
        move |status: &Value| status["revision"]["digest"] == digest.to_string()
    };
    served.wait_for_status("fruit", digest(first.digest()));
    let before = state(&served);

    // Times are told in seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let second = image.annotation("example.com/build", "2").build();
    second.add_to_layout(folder.path(), "latest");
    served.wait_for_status("fruit", digest(second.digest()));
    assert_eq!(state(&served), before);

    let third = Image::of_catalog(&Catalog::small()).build();
    third.add_to_layout(folder.path(), "latest");
    served.wait_for_status("fruit", digest(third.digest()));
    let after = state(&served);
    assert_ne!(after.0, before.0);
    assert_ne!(after.1, before.1);

    // A client that asks by the date alone never keeps what was replaced in
    // the same second.
    let mut date = httpdate::parse_http_date(&after.1).unwrap();
    for image in [&second, &third, &second] {
        image.add_to_layout(folder.path(), "latest");
        served.wait_for_status("fruit", digest(image.digest()));
        let next = httpdate::parse_http_date(&state(&served).1).unwrap();
        assert!(next > date, "{next:?} after {date:?}");
        date = next;
    }
}
