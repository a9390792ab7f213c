//! The index of the HTTP port, queries over several catalogs, and what is told of
//! a name that no catalog has.

use serde_json::{Value, json};

use crate::support::almanac::open_and_closed;
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::http::{self, Reply};
use crate::support::program::{PATIENCE, pause};
use crate::support::served::{Folders, Served};

/// Two packages that provide a kind, one of them with two versions.
fn north() -> Catalog {
    let kafka = |version: &str| {
        bundle(&format!("stream.v{version}")).provides("stream.example.com", "v1", "Kafka")
    };
    Catalog::new()
        .package("stream", |package| {
            package
                .description("Streams of messages.")
                .default_channel("stable")
                .channel(
                    "stable",
                    [
                        entry("stream.v1.0.0"),
                        entry("stream.v1.1.0").replaces("stream.v1.0.0"),
                    ],
                )
                .channel("fast", [entry("stream.v1.1.0")])
                .bundle(kafka("1.0.0"))
                .bundle(kafka("1.1.0"))
        })
        .package("brook", |package| {
            package
                .channel(
                    "stable",
                    [
                        entry("brook.v1.0.0"),
                        entry("brook.v2.0.0").replaces("brook.v1.0.0"),
                    ],
                )
                .bundle(bundle("brook.v1.0.0").provides("stream.example.com", "v1", "Kafka"))
        })
}

/// One package that `north` has too.
fn south() -> Catalog {
    Catalog::new().package("stream", |package| {
        package
            .channel("stable", [entry("stream.v0.9.0")])
            .bundle(bundle("stream.v0.9.0").provides("stream.example.com", "v1beta1", "Kafka"))
    })
}

/// Both, and a catalog that never gets content.
fn served() -> Served {
    let (north, south) = (
        Folders::of("north", &north()),
        Folders::of("south", &south()),
    );
    let sources = north.sources().into_iter().chain(south.sources());
    let served = Served::start(sources.chain(["later=file:/nowhere/at/all".to_owned()]));
    let served = served.keeping(&north).keeping(&south);
    assert_eq!(served.get("/catalogs/north/api/v1/all").status, 200);
    served
}

fn json_of(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    serde_json::from_slice(&reply.body).unwrap()
}

fn ask(served: &Served, path: &str) -> Value {
    json_of(&served.get(path))
}

/// Some fields of each item.
fn each<const N: usize>(list: &Value, fields: [&str; N]) -> Vec<[String; N]> {
    let items = list["items"].as_array().unwrap().iter();
    let text = |item: &Value, field: &str| match &item[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    items
        .map(|item| fields.map(|field| text(item, field)))
        .collect()
}

#[test]
fn the_index_names_each_catalog_with_its_state_and_routes() {
    let served = served();
    let index = ask(&served, "/catalogs");
    assert_eq!(
        each(&index, ["name", "state"]),
        [
            ["later", "failing"],
            ["north", "serving"],
            ["south", "serving"]
        ]
    );
    assert_eq!(index["total"], 3);
    assert_eq!(index["items"][0]["revision"], Value::Null);
    let north = &index["items"][1];
    assert_eq!(north["counts"]["packages"], 2);
    assert_eq!(north["counts"]["bundles"], 4);
    let digest = north["revision"]["digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:"), "{digest}");
    // Each path of the index is answered by something else than "not found".
    for (_, path) in north["links"].as_object().unwrap() {
        let path = path.as_str().unwrap();
        let asked = path.replace("{bundle}", "stream.v1.1.0");
        let begin = std::time::Instant::now();
        let mut reply = served.get(&asked);
        // The image is made after the catalog is served.
        while reply.status == 503 && begin.elapsed() < PATIENCE {
            pause(begin);
            reply = served.get(&asked);
        }
        assert!(
            [200, 400, 405].contains(&reply.status),
            "{path}: {}",
            reply.status
        );
    }
    for (_, path) in index["links"].as_object().unwrap() {
        let path = path.as_str().unwrap().replace("{package}", "stream");
        let status = served.get(&path).status;
        assert!([200, 400].contains(&status), "{path}: {status}");
    }
    assert_eq!(&ask(&served, "/catalogs/north"), north);
    assert_eq!(ask(&served, "/"), index);
    // What a client has is not sent again. There is no date: a catalog that is
    // gone leaves none.
    let reply = served.get("/catalogs");
    let etag = reply.header("etag").unwrap();
    assert_eq!(reply.header("last-modified"), None);
    assert_eq!(reply.header("vary"), Some("Accept-Encoding, Authorization"));
    let again = served.ask("GET", "/catalogs", &[("If-None-Match", etag)]);
    assert_eq!(again.status, 304);
    let dated = [("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")];
    assert_eq!(served.ask("GET", "/catalogs", &dated).status, 200);
}

