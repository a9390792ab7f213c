//! What clients may send to the HTTP port that is odd, and the answer to each:
//! query strings, headers, ranges, preconditions, methods, paths and bodies.

use std::io::{Read as _, Write as _};

use serde_json::Value;

use crate::http::{fruit, fruit_served};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::Format;
use crate::support::http;
use crate::support::served::{Folders, Served};

const ALL: &str = "/catalogs/fruit/api/v1/all";
const METAS: &str = "/catalogs/fruit/api/v1/metas";
const GRAPHQL: &str = "/catalogs/fruit/api/v1/graphql";
const PROBLEM: (&str, &str) = ("Accept", "application/problem+json");

/// Path, headers, and the status of the answer.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);

fn hold(served: &Served, rows: &[Row<'_>]) {
    for (method, path, headers, status) in rows {
        let reply = served.ask(method, path, headers);
        let shown = format!("{method} {path} {headers:?}: {}", reply.text());
        assert_eq!(reply.status, *status, "{shown}");
        if *status == 200 && path.starts_with("/catalogs") && *method == "GET" {
            assert!(!reply.text().contains("Error"), "{shown}");
        }
    }
}

#[test]
fn query_strings() {
    let served = fruit_served();
    let long = format!("{METAS}?name={}", "x".repeat(8000));
    let rows: Vec<(String, u16)> = [
        ("?", 200),
        ("?&&&", 200),
        ("?=", 400),
        ("?=x", 400),
        ("?schema", 200),
        ("?schema=", 200),
        ("?schema=a=b", 200),
        ("?schema=%00", 200),
        ("?schema=%C3%A9", 200),
        ("?schema=%e2%80%a8", 200),
        ("?schema=%", 400),
        ("?schema=%4", 400),
        ("?schema=%+1", 400),
        ("?schema=%gg", 400),
        ("?schema=%ff", 400),
        ("?%73chema=olm.package", 200),
        ("?schema+=a", 400),
        ("?SCHEMA=a", 400),
        ("?schema=a;package=b", 200),
        ("?schema=a&bogus=", 400),
        ("?bogus", 400),
        ("?limit=1", 400),
        ("?schema=a&schema=b&schema=c", 200),
        ("?schema=../../etc/passwd", 200),
        ("?schema=' OR 1=1 --", 400),
        ("?schema='%20OR%201=1%20--", 200),
    ]
    .into_iter()
    .map(|(query, status)| (format!("{METAS}{query}"), status))
    .chain([(long, 200), (format!("{ALL}?bogus=%zz&&="), 200)])
    .collect();
    for (path, status) in &rows {
        let reply = served.get_raw(path);
        assert_eq!(reply, *status, "{path}");
    }
}

impl Served {
    /// The status of the answer to a path that may not be one.
    fn get_raw(&self, path: &str) -> u16 {
        let mut connection = http::connect(self.http).unwrap();
        let question = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        connection.write_all(question.as_bytes()).unwrap();
        status(&mut connection)
    }
}

/// The status of an answer; 0 when none came.
fn status(connection: &mut std::net::TcpStream) -> u16 {
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| answer.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.get(..3));
    status.map_or(0, |status| status.parse().unwrap())
}

