//! Downloads from a listener of the test's own.

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use super::*;

#[test]
fn an_address_names_a_catalog_and_nothing_else() {
    for (text, all) in [
        ("http://a/catalogs/b", "http://a/catalogs/b/api/v1/all"),
        (
            "https://a:1/x/catalogs/b/",
            "https://a:1/x/catalogs/b/api/v1/all",
        ),
        (
            "http://a/catalogs/b/api/v1/all",
            "http://a/catalogs/b/api/v1/all",
        ),
    ] {
        let url: CatalogUrl = text.parse().unwrap();
        assert_eq!(url.all(), all);
        assert_eq!(url.to_string(), text);
    }
    for text in [
        "http://a",
        "http://a/",
        "http://a/api/v1/all",
        "ftp://a/catalogs/b",
        "http://me@a/catalogs/b",
        "http://a/catalogs/b?x",
        "http:",
    ] {
        assert!(text.parse::<CatalogUrl>().is_err(), "{text}");
    }
}

/// The received text for this answer, and the request.
fn fetched(answer: Vec<u8>, settings: &Settings) -> Result<Vec<u8>, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut question = Vec::new();
        while !question.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let length = connection.read(&mut piece).unwrap();
            assert!(length > 0, "the question is cut");
            question.extend_from_slice(&piece[..length]);
        }
        // Whoever has seen enough closes the connection.
        let _ = connection.write_all(&answer);
        String::from_utf8(question).unwrap()
    });
    let url: CatalogUrl = format!("http://{address}/catalogs/a").parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut out = Vec::new();
    let fetched = runtime.block_on(url.fetch(settings, &mut out));
    let question = answering.join().unwrap();
    assert!(
        question.starts_with("GET /catalogs/a/api/v1/all HTTP/1.1\r\n"),
        "{question}"
    );
    fetched.map(|()| out).map_err(|error| error.to_string())
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_catalog_comes_plain_or_packed() {
    let settings = Settings::default();
    let plain = answer("200 OK\r\n", b"catalog");
    assert_eq!(fetched(plain, &settings).unwrap(), b"catalog");
    let packed = answer("200 OK\r\nContent-Encoding: gzip\r\n", &packed(b"catalog"));
    assert_eq!(fetched(packed, &settings).unwrap(), b"catalog");
}

#[test]
fn a_cut_or_wrong_answer_is_an_error() {
    let settings = Settings::default();
    let whole = packed(&b"catalog".repeat(100));
    let gzip = "200 OK\r\nContent-Encoding: gzip\r\n";
    for bad in [
        answer(gzip, &whole[..whole.len() - 4]),
        answer(gzip, b"catalog"),
        answer("200 OK\r\nContent-Encoding: br\r\n", b"catalog"),
        answer("200 OK\r\n", b"catalog")[..40].to_vec(),
        answer("204 No Content\r\n", b""),
    ] {
        assert!(fetched(bad, &settings).is_err());
    }
    let error = fetched(answer("404 Not Found\r\n", b"no such\n"), &settings);
    assert!(
        error
            .unwrap_err()
            .contains("all: 404: no such; the URL of a catalog is")
    );
    let page = answer(
        "200 OK\r\nContent-Type: text/html; charset=utf-8\r\n",
        b"<html>",
    );
    let error = fetched(page, &settings).unwrap_err();
    assert!(error.contains("neither almanac nor catalogd"), "{error}");
    let elsewhere = answer("302 Found\r\nLocation: http://b/\r\n", b"");
    let error = fetched(elsewhere, &settings).unwrap_err();
    assert!(error.ends_with("302: leads to \"http://b/\""), "{error}");
}

#[test]
fn size_and_time_are_bounded() {
    let settings = Settings {
        limit: 6,
        ..Settings::default()
    };
    let error = fetched(answer("200 OK\r\n", b"catalog"), &settings).unwrap_err();
    assert!(error.contains("limit of 6"), "{error}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/catalogs/a", listener.local_addr().unwrap());
    let settings = Settings {
        timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url: CatalogUrl = url.parse().unwrap();
    let error = runtime.block_on(url.fetch(&settings, io::sink()));
    assert!(
        matches!(
            error,
            Err(FetchError::Request(_, RequestProblem::Timeout(_)))
        ),
        "{error:?}"
    );
}
