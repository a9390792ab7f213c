//! Questions that are refused, with the texts of the peer.

use serde_json::{Value, json};

use super::{Ask, PATH, fruit_served};
use crate::support::http;
use crate::support::served::{Served, start, with};

#[test]
fn what_is_asked_wrongly_is_said() {
    let served = fruit_served();
    let near = served.error("{ olmbundles { nme } }");
    assert!(
        near.contains("nme") && near.contains("OlmBundle") && near.contains("\"name\""),
        "{near}"
    );
    for (query, part) in [
        ("{ olmbundles }", "olmbundles"),
        ("{ olmbundles { name { x } } }", "name"),
        ("{ olmbundles(first: 1) { name } }", "first"),
        ("{ olmbundles { ...Nope } }", "Nope"),
        ("query($x: Nope) { olmbundles(limit: $x) { name } }", "Nope"),
        ("{ olmbundles(limit: $x) { name } }", "x"),
        ("mutation { olmbundles { name } }", "mutation"),
        ("subscription { olmbundles { name } }", "subscription"),
        ("{ __schema { nope } }", "nope"),
    ] {
        let answer = served.answer(&json!({"query": query}));
        assert!(answer["data"].is_null(), "{query}: {answer:#}");
        let said = answer["errors"][0]["message"]
            .as_str()
            .unwrap()
            .to_lowercase();
        assert!(said.contains(&part.to_lowercase()), "{query}: {said}");
    }
    let answer = served.answer(&json!({"query": "{\n olmbundles { nope } }"}));
    assert_eq!(
        answer["errors"][0]["locations"],
        json!([{"line": 2, "column": 15}])
    );
    let answer = served.answer(&json!({"query": "{ "}));
    assert_eq!(
        answer["errors"][0]["locations"],
        json!([{"line": 1, "column": 3}])
    );
    assert!(served.error("{ ").starts_with("query parse error: "));
}

#[test]
fn queries_have_limits_that_are_held_before_the_catalog_is_looked_for() {
    let served = fruit_served();
    let deep = |depth: usize| "{a".repeat(depth) + &"}".repeat(depth);
    let aliases: Vec<String> = (0..51)
        .map(|n| format!("a{n}: summary {{ totalSchemas }} "))
        .collect();
    for (query, message) in [
        (deep(11), "query exceeds maximum depth of 10"),
        (deep(5000), "query exceeds maximum nesting of 60 brackets"),
        (
            format!("{{{}}}", aliases.concat()),
            "query exceeds maximum alias count of 50",
        ),
        (
            format!("{{{}}}", "a ".repeat(501)),
            "query exceeds maximum field count of 500",
        ),
        (
            "{...a} fragment a on Query{...b} fragment b on Query{...a}".to_owned(),
            "spreads itself",
        ),
    ] {
        for path in [PATH, "/catalogs/nope/api/v1/graphql"] {
            let reply = served.post(path, &json!({"query": query}).to_string());
            assert_eq!(reply.status, 200, "{}", reply.text());
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(answer["data"].is_null());
            let said = answer["errors"][0]["message"].as_str().unwrap();
            assert!(said.contains(message), "{said}");
        }
    }
    let at_most = |count: usize| {
        let spaces = " ".repeat(count - "{ summary { totalSchemas } }".len());
        json!({"query": format!("{{ summary {{ totalSchemas{spaces} }} }}")}).to_string()
    };
    assert_eq!(served.post(PATH, &at_most(100_000)).status, 200);
    let reply = served.post(PATH, &at_most(100_001));
    assert_eq!((reply.status, &*reply.text()), (400, "Query too large\n"));
}

#[test]
fn requests_are_refused_with_the_texts_of_the_peer() {
    let served = fruit_served();
    let good = json!({"query": "{ summary { totalSchemas } }"}).to_string();
    let body = (400, "Invalid request body\n");
    let large = format!(
        "{{\"query\":\"{{ a }}\",\"x\":\"{}\"}}",
        "x".repeat(1 << 20)
    );
    for (path, sent, (status, text)) in [
        (PATH, "", body),
        (PATH, "{", body),
        (PATH, "[]", body),
        (PATH, "\"{ summary { totalSchemas } }\"", body),
        (PATH, "{\"query\":5}", body),
        (PATH, "{\"query\":\"{a}\",\"variables\":[]}", body),
        (PATH, "{\"query\":\"{a}\",\"operationName\":[]}", body),
        (PATH, "\u{0}", body),
        (PATH, &large, body),
        (PATH, "{}", (400, "Query cannot be empty\n")),
        (PATH, "{\"query\":\"\"}", (400, "Query cannot be empty\n")),
        (
            "/catalogs/nope/api/v1/graphql",
            &good,
            (
                404,
                "404 Not Found\nthere is no catalog \"nope\"; there are \"fruit\"\n",
            ),
        ),
        (
            "/catalogs/fruit/api/v1/graphql/",
            &good,
            (404, "404 page not found\n"),
        ),
    ] {
        let reply = served.post(path, sent);
        let shown = &sent[..sent.len().min(80)];
        assert_eq!(
            (reply.status, &*reply.text()),
            (status, text),
            "{path} {shown}"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
    let reply = served.post("/catalogs/No_Such/api/v1/graphql", &good);
    assert_eq!(reply.status, 400);
    assert!(reply.text().starts_with("invalid catalog name: "));
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let reply = served.ask(method, PATH, &[("Accept", "application/json")]);
        assert_eq!(reply.status, 405, "{method}");
        let text = if method == "HEAD" {
            ""
        } else {
            "Method Not Allowed\n"
        };
        assert_eq!(reply.text(), text);
    }
    // The type of the body does not matter, and what else is in it neither.
    let body = json!({"query": "{ summary { totalSchemas } }", "extensions": {"a": 1}, "id": 7});
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let headers = [("Content-Type", kind)];
        let body = body.to_string();
        let reply = http::ask(served.http, "POST", PATH, &headers, body.as_bytes()).unwrap();
        assert_eq!(reply.status, 200, "{kind}");
    }
}

#[test]
fn a_catalog_that_was_never_loaded_is_not_an_empty_one() {
    let arguments = ["fruit=file:/there/is/no/such/folder"];
    let served = Served::begin(with(start(), arguments));
    let reply = served.post(
        PATH,
        &json!({"query": "{ summary { totalSchemas } }"}).to_string(),
    );
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    let page = served.ask("GET", PATH, &[("Accept", "text/html")]);
    assert_eq!(page.status, 503);
}