#[test]
fn headers() {
    let served = fruit_served();
    let many = "gzip, ".repeat(500);
    let ok: &[&[(&str, &str)]] = &[
        &[("Accept-Encoding", &many)],
        &[("Accept-Encoding", ",,;;q=,q=1;=")],
        &[("Accept-Encoding", "gzip;q=NaN")],
        &[("Accept-Encoding", "gzip;q=1e400")],
        &[("Accept-Encoding", "\u{e9}")],
        &[("Accept-Encoding", "gzip"), ("Accept-Encoding", "gzip;q=0")],
        &[("Accept", "text/html")],
        &[("Accept", ";;,,/")],
        &[("Authorization", "Bearer x")],
        &[("Cookie", "a=b")],
        &[("Cache-Control", "max-age=86400")],
        &[("Expect", "something")],
        &[("X-Forwarded-For", "1.2.3.4")],
        &[("Content-Type", "application/json")],
        &[("Upgrade", "h2c"), ("Connection", "Upgrade")],
        &[("Origin", "https://evil.example")],
        &[("User-Agent", "Go-http-client/1.1")],
    ];
    for headers in ok {
        for path in [ALL, METAS] {
            let reply = served.ask("GET", path, headers);
            assert_eq!(reply.status, 200, "{headers:?}");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
}

#[test]
fn preconditions() {
    let served = fruit_served();
    let get = "GET";
    let past = "Mon, 02 Jan 2006 15:04:05 GMT";
    let future = "Fri, 01 Jan 2100 00:00:00 GMT";
    for path in [ALL, METAS] {
        let state = served.get(path);
        let tag = state.header("etag").unwrap();
        let weak = format!("W/{tag}");
        let bare = tag.trim_matches('"');
        hold(
            &served,
            &[
                // What cannot be read as a date is not there.
                (get, path, &[("If-Modified-Since", "")], 200),
                (get, path, &[("If-Modified-Since", "yesterday")], 200),
                (get, path, &[("If-Modified-Since", "0")], 200),
                (
                    get,
                    path,
                    &[("If-Modified-Since", "2100-01-01T00:00:00Z")],
                    200,
                ),
                (get, path, &[("If-Modified-Since", future)], 304),
                (get, path, &[("If-Modified-Since", past)], 200),
                (
                    get,
                    path,
                    &[("If-Modified-Since", "Friday, 01-Jan-99 00:00:00 GMT")],
                    200,
                ),
                (get, path, &[("If-Unmodified-Since", "x")], 200),
                (get, path, &[("If-Unmodified-Since", past)], 412),
                (get, path, &[("If-Unmodified-Since", future)], 200),
                (get, path, &[("If-Match", "\"x\"")], 412),
                (get, path, &[("If-Match", "*")], 200),
                (get, path, &[("If-Match", tag)], 200),
                (get, path, &[("If-Match", &weak)], 412),
                (get, path, &[("If-Match", bare)], 412),
                (get, path, &[("If-Match", "")], 412),
                (get, path, &[("If-None-Match", "\"x\"")], 200),
                (get, path, &[("If-None-Match", "*")], 304),
                (get, path, &[("If-None-Match", &weak)], 304),
                (get, path, &[("If-None-Match", bare)], 200),
                (get, path, &[("If-None-Match", ",,\"")], 200),
                // A match outweighs a date, and failing outweighs not modified.
                (
                    get,
                    path,
                    &[("If-Match", tag), ("If-Unmodified-Since", past)],
                    200,
                ),
                (
                    get,
                    path,
                    &[("If-Match", "\"x\""), ("If-None-Match", "*")],
                    412,
                ),
                (
                    get,
                    path,
                    &[("If-None-Match", "\"x\""), ("If-Modified-Since", future)],
                    200,
                ),
                ("HEAD", path, &[("If-None-Match", "*")], 304),
                ("POST", path, &[("If-None-Match", "*")], 405),
            ],
        );
        let reply = served.ask(get, path, &[("If-None-Match", tag)]);
        for header in ["etag", "last-modified", "vary"] {
            assert_eq!(reply.header(header), state.header(header), "{header}");
        }
        assert_eq!(reply.header("content-type"), None);
        assert!(reply.body.is_empty());
    }
}

#[test]
fn ranges() {
    let served = fruit_served();
    let length = served.get(ALL).body.len();
    let last = format!("bytes={}-", length - 1);
    let behind = format!("bytes={length}-");
    let many = format!("bytes={}", "0-0,".repeat(100));
    for (range, status, sent) in [
        ("bytes=0-0", 206, 1),
        (&last, 206, 1),
        ("bytes=0-18446744073709551615", 206, length),
        ("bytes=0-99999999999999999999999", 206, length),
        ("bytes=-1", 206, 1),
        ("Bytes=0-0", 206, 1),
        (&behind, 416, 0),
        ("bytes=18446744073709551615-", 416, 0),
        ("bytes=-0", 416, 0),
        (&many, 200, length),
        ("bytes=1-0", 200, length),
        ("bytes=-", 200, length),
        ("bytes=0", 200, length),
        ("bytes=a-", 200, length),
        ("bytes=0x1-", 200, length),
        ("bytes", 200, length),
        ("", 200, length),
        ("items=0-1", 200, length),
        ("bytes=0-\u{e9}", 200, length),
    ] {
        let reply = served.ask("GET", ALL, &[("Range", range)]);
        assert_eq!((reply.status, reply.body.len()), (status, sent), "{range}");
        assert_eq!(reply.header("content-range").is_some(), status != 200);
        // Of HEAD, of a selection, and of another state there are none.
        let head = served.ask("HEAD", ALL, &[("Range", range)]);
        assert_eq!(head.status, 200, "{range}");
        let length = length.to_string();
        assert_eq!(head.header("content-length"), Some(&*length));
        assert_eq!(served.ask("GET", METAS, &[("Range", range)]).status, 200);
        for condition in ["\"x\"", "W/\"x\"", "x", "Mon, 02 Jan 2006 15:04:05 GMT"] {
            let headers = [("Range", range), ("If-Range", condition)];
            assert_eq!(served.ask("GET", ALL, &headers).status, 200, "{condition}");
        }
    }
    // The precondition is weighed first.
    let headers = [("Range", &*behind), ("If-None-Match", "*")];
    assert_eq!(served.ask("GET", ALL, &headers).status, 304);
}

#[test]
fn methods() {
    let served = fruit_served();
    let problems = [("Accept", "application/problem+json")];
    for method in [
        "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "FOO",
    ] {
        for path in [ALL, METAS] {
            let reply = served.ask(method, path, &[]);
            assert_eq!(
                (reply.status, &*reply.text()),
                (405, "Method Not Allowed\n")
            );
            assert_eq!(reply.header("allow"), Some("GET, HEAD"));
            let reply = served.ask(method, path, &problems);
            assert_eq!(reply.header("allow"), Some("GET, HEAD"));
        }
        if method != "POST" {
            let reply = served.ask(method, GRAPHQL, &[]);
            assert_eq!(reply.status, 405, "{method}");
            assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"));
            let reply = served.ask(method, GRAPHQL, &problems);
            assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"));
        }
    }
    assert_eq!(served.ask("GET", GRAPHQL, &[]).status, 405);
    // The method is looked at before the query and the catalog.
    let path = "/catalogs/No_Such/api/v1/metas?bogus=1";
    assert_eq!(served.ask("PUT", path, &[]).status, 405);
}

#[test]
fn paths() {
    let served = fruit_served();
    let long = format!("/catalogs/{}/api/v1/all", "a".repeat(300));
    let deep = "/a".repeat(2000);
    for (path, status) in [
        ("/", 200),
        ("/nope", 404),
        ("/catalogs", 200),
        ("/catalogs/", 307),
        ("/catalogs/fruit", 200),
        ("/catalogs/nope", 404),
        ("/catalogs/FRUIT", 400),
        ("/catalogs/%ff", 400),
        ("/catalogs/fruit/", 404),
        ("/catalogs/fruit/api/v1", 404),
        ("/catalogs/fruit/api/v1/", 404),
        ("/catalogs/fruit/api/v1/ALL", 404),
        ("/catalogs/fruit/api/v1/all/", 404),
        ("/catalogs/fruit/api/v1/all/x", 404),
        ("/catalogs/fruit/api/v2/all", 404),
        ("/Catalogs/fruit/api/v1/all", 404),
        ("/catalogs/nope/api/v1/all", 404),
        ("/catalogs/FRUIT/api/v1/all", 400),
        ("/catalogs/fruit_/api/v1/all", 400),
        ("/catalogs/-/api/v1/all", 400),
        ("/catalogs/a..b/api/v1/all", 400),
        ("/catalogs/%2e%2e/api/v1/all", 400),
        ("/catalogs/fruit%00/api/v1/all", 400),
        ("/catalogs/fruit%2Fapi/api/v1/all", 400),
        ("/catalogs/%ff/api/v1/all", 400),
        ("/catalogs/%zz/api/v1/all", 400),
        ("/catalogs/fru%69t/api/v1/all", 200),
        (&long, 400),
        (&deep, 404),
    ] {
        assert_eq!(served.get_raw(path), status, "{path}");
    }
    let reply = served.get("/catalogs/%ff/api/v1/metas");
    assert_eq!(reply.text(), "invalid catalog name: it is no UTF-8\n");
    let problems = [("Accept", "application/problem+json")];
    let reply = served.ask("GET", "/catalogs/%ff/api/v1/all", &problems);
    assert!(reply.text().contains("urn:almanac:problem:invalid-path"));
    for (path, to) in [
        ("/catalogs/../catalogs/fruit/api/v1/all", ALL),
        ("/catalogs/fruit/./api/v1/all", ALL),
        ("//catalogs/fruit//api/v1/all", ALL),
        ("/../../etc/passwd", "/etc/passwd"),
        ("//evil.example/x", "/evil.example/x"),
        (
            "/catalogs/fruit/api/v1/metas/../all?a=%2e./b",
            &format!("{ALL}?a=%2e./b"),
        ),
    ] {
        let reply = served.ask("GET", path, &[]);
        assert_eq!(reply.status, 307, "{path}");
        assert_eq!(reply.header("location"), Some(to), "{path}");
    }
}

#[test]
fn a_request_is_for_one_host() {
    let served = fruit_served();
    for (head, wanted) in [
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        ("HTTP/1.1\r\nHost:\r\n", 200),
        ("HTTP/1.1\r\nHost: a\r\n", 200),
        ("HTTP/1.0\r\n", 200),
    ] {
        for path in [METAS, "/v2/", "/openapi.json"] {
            let mut connection = http::connect(served.http).unwrap();
            // An empty line may come before.
            write!(connection, "\r\nGET {path} {head}Connection: close\r\n\r\n").unwrap();
            assert_eq!(status(&mut connection), wanted, "{path} {head:?}");
        }
    }
}

#[test]
fn what_is_no_http_is_refused_and_the_rest_goes_on() {
    let served = fruit_served();
    let long = format!(
        "GET {ALL}?{} HTTP/1.1\r\nHost: a\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let many = format!("GET {ALL} HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5000));
    for question in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET nothing HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        &long,
        &many,
    ] {
        let mut connection = http::connect(served.http).unwrap();
        // It may be closed before all of it is written.
        let _ = connection.write_all(question.as_bytes());
        let _ = connection.shutdown(std::net::Shutdown::Write);
        let found = status(&mut connection);
        let shown = &question[..question.len().min(80)];
        assert!(
            found == 0 || (400..500).contains(&found),
            "{found}: {shown:?}"
        );
        assert_eq!(served.get(METAS).status, 200);
    }
    assert!(!served.program.log().contains("panicked"));
}

