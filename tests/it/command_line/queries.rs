//! Queries of a source and of a server.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use super::{printed, run, server};
use crate::support::file::root;
use crate::support::port::free_port;
use crate::support::program::Program;

#[test]
fn a_source_and_a_server_give_the_same_answers() {
    let mut server = server();
    let http = server.address("http");
    for rest in [
        "search {} messages ferry",
        "search {} operator",
        "providers {} Crossing --entries",
        "providers {} Crossing --entries --heads",
        "providers {} Crossing",
        "providers {} --group ferry.example.com --api-version v2",
        "updates {} ferry-operator --from 2.0.0",
        "updates {} ferry-operator",
        "list channels {} ferry-operator",
    ] {
        let [source, url] = [
            "file:deploy/catalog".to_owned(),
            format!("--server http://{http}/catalogs/community"),
        ]
        .map(|place| printed(&format!("{} -o json", rest.replace("{}", &place))));
        assert_eq!(source, url, "{rest}");
        assert!(source.len() > 5, "{rest}: {source}");
    }
    let chosen = format!("--server http://{http} --catalog community");
    for format in ["table", "yaml", "jsonl", "name"] {
        let [source, chosen] = ["file:deploy/catalog", &chosen]
            .map(|place| printed(&format!("search {place} operator -o {format}")));
        assert_eq!(source, chosen, "{format}");
        // The other catalog has the package too, but was not asked.
        let named = source.lines().filter(|line| *line == "ferry-operator");
        assert_eq!(named.count(), usize::from(format == "name"), "{source}");
    }
}

#[test]
fn answers_are_tables_for_people() {
    let mut text = String::new();
    for line in [
        "search file:deploy/catalog operator",
        "providers file:deploy/catalog Crossing",
        "providers file:deploy/catalog Crossing --heads",
        "providers file:deploy/catalog Crossing --entries",
        "updates file:deploy/catalog ferry-operator --from 2.0.0",
        "list packages file:deploy/catalog",
    ] {
        for colour in ["never", "always"] {
            let line = format!("{line} --color {colour}");
            let table = printed(&line).replace('\u{1b}', "ESC");
            let _ = writeln!(text, "$ almanac {line}\n{table}");
        }
    }
    insta::assert_snapshot!("tables", text);
}