#[test]
fn the_root_answers_browsers_and_programs_by_what_they_accept() {
    let served = served();
    let html = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = served.ask("GET", "/", &html);
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let text = page.text();
    for part in ["href=\"/catalogs/north\"", "serving", "failing"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The index has one address, so the page and the index differ by `Accept`.
    let index = served.ask("GET", "/", &[("Accept", "*/*")]);
    assert_eq!(index.header("content-type"), Some("application/json"));
    for reply in [page, index] {
        let vary = reply.headers.iter().filter(|(name, _)| name == "vary");
        let vary: Vec<&str> = vary.map(|(_, value)| value.as_str()).collect();
        assert!(vary.contains(&"Accept"), "{vary:?}");
    }
}

#[test]
fn a_package_is_found_in_every_catalog() {
    let served = served();
    let found = ask(&served, "/api/v1/packages/stream");
    assert_eq!(
        each(&found, ["catalog", "name", "version"]),
        [["north", "stream", "1.1.0"], ["south", "stream", "0.9.0"]]
    );
    let channels = &found["items"][0]["channels"];
    assert_eq!(channels[0]["name"], "fast");
    assert_eq!(channels[1]["head"], "stream.v1.1.0");
    assert_eq!(found["notLoaded"], json!(["later"]));
    let reply = served.get("/api/v1/packages/steam");
    assert_eq!(reply.status, 404);
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["type"], "urn:almanac:problem:unknown-package");
    assert_eq!(problem["suggestions"], json!(["stream"]));
}

#[test]
fn a_search_spans_catalogs_with_one_ranking() {
    let served = served();
    // `stream` is a name in two catalogs, and a part of a description nowhere
    // else; `brook` has the group in no word.
    let found = ask(&served, "/api/v1/search?q=stream");
    assert_eq!(
        each(&found, ["catalog", "name"]),
        [["north", "stream"], ["south", "stream"]]
    );
    // A kind counts less than a name.
    let found = ask(&served, "/api/v1/search?q=kafka&fields=name,catalog");
    assert_eq!(
        found["items"][0],
        json!({"catalog": "north", "name": "stream"})
    );
    // Pages follow each other, and end when a catalog changes.
    let first = ask(&served, "/api/v1/search?q=stream&limit=1");
    assert_eq!(first["total"], 2);
    let next = first["continue"].as_str().unwrap();
    let second = ask(&served, &format!("/api/v1/search?q=stream&continue={next}"));
    assert_eq!(each(&second, ["catalog"]), [["south"]]);
    let none = ask(&served, "/api/v1/search?q=steam");
    assert_eq!(none["total"], 0);
    assert_eq!(none["suggestions"], json!(["stream"]));
    assert!(
        none["hint"]
            .as_str()
            .unwrap()
            .contains("did you mean \"stream\"?")
    );
}

#[test]
fn providers_are_grouped_by_package_and_span_catalogs() {
    let served = served();
    let all = ask(&served, "/api/v1/providers?kind=Kafka");
    assert_eq!(
        each(&all, ["catalog", "package", "channel", "bundle", "head"]),
        [
            ["north", "brook", "stable", "brook.v1.0.0", "false"],
            ["north", "stream", "fast", "stream.v1.1.0", "true"],
            ["north", "stream", "stable", "stream.v1.1.0", "true"],
            ["north", "stream", "stable", "stream.v1.0.0", "false"],
            ["south", "stream", "stable", "stream.v0.9.0", "true"],
        ]
    );
    let grouped = ask(&served, "/api/v1/providers?kind=Kafka&by=package");
    assert_eq!(
        each(&grouped, ["catalog", "package", "entries"]),
        [
            ["north", "brook", "1"],
            ["north", "stream", "3"],
            ["south", "stream", "1"]
        ]
    );
    assert_eq!(
        grouped["items"][1]["channels"],
        json!([
            {"name": "fast", "default": false, "bundle": "stream.v1.1.0", "version": "1.1.0",
             "head": true, "entries": 1},
            {"name": "stable", "default": true, "bundle": "stream.v1.1.0", "version": "1.1.0",
             "head": true, "entries": 2},
        ])
    );
    assert_eq!(
        grouped["items"][2]["apis"],
        json!([{"group": "stream.example.com", "version": "v1beta1", "kind": "Kafka"}])
    );
    // The head of `brook` does not provide it any more.
    let heads = ask(
        &served,
        "/api/v1/providers?kind=Kafka&by=package&heads=true",
    );
    assert_eq!(
        each(&heads, ["catalog", "package", "entries"]),
        [["north", "stream", "2"], ["south", "stream", "1"]]
    );
    // Over one catalog, items do not repeat its name.
    let one = ask(
        &served,
        "/catalogs/north/api/v1/providers?kind=Kafka&by=package&limit=1",
    );
    assert_eq!(each(&one, ["catalog", "package"]), [["null", "brook"]]);
    assert_eq!(one["total"], 2);
    let next = one["continue"].as_str().unwrap();
    let path = format!("/catalogs/north/api/v1/providers?kind=Kafka&by=package&continue={next}");
    assert_eq!(each(&ask(&served, &path), ["package"]), [["stream"]]);
}