#[test]
fn bodies() {
    let served = fruit_served();
    let large = format!(
        "{{\"query\":\"{{ a }}\",\"x\":\"{}\"}}",
        "y".repeat(1 << 20)
    );
    let long = format!("{{\"query\":\"{}\"}}", "#".repeat(100_001));
    let deep = format!("{{\"query\":\"{}a{}\"}}", "{ a ".repeat(12), "}".repeat(12));
    let nested = format!("{{\"query\":{}", "[".repeat(100_000));
    for (body, status, text) in [
        ("", 400, "Invalid request body\n"),
        ("null", 400, "Invalid request body\n"),
        ("[]", 400, "Invalid request body\n"),
        ("{\"query\":1}", 400, "Invalid request body\n"),
        ("{\"query\":\"{ summary }\"", 400, "Invalid request body\n"),
        (&nested, 400, "Invalid request body\n"),
        (&large, 400, "Invalid request body\n"),
        ("{}", 400, "Query cannot be empty\n"),
        ("{\"query\":\"\"}", 400, "Query cannot be empty\n"),
        (&long, 400, "Query too large\n"),
    ] {
        let reply = http::ask(served.http, "POST", GRAPHQL, &[], body.as_bytes());
        // One that is not read to its end may be cut.
        let Ok(reply) = reply else {
            assert!(body.len() > 1 << 20, "{body}");
            continue;
        };
        assert_eq!((reply.status, &*reply.text()), (status, text));
    }
    // Held before the catalog is looked for, let alone asked.
    let nowhere = "/catalogs/nowhere/api/v1/graphql";
    let reply = http::ask(served.http, "POST", nowhere, &[], deep.as_bytes()).unwrap();
    assert_eq!(reply.status, 200);
    assert!(
        reply.text().contains("query exceeds maximum depth of 10"),
        "{}",
        reply.text()
    );
    // A body where none is looked for is passed over.
    let reply = http::ask(served.http, "GET", METAS, &[], b"{\"schema\":\"x\"}").unwrap();
    assert_eq!(reply.status, 200);
}