#[test]
fn all_catalogs_of_a_server_are_asked_at_once() {
    let mut server = server();
    let place = format!("--server http://{}", server.address("http"));
    let mut text = String::new();
    for line in [
        "search PLACE ferry",
        "providers PLACE Crossing --heads",
        "list packages PLACE ferry-operator",
        "list channels PLACE ferry-operator",
    ] {
        let table = printed(&line.replace("PLACE", &place));
        let _ = writeln!(text, "$ almanac {line}\n{table}");
    }
    insta::assert_snapshot!("across", text);

    let catalogs = printed(&format!("list catalogs {place}"));
    let titles = "NAME       STATE    PACKAGES  BUNDLES  MODIFIED";
    assert!(catalogs.starts_with(titles), "{catalogs}");
    let names = printed(&format!("list catalogs {place} -o name"));
    assert_eq!(names, "community\nother\n");
    let json = printed(&format!("list catalogs {place} -o json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["counts"]["packages"], 3);

    let finished = run(&format!("updates {place} ferry-operator"));
    assert_eq!(finished.status.code(), Some(2), "{finished:#?}");
    let said = finished
        .stderr
        .contains("community, other; choose one by --catalog");
    assert!(said, "{finished:#?}");
    for (line, code, said) in [
        ("list packages PLACE", 2, "choose a catalog by --catalog"),
        (
            "list bundles PLACE ferry-operator",
            2,
            "choose it by --catalog",
        ),
        (
            "list packages PLACE fery-operator",
            1,
            "did you mean \"ferry-operator\"?",
        ),
        (
            "search PLACE --catalog comunity a",
            3,
            "did you mean \"community\"?",
        ),
        (
            "search PLACE/catalogs/other --catalog community a",
            2,
            "contradict",
        ),
    ] {
        let finished = run(&line.replace("PLACE", &place));
        assert_eq!(finished.status.code(), Some(code), "{line}: {finished:#?}");
        assert!(finished.stderr.contains(said), "{line}: {finished:#?}");
    }
}

#[test]
fn the_catalogs_of_the_configured_almanac_are_listed() {
    let mut server = server();
    let config = tempfile::NamedTempFile::new().unwrap();
    let http = server.address("http");
    std::fs::write(config.path(), format!("http = \"{http}\"\n")).unwrap();
    let config = config.path().display();
    let names = printed(&format!("list catalogs --config {config} -o name"));
    assert_eq!(names, "community\nother\n");
    // Another server may be named beside it.
    let line = format!("list catalogs --config {config} --server http://127.0.0.1:1");
    assert_eq!(run(&line).status.code(), Some(3));
}

#[test]
fn rare_columns_are_in_the_wide_table_only() {
    let list = "list bundles file:deploy/catalog lantern-operator";
    let table = printed(list);
    let wide = printed(&format!("{list} -o wide"));
    let titles = |text: &str| text.lines().next().unwrap().to_owned();
    assert!(titles(&table).ends_with("REPLACES"), "{table}");
    assert!(titles(&wide).ends_with("IMAGE"), "{wide}");
    assert_eq!(table.lines().count(), wide.lines().count());
    for column in ["SKIPS", "SKIP RANGE", "IMAGE"] {
        assert!(!table.contains(column), "{table}");
        assert!(titles(&wide).contains(column), "{wide}");
    }
}

#[test]
fn an_empty_table_has_no_titles() {
    let finished = run("search file:deploy/catalog no-such-word");
    assert_eq!(finished.status.code(), Some(0), "{finished:#?}");
    assert_eq!(finished.stdout, "", "{finished:#?}");
    assert_ne!(finished.stderr, "", "{finished:#?}");
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.yaml");
    std::fs::write(&catalog, "schema: olm.package\nname: a\n").unwrap();
    let finished = run(&format!("list packages {}", catalog.display()));
    assert_eq!(finished.status.code(), Some(0), "{finished:#?}");
    assert_eq!(finished.stdout, "", "{finished:#?}");
    let said = "almanac: the catalog has no packages without errors\n";
    assert!(finished.stderr.ends_with(said), "{finished:#?}");
}

#[test]
fn status_is_that_of_the_admin_port() {
    let mut server = server();
    let admin = server.address("admin");
    let table = printed(&format!("status --admin {admin}"));
    let titles = "NAME       STATE    PACKAGES  BUNDLES  LEFT OUT  LAST PASS";
    assert!(table.starts_with(titles), "{table}");
    assert!(table.contains("\ncommunity  serving  3 "), "{table}");
    let names = printed(&format!("status --admin {admin} -o name"));
    assert_eq!(names, "community\nother\n");
    let document = printed(&format!("status --admin {admin} -o json"));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["catalogs"][0]["name"], "community");
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    let yaml = printed(&format!("status --admin {admin} -o yaml"));
    assert!(yaml.contains("catalogs:\n"), "{yaml}");
    let one = printed(&format!("status other --admin {admin} -o name"));
    assert_eq!(one, "other\n");
    let one = printed(&format!("status other --admin {admin} -o json"));
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["catalogs"].as_array().unwrap().len(), 1);
    assert_eq!(one["version"], document["version"]);
    let unknown = run(&format!("status othr --admin {admin}"));
    assert_eq!(unknown.status.code(), Some(1), "{unknown:#?}");
    let said = unknown.stderr.contains("did you mean \"other\"?");
    assert!(said, "{unknown:#?}");
}

