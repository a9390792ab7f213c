//! What clients of a `ClusterCatalog` do: the queries of the pages, typed as
//! they stand there, and the requests of the programs.

use std::process::Command;

use serde_json::Value;

use crate::support::http;
use crate::support::needs::skip_without;
use crate::support::program::Program;
use crate::support::served::Served;

/// The program serving the sample catalog under the name that the pages use.
fn served() -> Program {
    Served::start(["community=file:deploy/catalog"]).program
}

/// Output of a line of the page.
fn typed(line: &str, address: std::net::SocketAddr) -> String {
    let line = line.replace("localhost:8080", &address.to_string());
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", &line])
        .env("no_proxy", "*")
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_queries_of_the_page_give_what_they_say() {
    if skip_without("curl") || skip_without("jq") || skip_without("bash") {
        return;
    }
    let mut program = served();
    let address = program.address("http");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/olm-v1.md");
    let page = std::fs::read_to_string(page).unwrap();
    let lines: Vec<&str> = page.lines().filter(|l| l.starts_with("curl ")).collect();
    assert!(lines.len() > 20);
    // That all of them have an answer, the tests of the pages say.
    let printed = |part: &str| {
        let mut found = lines.iter().filter(|line| line.contains(part));
        let line = found.next().unwrap_or_else(|| panic!("no line has {part}"));
        typed(line, address)
    };
    let packages = "\"ferry-operator\"\n\"granary-operator\"\n\"lantern-operator\"\n";
    assert_eq!(
        printed(r#"select(.schema == "olm.package") | .name'"#),
        packages
    );
    let versions =
        "\"ferry-operator.v1.5.0\"\n\"ferry-operator.v2.0.0\"\n\"ferry-operator.v2.1.0\"\n";
    assert_eq!(printed(".entries | .[] | .name"), versions);
    assert_eq!(printed("name=v2'"), versions.replace('"', ""));
    assert!(printed("unique[]").contains("-operator"));
    assert!(printed("fromjson").contains("-operator image/"));
    let images = printed(r#"{"name":.name, "image":.image}"#);
    assert_eq!(images.lines().count(), 4, "{images}");
    for line in images.lines() {
        let bundle: Value = serde_json::from_str(line).unwrap();
        assert!(bundle["image"].is_string());
    }
}

#[test]
fn operator_controller_gets_the_whole() {
    let mut program = served();
    let address = program.address("http");
    let path = "/catalogs/community/api/v1/all";
    // As Go's client asks when it is told nothing else.
    let go = [
        ("User-Agent", "Go-http-client/1.1"),
        ("Accept-Encoding", "gzip"),
    ];
    let reply = http::ask(address, "GET", path, &go, b"").unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(&reply.body[..]));
    let text = text.unwrap();
    assert!(text.starts_with('{'), "a stream of JSON");
    assert!(
        text.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
}

#[test]
fn the_console_keeps_what_did_not_change() {
    let mut program = served();
    let address = program.address("http");
    let path = "/catalogs/community/api/v1/all";
    let first = http::get(address, path).unwrap();
    let modified = first.header("last-modified").unwrap();
    let again = [
        ("If-Modified-Since", modified),
        ("Cache-Control", "max-age=86400"),
        ("Accept-Encoding", "gzip"),
    ];
    assert_eq!(
        http::ask(address, "GET", path, &again, b"").unwrap().status,
        304
    );
    // Icons come by the package's blob.
    let path = "/catalogs/community/api/v1/metas?name=ferry-operator&schema=olm.package";
    let blob: Value = serde_json::from_slice(&http::get(address, path).unwrap().body).unwrap();
    assert_eq!(blob["schema"], "olm.package");
    // A catalog that is gone is dropped.
    let path = "/catalogs/nope/api/v1/all";
    assert_eq!(http::get(address, path).unwrap().status, 404);
}