#[test]
fn refusals_are_problems_for_those_who_ask_for_them() {
    let folders = Folders::of("fruit", &fruit());
    let later = format!("later=file:{}", folders.path("later").display());
    let served = Served::start(folders.sources().into_iter().chain([later]));
    let bogus = format!("{METAS}?bogus=1");
    for (method, path, status, kind) in [
        ("GET", "/nope", 404, "urn:almanac:problem:unknown-path"),
        ("PUT", ALL, 405, "about:blank"),
        ("GET", &bogus, 400, "urn:almanac:problem:invalid-query"),
        (
            "GET",
            "/catalogs/No/api/v1/all",
            400,
            "urn:almanac:problem:invalid-catalog-name",
        ),
        (
            "GET",
            "/catalogs/nope/api/v1/all",
            404,
            "urn:almanac:problem:unknown-catalog",
        ),
        (
            "GET",
            "/catalogs/later/api/v1/all",
            503,
            "urn:almanac:problem:not-loaded",
        ),
        ("POST", GRAPHQL, 400, "about:blank"),
        ("GET", GRAPHQL, 405, "about:blank"),
    ] {
        let reply = served.ask(method, path, &[PROBLEM]);
        assert_eq!(reply.status, status, "{method} {path}");
        let media = reply.header("content-type");
        assert_eq!(media, Some("application/problem+json"), "{method} {path}");
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length));
        assert_eq!(reply.header("vary"), Some("Accept"));
        assert_eq!(reply.header("retry-after").is_some(), status == 503);
        let problem: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(problem["type"], kind, "{problem}");
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string(), "{problem}");
        assert!(
            problem["detail"].as_str().is_some_and(|d| !d.is_empty()),
            "{problem}"
        );
        // The same as text, for all others.
        for accept in ["*/*", "application/json", "application/problem+json;q=0"] {
            let reply = served.ask(method, path, &[("Accept", accept)]);
            let media = reply.header("content-type");
            assert_eq!(
                (reply.status, media),
                (status, Some("text/plain; charset=utf-8"))
            );
            assert_eq!(reply.header("vary"), Some("Accept"));
        }
    }
    // What has no text is described too.
    for (headers, status) in [
        ([PROBLEM, ("If-Match", "\"x\"")], 412),
        ([PROBLEM, ("Range", "bytes=-0")], 416),
    ] {
        let reply = served.ask("GET", ALL, &headers);
        assert_eq!(reply.status, status);
        let problem: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(problem["status"], status);
    }
    // And an answer is an answer.
    assert_eq!(
        served.ask("GET", ALL, &[PROBLEM]).body,
        served.get(ALL).body
    );
}

