//! Compression, and the page for browsers.

use std::io::Read as _;

use serde_json::json;

use super::{Ask, INTROSPECTION, PATH, fruit_served};
use crate::support::http;

#[test]
fn answers_are_compressed_for_those_who_read_that() {
    let served = fruit_served();
    let body = json!({"query": INTROSPECTION}).to_string();
    let ask = |headers: &[(&str, &str)]| {
        http::ask(served.http, "POST", PATH, headers, body.as_bytes()).unwrap()
    };
    let plain = ask(&[]);
    let packed = ask(&[("Accept-Encoding", "gzip")]);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain.body);
    assert!(packed.body.len() < plain.body.len() / 4);
}

#[test]
fn browsers_get_a_page_that_needs_no_network() {
    let served = fruit_served();
    let accept = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let reply = served.ask("GET", PATH, &accept);
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = reply.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(policy.contains("connect-src 'self'"));
    let text = reply.text();
    assert!(text.starts_with("<!doctype html>"));
    for foreign in ["http://", "https://", "src=", "@import"] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    let nobody = served.ask("GET", "/catalogs/nope/api/v1/graphql", &accept);
    assert_eq!(nobody.status, 404);
    for part in ["id=\"token\"", "id=\"choices\"", "id=\"colors\""] {
        assert!(text.contains(part), "{part}");
    }
    // The query that the page sends to learn the schema.
    let (_, rest) = text.split_once("INTROSPECTION = `").unwrap();
    let (query, _) = rest.split_once('`').unwrap();
    let data = served.data(query);
    assert!(data["__schema"]["types"].as_array().unwrap().len() > 5);
}