#[test]
fn an_empty_answer_names_what_was_meant() {
    let served = served();
    for (query, says, similar) in [
        ("kind=kafka", "did you mean \"Kafka\"?", json!(["Kafka"])),
        ("kind=Kafkas", "did you mean \"Kafka\"?", json!(["Kafka"])),
        ("kind=Pump", "there are \"Kafka\"", Value::Null),
        (
            "kind=Kafka&group=steam.example.com",
            "did you mean \"stream.example.com\"?",
            json!(["stream.example.com"]),
        ),
        (
            "kind=Kafka&version=v2",
            "of the version \"v2\"",
            json!(["v1"]),
        ),
    ] {
        for path in ["/api/v1", "/catalogs/north/api/v1"] {
            let answer = ask(&served, &format!("{path}/providers?{query}"));
            assert_eq!(
                (&answer["items"], &answer["total"]),
                (&json!([]), &json!(0))
            );
            let hint = answer["hint"].as_str().unwrap();
            assert!(hint.contains(says), "{query}: {hint}");
            assert_eq!(answer["suggestions"], similar, "{query}");
        }
    }
    // An update from a version that the catalog does not have.
    let updates = |from: &str| {
        let path = "/catalogs/north/api/v1/updates?package=stream&from=";
        ask(&served, &format!("{path}{from}"))
    };
    assert_eq!(updates("1.0.0")["hint"], Value::Null);
    let unknown = updates("1.0.7");
    assert_eq!(unknown["from"], json!({"version": "1.0.7"}));
    assert_eq!(unknown["suggestions"], json!(["1.0.0", "1.1.0"]));
    let hint = unknown["hint"].as_str().unwrap();
    assert!(hint.contains("no entry \"1.0.7\""), "{hint}");
    assert!(
        hint.ends_with("the nearest versions are 1.0.0, 1.1.0"),
        "{hint}"
    );
}

#[test]
fn an_empty_selection_stays_empty_and_a_header_names_what_was_meant() {
    let served = served();
    for (query, says) in [
        ("schema=olm.bundel", Some("did you mean \"olm.bundle\"?")),
        ("schema=x", Some("there are \"olm.")),
        ("package=steam", Some("did you mean \"stream\"?")),
        (
            "schema=olm.package&name=steam",
            Some("no blob has the name \"steam\"; did you mean \"stream\"?"),
        ),
        (
            "schema=olm.package&package=stream",
            Some("write name= for package="),
        ),
        (
            "schema=olm.channel&package=stream&name=stabel",
            Some("did you mean \"stable\"?"),
        ),
        ("schema=%C3%A4%0D%0Ax", Some("\\u{e4}")),
        ("schema=olm.package", None),
        ("", None),
    ] {
        let path = format!("/catalogs/north/api/v1/metas?{query}");
        for method in ["GET", "HEAD"] {
            let reply = served.ask(method, &path, &[]);
            assert_eq!(reply.status, 200, "{query}");
            assert_eq!(reply.header("content-type"), Some("application/jsonl"));
            let hint = reply.header("almanac-hint");
            match says {
                Some(says) => {
                    assert!(reply.body.is_empty(), "{query}");
                    assert!(
                        hint.is_some_and(|hint| hint.contains(says)),
                        "{query}: {hint:?}"
                    );
                }
                None => assert_eq!(hint, None, "{query}"),
            }
        }
    }
}

#[test]
fn restricted_catalogs_are_told_to_their_readers_only() {
    let (_folder, mut almanac) = open_and_closed([&south(), &north()]);
    let address = almanac.program.address("http");
    let get = |path: &str, token: Option<&str>| {
        let value = format!("Bearer {}", token.unwrap_or_default());
        let headers = [("Authorization", &*value)];
        let headers = if token.is_some() { &headers[..] } else { &[] };
        http::ask(address, "GET", path, headers, b"").unwrap()
    };
    let reader = Some("reader-secret");
    for path in [
        "/",
        "/catalogs",
        "/catalogs/clsed",
        "/api/v1/search?q=stream",
        "/api/v1/search?q=brok",
        "/api/v1/providers?kind=Kafka",
        "/api/v1/providers?kind=Kafka&by=package",
        "/api/v1/packages/stream",
        "/api/v1/packages/brok",
        "/catalogs/clsed/api/v1/all",
        "/catalogs/clsed/api/v1/metas",
        "/catalogs/clsed/api/v1/packages",
    ] {
        for token in [None, Some("other-secret")] {
            let text = get(path, token).text();
            assert!(!text.contains("\"closed\""), "{path}: {text}");
            assert!(!text.contains("brook"), "{path}: {text}");
        }
        let text = get(path, reader).text();
        let told = text.contains("\"closed\"") || text.contains("brook");
        assert!(told, "{path}: {text}");
    }
    assert_eq!(get("/catalogs/closed", None).status, 401);
    assert_eq!(get("/catalogs/closed", reader).status, 200);
    let html = [("Accept", "text/html")];
    let page = http::ask(address, "GET", "/", &html, b"").unwrap();
    assert!(!page.text().contains("closed"));
}