#[test]
fn a_refusal_of_a_server_is_told_once_in_words() {
    let mut server = server();
    let (http, admin) = (server.address("http"), server.address("admin"));
    let url = format!("http://{http}");
    for (line, said) in [
        (
            format!("status --admin {http}"),
            "is it the admin port, by default 9090?",
        ),
        (
            format!("health --admin {http}"),
            "not the admin port, by default 9090",
        ),
        (
            format!("list catalogs --server http://{admin}"),
            "is it the HTTP port, by default 8080?",
        ),
    ] {
        let finished = run(&line);
        assert!(!finished.status.success(), "{line}: {finished:#?}");
        assert!(finished.stderr.contains(said), "{line}: {finished:#?}");
    }
    let no_catalog = "404: there is no catalog \"comunity\"; did you mean \"community\"?\n";
    let no_path = "404: there is no such path; /openapi.json lists the paths\n";
    for (line, said) in [
        ("list packages URL/catalogs/comunity", no_catalog),
        ("search --server URL/catalogs/comunity ferry", no_catalog),
        ("list packages URL/nope", no_path),
    ] {
        let finished = run(&line.replace("URL", &url));
        assert_eq!(finished.status.code(), Some(3), "{line}: {finished:#?}");
        assert!(finished.stderr.ends_with(said), "{line}: {finished:#?}");
    }
}

#[test]
fn health_waits_for_an_almanac_that_starts_later() {
    let admin = free_port().to_string();
    let waiting = {
        let admin = admin.clone();
        std::thread::spawn(move || run(&format!("health --admin {admin} --wait 5m")))
    };
    let refused = run(&format!("health --admin {admin} --wait 1ms"));
    assert_eq!(refused.status.code(), Some(1), "{refused:#?}");
    let sample = root().join("deploy/catalog").display().to_string();
    let _server = Program::start([
        "serve",
        "--data-dir={data}",
        "--grpc=127.0.0.1:0",
        "--http=127.0.0.1:0",
        &format!("--admin={admin}"),
        &format!("community=file:{sample}"),
    ]);
    let ready = waiting.join().unwrap();
    assert_eq!(ready.status.code(), Some(0), "{ready:#?}");
}

/// A server that answers each request with a page.
fn other_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().take(12) {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let body = "<html>hello</html>";
            let length = body.len();
            let _ = write!(
                connection,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn a_server_that_is_no_almanac_is_told_as_such() {
    let address = other_server();
    for line in [
        format!("search --server http://{address} a"),
        format!("updates --server http://{address}/catalogs/a a"),
        format!("list catalogs --server http://{address}"),
        format!("status --admin {address}"),
    ] {
        let finished = run(&line);
        assert_eq!(finished.status.code(), Some(3), "{line}: {finished:#?}");
        let said = finished.stderr.contains("no almanac answers there");
        assert!(said, "{line}: {finished:#?}");
    }
    for line in [
        format!("list catalogs --server http://{address}"),
        format!("status --admin {address}"),
    ] {
        let finished = run(&line);
        let port = if line.starts_with("status") {
            "admin"
        } else {
            "HTTP"
        };
        let said = finished
            .stderr
            .contains(&format!("is it the {port} port, by default"));
        assert!(said, "{line}: {finished:#?}");
    }
    let finished = run("status --admin 127.0.0.1:1");
    assert_eq!(finished.status.code(), Some(3), "{finished:#?}");
    let said = finished
        .stderr
        .to_lowercase()
        .contains("connection refused");
    assert!(said, "{finished:#?}");
}

#[test]
fn what_a_query_does_not_find_is_told() {
    let finished = run("search file:deploy/catalog nothinglikeit");
    assert_eq!(finished.status.code(), Some(0), "{finished:#?}");
    assert!(finished.stderr.starts_with("almanac: "), "{finished:#?}");
    let finished = run("updates file:deploy/catalog fery-operator");
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let said = finished.stderr.contains("did you mean \"ferry-operator\"?");
    assert!(said, "{finished:#?}");
    let finished = run("updates file:deploy/catalog ferry-operator --range x.y.z");
    assert_eq!(finished.status.code(), Some(2), "{finished:#?}");
}