#[test]
fn a_catalog_that_is_set_unavailable_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["on", "off"] {
        fruit().write_to(&folder.path().join(name), Format::JsonLines);
    }
    let source = |name: &str| format!("file:{}", folder.path().join(name).display());
    let on = catalog("on", &source("on"));
    let off = catalog("off", &source("off"));
    let mut almanac = Almanac::start(&format!("{on}{off}available = false\n"));
    almanac.until("off", "it to be read", |status| {
        status["state"] == "unavailable" && !status["revision"].is_null()
    });
    almanac.until("on", "it to be served", |status| {
        status["state"] == "serving"
    });
    almanac.program.wait_until_ready();
    let address = almanac.program.address("http");
    let unavailable = "404 Not Found\ncatalog off is set unavailable in almanac's configuration\n";
    for (path, text) in [
        ("all", Some(unavailable)),
        ("metas?schema=a", Some(unavailable)),
        ("metas?bogus=1", None),
        ("packages", None),
        ("packages/apple/icon", None),
        ("search?q=apple", None),
    ] {
        let reply = almanac.http(&format!("/catalogs/off/api/v1/{path}"));
        let status = if path.contains("bogus") { 400 } else { 404 };
        assert_eq!(reply.status, status, "{path}");
        if let Some(text) = text {
            assert_eq!(reply.text(), text);
        }
    }
    let body = b"{\"query\":\"{ summary { totalSchemas } }\"}";
    let path = "/catalogs/off/api/v1/graphql";
    let reply = http::ask(address, "POST", path, &[], body).unwrap();
    assert_eq!((reply.status, &*reply.text()), (404, unavailable));
    let problem = almanac.http("/catalogs/off/api/v1/packages").text();
    assert!(
        problem.contains("urn:almanac:problem:unavailable-catalog"),
        "{problem}"
    );
    // Nobody is told of it.
    assert!(!almanac.http("/catalogs").text().contains("off"));
    assert_eq!(almanac.http("/catalogs/off").status, 404);
    let problem = almanac.http("/catalogs/of/api/v1/packages").text();
    assert!(!problem.contains("\"off\""), "{problem}");
    assert_eq!(almanac.all("on").status, 200);
    assert_eq!(almanac.packages("on").unwrap().len(), 4);
    let error = almanac.packages("off").unwrap_err();
    assert_eq!(error.code(), tonic::Code::NotFound);
    assert_eq!(error.message(), "catalog \"off\" is set unavailable");
    // It was kept, and is there at once when it may be.
    fs_remove(&folder.path().join("off"));
    almanac.stop();
    almanac.restart_with(&format!("{on}{off}"));
    almanac.until("off", "it to be served", |status| {
        status["state"] == "serving"
    });
    assert_eq!(almanac.all("off").status, 200);
}

fn fs_remove(folder: &std::path::Path) {
    std::fs::remove_dir_all(folder).unwrap();
}
