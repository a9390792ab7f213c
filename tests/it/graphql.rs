//! catalogd's GraphQL API of the running program, as its clients use it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::catalog::{Catalog, entry};
use crate::support::http::{self, Reply};
use crate::support::served::{Folders, Served, start, with};

const PATH: &str = "/catalogs/fruit/api/v1/graphql";

/// Two packages, and blobs of other schemas with every kind of value.
fn fruit() -> Catalog {
    let catalog = ["apple", "banana"]
        .into_iter()
        .fold(Catalog::new(), |catalog, name| {
            catalog.package(name, |package| {
                let versions: Vec<String> = (1..=3).map(|n| format!("{name}.v{n}.0.0")).collect();
                package
                    .icon("image/svg+xml", b"<svg/>")
                    .description("<b>\"quoted\" & käse\u{2028}</b>")
                    .channel(
                        "stable",
                        [
                            entry(&versions[0]),
                            entry(&versions[1]).replaces(&versions[0]),
                            entry(&versions[2])
                                .replaces(&versions[1])
                                .skips([&versions[0], "other"]),
                        ],
                    )
            })
        });
    catalog
        .blob(json!({
            "schema": "io.example.things", "name": "first", "9lives": true, "foo_bar-baz.qux": "x",
            "whole": 7, "large": 5_000_000_000_i64, "part": 1.5, "none": null, "flag": true,
            "texts": ["a", "b"], "numbers": [1, 2], "mixed": ["a", 1, {"b": []}],
            "object": {"b": [1], "a": "<&>"},
            "objects": [{"name": "one", "value": {"deep": 1}}, {"name": "two", "value": "text"}],
        }))
        .blob(json!({
            "schema": "io.example.things", "name": "second", "whole": 5_000_000_000_i64,
            "large": 2, "part": 2, "flag": "maybe", "texts": "only", "numbers": [1.5, null, 3],
            "objects": [{"name": 5, "size": 3}, "no object"], "late": "x",
        }))
}

fn fruit_served() -> Served {
    Served::catalogs(&Folders::of("fruit", &fruit()))
}

trait Ask {
    fn post(&self, path: &str, body: &str) -> Reply;

    /// The answer to a query, with its status 200.
    fn answer(&self, question: &Value) -> Value {
        let reply = self.post(PATH, &question.to_string());
        assert_eq!(reply.status, 200, "{question}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        assert!(reply.text().starts_with("{\"data\":"), "{}", reply.text());
        for error in answer["errors"].as_array().into_iter().flatten() {
            assert!(error["message"].is_string() && error["locations"].is_array());
            assert!(error.get("extensions").is_none());
        }
        answer
    }

    /// The data of an answer without errors.
    fn data(&self, query: &str) -> Value {
        let mut answer = self.answer(&json!({"query": query}));
        assert!(answer.get("errors").is_none(), "{query}: {answer:#}");
        answer["data"].take()
    }

    /// The message of the one error of an answer without data.
    fn error(&self, query: &str) -> String {
        let answer = self.answer(&json!({"query": query}));
        assert!(answer["data"].is_null(), "{query}: {answer:#}");
        assert_eq!(answer["errors"].as_array().unwrap().len(), 1, "{answer:#}");
        answer["errors"][0]["message"].as_str().unwrap().to_owned()
    }
}

impl Ask for Served {
    fn post(&self, path: &str, body: &str) -> Reply {
        http::ask(self.http, "POST", path, &[], body.as_bytes()).unwrap()
    }
}

#[test]
fn the_documented_queries_are_answered() {
    let served = fruit_served();
    let summary =
        served.data("{ summary { totalSchemas schemas { name totalObjects totalFields } } }");
    assert_eq!(summary["summary"]["totalSchemas"], 4);
    let schemas = summary["summary"]["schemas"].as_array().unwrap();
    let of = |name: &str| {
        schemas
            .iter()
            .find(|schema| schema["name"] == name)
            .unwrap()
    };
    assert_eq!(of("olm.package")["totalObjects"], 2);
    assert_eq!(of("olm.bundle")["totalObjects"], 6);
    assert_eq!(of("io.example.things")["totalObjects"], 2);
    assert_eq!(of("io.example.things")["totalFields"], 15);

    let fields = served.data("{ __schema { queryType { fields { name } } } }");
    let fields: Vec<&str> = fields["__schema"]["queryType"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "summary",
            "olmbundles",
            "olmchannels",
            "olmpackages",
            "ioexamplethingss"
        ]
    );

    assert_eq!(
        served.data("{ olmbundles(limit: 2, offset: 2) { name package image } }"),
        json!({"olmbundles": [
            {"name": "apple.v3.0.0", "package": "apple", "image": image(&served, "apple.v3.0.0")},
            {"name": "banana.v1.0.0", "package": "banana", "image": image(&served, "banana.v1.0.0")},
        ]})
    );
    let packages = served.data("{ olmpackages { name icon description } }");
    assert_eq!(packages["olmpackages"][1]["name"], "banana");
    let icon = packages["olmpackages"][1]["icon"].as_str().unwrap();
    let icon: Value = serde_json::from_str(icon).unwrap();
    assert_eq!(icon["mediatype"], "image/svg+xml");
    assert_eq!(
        packages["olmpackages"][0]["description"],
        "<b>\"quoted\" & käse\u{2028}</b>"
    );
    let bundles = served.data("{ olmbundles { name properties { type value } } }");
    let bundles = bundles["olmbundles"].as_array().unwrap();
    assert_eq!(bundles.len(), 6);
    let property = |bundle: &Value| -> Value {
        let properties = bundle["properties"].as_array().unwrap();
        let found = properties
            .iter()
            .find(|property| property["type"] == "olm.package");
        // Objects are JSON texts.
        serde_json::from_str(found.unwrap()["value"].as_str().unwrap()).unwrap()
    };
    assert_eq!(
        property(&bundles[4]),
        json!({"packageName": "banana", "version": "2.0.0"})
    );
}

fn image(served: &Served, bundle: &str) -> Value {
    let path = format!("/catalogs/fruit/api/v1/metas?schema=olm.bundle&name={bundle}");
    let blob: Value = serde_json::from_slice(&served.get(&path).body).unwrap();
    blob["image"].clone()
}

#[test]
fn lists_of_values_are_lists() {
    let served = fruit_served();
    let data = served.data("{ olmchannels(limit: 1) { name entries { name replaces skips } } }");
    assert_eq!(
        data["olmchannels"][0]["entries"],
        json!([
            {"name": "apple.v1.0.0", "replaces": null, "skips": null},
            {"name": "apple.v2.0.0", "replaces": "apple.v1.0.0", "skips": null},
            {"name": "apple.v3.0.0", "replaces": "apple.v2.0.0", "skips": ["apple.v1.0.0", "other"]},
        ])
    );
}

#[test]
fn each_kind_of_value_comes_as_the_type_of_its_field() {
    let served = fruit_served();
    let data = served.data(
        "{ ioexamplethingss { name field_9lives fooBarBazQux whole large part none flag texts
           numbers mixed object objects { name value size } late } }",
    );
    assert_eq!(
        data["ioexamplethingss"],
        json!([
            {
                "name": "first", "field_9lives": true, "fooBarBazQux": "x", "whole": 7,
                "large": 5_000_000_000_i64, "part": 1.5, "none": null, "flag": true,
                "texts": ["a", "b"], "numbers": [1, 2], "mixed": ["a", "1", "{\"b\":[]}"],
                "object": "{\"a\":\"<&>\",\"b\":[1]}",
                "objects": [
                    {"name": "one", "value": "{\"deep\":1}", "size": null},
                    {"name": "two", "value": "text", "size": null},
                ],
                "late": null,
            },
            {
                "name": "second", "field_9lives": null, "fooBarBazQux": null, "whole": null,
                "large": 2, "part": 2, "none": null, "flag": null, "texts": ["only"],
                "numbers": [null, null, 3], "mixed": null, "object": null,
                "objects": [
                    {"name": "5", "value": null, "size": 3},
                    {"name": null, "value": null, "size": null},
                ],
                "late": "x",
            },
        ])
    );
    let types = served.data("{ __type(name: \"IoExampleThings\") { fields { name type { kind name ofType { name } } } } }");
    let types: Vec<String> = types["__type"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| {
            let ty = &field["type"];
            let name = ty["name"]
                .as_str()
                .or(ty["ofType"]["name"].as_str())
                .unwrap();
            let list = if ty["kind"] == "LIST" { "*" } else { "" };
            format!("{}:{name}{list}", field["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        types,
        [
            "field_9lives:Boolean",
            "flag:Boolean",
            "fooBarBazQux:String",
            "large:Float",
            "mixed:String*",
            "name:String",
            "none:String",
            "numbers:Int*",
            "object:String",
            "objects:IoExampleThingsObjects*",
            "part:Float",
            "schema:String",
            "texts:String*",
            "whole:Int",
            "late:String",
        ]
    );
}

#[test]
fn pages_are_cut_as_the_peer_cuts_them() {
    let many = (0..150).fold(Catalog::one("apple"), |catalog, number| {
        catalog.blob(json!({"schema": "many", "number": number}))
    });
    let served = Served::catalogs(&Folders::of("fruit", &many));
    for (arguments, first, count) in [
        ("", 0, 100),
        ("(limit: 5)", 0, 5),
        ("(limit: 5, offset: 120)", 120, 5),
        ("(offset: 120)", 120, 30),
        ("(limit: 0)", 0, 100),
        ("(limit: -3)", 0, 100),
        ("(limit: 101)", 0, 100),
        ("(limit: null, offset: null)", 0, 100),
        ("(offset: -7)", 0, 100),
        ("(offset: 150)", 0, 0),
        ("(offset: 2147483647)", 0, 0),
    ] {
        let data = served.data(&format!("{{ manys{arguments} {{ number }} }}"));
        let numbers: Vec<i64> = data["manys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blob| blob["number"].as_i64().unwrap())
            .collect();
        let wanted: Vec<i64> = (first..first + count).collect();
        assert_eq!(numbers, wanted, "{arguments}");
    }
    let answer = served.answer(&json!({"query": "{ manys(limit: 2147483648) { number } }"}));
    assert!(answer["data"]["manys"].is_null());
    let said = answer["errors"][0]["message"].as_str().unwrap();
    assert!(said.contains("\"limit\""), "{said}");
    assert!(
        served
            .error("{ manys(limit: \"x\") { number } }")
            .contains("limit")
    );
}

#[test]
fn variables_operations_fragments_and_directives_work() {
    let served = fruit_served();
    let query = "query Some($count: Int, $from: Int = 1, $more: Boolean!) {
        olmpackages(limit: $count, offset: $from) { ...Named schema @include(if: $more) }
        again: olmpackages(limit: 1) { ... on OlmPackage { __typename name @skip(if: $more) } }
      }
      fragment Named on OlmPackage { name }";
    let ask = |variables: Value| {
        served.answer(&json!({"query": query, "operationName": "Some", "variables": variables}))
    };
    assert_eq!(
        ask(json!({"count": 1, "more": true})),
        json!({"data": {
            "olmpackages": [{"name": "banana", "schema": "olm.package"}],
            "again": [{"__typename": "OlmPackage"}],
        }})
    );
    assert_eq!(
        ask(json!({"from": 0, "more": false})),
        json!({"data": {
            "olmpackages": [{"name": "apple"}, {"name": "banana"}],
            "again": [{"__typename": "OlmPackage", "name": "apple"}],
        }})
    );
    for bad in [
        json!({"count": 1}),
        json!({"count": "x", "more": true}),
        json!(null),
    ] {
        let answer = ask(bad);
        assert!(answer["data"].is_null() && answer["errors"][0]["message"].is_string());
    }

    let two = "query A { olmpackages(limit: 1) { name } } query B { summary { totalSchemas } }";
    let named = |name: Value| served.answer(&json!({"query": two, "operationName": name}));
    assert_eq!(
        named(json!("B"))["data"],
        json!({"summary": {"totalSchemas": 4}})
    );
    assert_eq!(named(json!("A"))["data"]["olmpackages"][0]["name"], "apple");
    for unknown in [json!("C"), json!(null), json!("")] {
        let answer = named(unknown);
        assert!(answer["data"].is_null());
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert!(message.to_lowercase().contains("operation"), "{message}");
    }
}

/// As tools send it that show or compile a schema.
const INTROSPECTION: &str = "
query IntrospectionQuery {
  __schema {
    description
    queryType { name kind }
    mutationType { name kind }
    subscriptionType { name kind }
    types { ...FullType }
    directives {
      name description isRepeatable locations
      args(includeDeprecated: true) { ...InputValue }
    }
  }
}
fragment FullType on __Type {
  kind name description specifiedByURL
  fields(includeDeprecated: true) {
    name description
    args(includeDeprecated: true) { ...InputValue }
    type { ...TypeRef }
    isDeprecated deprecationReason
  }
  inputFields(includeDeprecated: true) { ...InputValue }
  interfaces { ...TypeRef }
  enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
  possibleTypes { ...TypeRef }
}
fragment InputValue on __InputValue {
  name description type { ...TypeRef } defaultValue isDeprecated deprecationReason
}
fragment TypeRef on __Type {
  kind name
  ofType { kind name ofType { kind name ofType { kind name ofType { kind name
  ofType { kind name ofType { kind name ofType { kind name ofType { kind name
  ofType { kind name } } } } } } } } }
}";

#[test]
fn tools_can_learn_the_schema() {
    let served = fruit_served();
    let data = served.data(INTROSPECTION);
    check_introspection(&data);
    let schema = &data["__schema"];
    assert_eq!(schema["queryType"]["name"], "Query");
    assert!(schema["mutationType"].is_null() && schema["subscriptionType"].is_null());
    let query = type_of(schema, "Query");
    let bundles = named(&query["fields"], "olmbundles");
    let limit = named(&bundles["args"], "limit");
    assert_eq!(limit["defaultValue"], "100");
    assert_eq!(limit["description"], "Maximum number of items to return");
    assert_eq!(named(&bundles["args"], "offset")["defaultValue"], "0");
    assert_eq!(
        bundles["type"],
        json!({"kind": "LIST", "name": null, "ofType": {"kind": "OBJECT", "name": "OlmBundle", "ofType": null}})
    );
    assert_eq!(
        named(&type_of(schema, "OlmBundle")["fields"], "properties")["type"]["ofType"]["name"],
        "OlmBundleProperties"
    );
}

fn type_of<'a>(schema: &'a Value, name: &str) -> &'a Value {
    named(&schema["types"], name)
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|item| item["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// Every type that is named is there, and every name is one.
fn check_introspection(data: &Value) {
    fn is_name(name: &str) -> bool {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }
    let types = data["__schema"]["types"].as_array().unwrap();
    let names: Vec<&str> = types
        .iter()
        .map(|ty| ty["name"].as_str().unwrap())
        .collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    for ty in types {
        assert!(is_name(ty["name"].as_str().unwrap()), "{ty:#}");
        if ty["kind"] != "OBJECT" {
            continue;
        }
        let fields = ty["fields"].as_array().unwrap();
        assert!(!fields.is_empty(), "{ty:#}");
        let mut seen = Vec::new();
        for field in fields {
            let name = field["name"].as_str().unwrap();
            assert!(is_name(name) && !seen.contains(&name), "{ty:#}");
            seen.push(name);
            let mut of = &field["type"];
            while !of["ofType"].is_null() {
                of = &of["ofType"];
            }
            assert!(names.contains(&of["name"].as_str().unwrap()), "{of:#}");
        }
    }
}

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

/// The names in the one list of an answer.
fn names(served: &Served, query: &str) -> Vec<String> {
    let data = served.data(query);
    let list = data.as_object().unwrap().values().next().unwrap();
    let items = list.as_array().unwrap().iter();
    items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn blobs_are_filtered_by_package_name_and_fields() {
    let served = fruit_served();
    let image = image(&served, "banana.v2.0.0");
    for (query, wanted) in [
        (
            "{ olmbundles(package: \"banana\") { name } }".to_owned(),
            &["banana.v1.0.0", "banana.v2.0.0", "banana.v3.0.0"][..],
        ),
        (
            "{ olmbundles(package: \"banana\", limit: 1, offset: 1) { name } }".to_owned(),
            &["banana.v2.0.0"],
        ),
        (
            "{ olmbundles(name: \"apple.v1.0.0\") { name } }".to_owned(),
            &["apple.v1.0.0"],
        ),
        (
            "{ olmbundles(name: \"apple.v1.0.0\", package: \"banana\") { name } }".to_owned(),
            &[],
        ),
        (
            "{ olmpackages(name: \"apple\") { name } }".to_owned(),
            &["apple"],
        ),
        (
            "{ olmpackages(package: \"apple\") { name } }".to_owned(),
            &[],
        ),
        (
            "{ olmpackages(name: null, package: null, where: null) { name } }".to_owned(),
            &["apple", "banana"],
        ),
        (
            format!("{{ olmbundles(where: {{image: {image}}}) {{ name }} }}"),
            &["banana.v2.0.0"],
        ),
        (
            format!("{{ olmbundles(package: \"apple\", where: {{image: {image}}}) {{ name }} }}"),
            &[],
        ),
        (
            "{ olmbundles(where: {package: \"banana\"}, limit: 1, offset: 1) { name } }".to_owned(),
            &["banana.v2.0.0"],
        ),
        (
            "{ ioexamplethingss(where: {whole: 7, field_9lives: true, part: 1.5}) { name } }"
                .to_owned(),
            &["first"],
        ),
        // A whole number is one in both notations.
        (
            "{ ioexamplethingss(where: {part: 2.0}) { name } }".to_owned(),
            &["second"],
        ),
        (
            "{ ioexamplethingss(where: {part: 2}) { name } }".to_owned(),
            &["second"],
        ),
        // A list has the value, or is that value alone.
        (
            "{ ioexamplethingss(where: {texts: \"b\"}) { name } }".to_owned(),
            &["first"],
        ),
        (
            "{ ioexamplethingss(where: {texts: \"only\"}) { name } }".to_owned(),
            &["second"],
        ),
        // Null is what is absent.
        (
            "{ ioexamplethingss(where: {late: null}) { name } }".to_owned(),
            &["first"],
        ),
        (
            "{ ioexamplethingss(where: {}) { name } }".to_owned(),
            &["first", "second"],
        ),
    ] {
        assert_eq!(names(&served, &query), wanted, "{query}");
    }
}

#[test]
fn a_filter_may_be_a_variable_and_must_have_the_right_type() {
    let served = fruit_served();
    let question = json!({
        "query": "query($w: OlmBundle_Where) { olmbundles(where: $w) { name } }",
        "variables": {"w": {"name": "apple.v2.0.0"}},
    });
    let answer = served.answer(&question);
    assert_eq!(
        answer["data"]["olmbundles"],
        json!([{"name": "apple.v2.0.0"}])
    );
    for wrong in [
        json!({"nope": 1}),
        json!({"name": 5}),
        json!("x"),
        json!([1]),
    ] {
        let mut question = question.clone();
        question["variables"]["w"] = wrong.clone();
        let answer = served.answer(&question);
        assert!(
            !answer["errors"].as_array().unwrap().is_empty(),
            "{wrong}: {answer}"
        );
    }
    for wrong in [
        "where: {nope: 1}",
        "where: {name: 5}",
        "package: 5",
        "name: [\"a\"]",
    ] {
        let query = format!("{{ olmbundles({wrong}) {{ name }} }}");
        let answer = served.answer(&json!({"query": query}));
        assert!(
            !answer["errors"].as_array().unwrap().is_empty(),
            "{wrong}: {answer}"
        );
    }
}

#[test]
fn a_limit_that_was_not_applied_is_told() {
    let many = (1..=130).fold(fruit(), |catalog, number| {
        catalog.blob(json!({"schema": "io.example.many", "name": format!("n{number}"), "odd": number % 2 == 1}))
    });
    let served = Served::catalogs(&Folders::of("fruit", &many));
    let limits =
        |query: &str| served.answer(&json!({"query": query}))["extensions"]["limits"].clone();
    // Nothing was cut.
    for query in [
        "{ olmbundles { name } }",
        "{ olmbundles(limit: 2) { name } }",
        "{ ioexamplemanys(limit: 100) { name } }",
        "{ ioexamplemanys(offset: 30) { name } }",
        "{ ioexamplemanys(where: {odd: true}) { name } }",
    ] {
        assert_eq!(limits(query), Value::Null, "{query}");
        assert!(
            !served
                .answer(&json!({"query": query}))
                .to_string()
                .contains("extensions")
        );
    }
    assert_eq!(
        limits("{ all: ioexamplemanys(limit: 1000) { name } }"),
        json!([{
            "path": "all", "requested": 1000, "limit": 100, "returned": 100, "nextOffset": 100,
            "message": "limit is from 1 to 100; more items follow: ask again with offset: 100",
        }])
    );
    let rest = limits("{ ioexamplemanys(limit: 1000, offset: 100) { name } }");
    assert_eq!(rest[0]["returned"], 30);
    assert_eq!(rest[0]["nextOffset"], Value::Null);
    // Without a limit, the page is told if more follow.
    let both = limits("{ ioexamplemanys { name } olmbundles(limit: 0) { name } }");
    assert_eq!(both[0]["path"], "ioexamplemanys");
    assert_eq!(both[0]["requested"], Value::Null);
    assert_eq!(both[1]["requested"], 0);
    assert_eq!(both.as_array().unwrap().len(), 2);
    let filtered =
        limits("{ ioexamplemanys(where: {schema: \"io.example.many\"}, offset: 20) { name } }");
    assert_eq!(filtered[0]["nextOffset"], 120);
}

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

#[test]
fn a_name_that_is_taken_is_a_problem_and_no_more() {
    let catalog = fruit()
        .blob(json!({"schema": "IO.example.THINGS", "name": "third"}))
        .blob(json!({"schema": "query", "name": "reserved"}));
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let status = served.status("fruit");
    let problems: Vec<&Value> = status["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["code"] == "graphql-name-taken")
        .collect();
    assert_eq!(problems.len(), 2, "{status:#}");
    assert!(
        problems
            .iter()
            .all(|problem| problem["severity"] == "warning")
    );
    let schemas: Vec<&Value> = problems.iter().map(|problem| &problem["schema"]).collect();
    assert_eq!(schemas, ["io.example.things", "query"]);
    // The first by name has it; everything else is there as ever.
    let data =
        served.data("{ ioexamplethingss { name } olmpackages { name } summary { totalSchemas } }");
    assert_eq!(
        data,
        json!({
            "ioexamplethingss": [{"name": "third"}],
            "olmpackages": [{"name": "apple"}, {"name": "banana"}],
            "summary": {"totalSchemas": 6},
        })
    );
    let metas = served.get("/catalogs/fruit/api/v1/metas?schema=io.example.things");
    assert_eq!(metas.text().lines().count(), 2);
}

#[test]
fn a_blob_or_list_that_is_too_large_is_an_error_of_its_field() {
    let long: Vec<&str> = vec![""; 20_001];
    let catalog = fruit()
        .blob(json!({"schema": "huge", "name": "big", "text": "x".repeat(17 << 20)}))
        .blob(json!({"schema": "long", "name": "long", "list": long}));
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let answer = served.answer(&json!({"query": "{ huges { name } olmpackages { name } }"}));
    assert!(answer["data"]["huges"].is_null());
    assert_eq!(answer["data"]["olmpackages"][0]["name"], "apple");
    let error = &answer["errors"][0];
    assert_eq!(error["path"], json!(["huges"]));
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("larger than 16 MiB")
    );

    let answer = served.answer(&json!({"query": "{ longs { name list } }"}));
    assert_eq!(
        answer["data"]["longs"],
        json!([{"name": "long", "list": null}])
    );
    assert_eq!(answer["errors"][0]["path"], json!(["longs", 0, "list"]));
}

#[test]
fn an_answer_is_bounded_in_size_values_and_time() {
    let text = "x".repeat(1 << 20);
    let numbers: Vec<u32> = (0..19_000).collect();
    let catalog = (0..40).fold(Catalog::one("apple"), |catalog, number| {
        catalog.blob(json!({"schema": "large", "number": number, "text": text, "list": numbers}))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let begin = Instant::now();
    let error = served.error("{ larges { text } }");
    assert!(error.contains("maximum size of 32 MiB"), "{error}");
    let error = served.error("{ larges { list } }");
    assert!(error.contains("maximum of 300000 values"), "{error}");
    assert_eq!(
        served.data("{ larges(limit: 20) { text } }")["larges"][19]["text"],
        text
    );
    assert_eq!(
        served.data("{ larges { number } }")["larges"][39]["number"],
        39
    );

    // Types have fields that have types that have fields.
    let nested = "fields{type{".repeat(11) + "name" + &"}}".repeat(11);
    served.data(&format!("{{__schema{{types{{{nested}}}}}}}"));
    let nested = "fields{type{ofType{fields{name}}".repeat(5) + &"}}".repeat(5);
    served.answer(&json!({"query": format!("{{__schema{{types{{{nested}}}}}}}")}));
    assert!(
        begin.elapsed() < Duration::from_mins(1),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        served.data("{ summary { totalSchemas } }")["summary"]["totalSchemas"],
        4
    );
}

#[test]
fn hostile_bodies_end_in_an_answer_and_almanac_goes_on() {
    let served = fruit_served();
    let nested = |open: &str, close: &str| open.repeat(400) + &close.repeat(400);
    let bodies = [
        json!({"query": nested("{", "}")}).to_string(),
        json!({"query": format!("{{a(b:{})}}", nested("[", "]"))}).to_string(),
        json!({"query": format!("query($a:{}){{a}}", nested("[", "]"))}).to_string(),
        json!({"query": "{a(b:".repeat(10_000)}).to_string(),
        json!({"query": "\"".repeat(99_999)}).to_string(),
        json!({"query": "{a(b:\"\"\"".to_owned() + &"\\\"\"\"".repeat(20_000)}).to_string(),
        json!({"query": "#".repeat(99_999)}).to_string(),
        json!({"query": format!("{{{}}}", "...".repeat(30_000))}).to_string(),
        json!({"query": format!("{{a{}}}", "@a".repeat(40_000))}).to_string(),
        json!({"query": format!("query({}){{summary{{totalSchemas}}}}", "$a:Int,".repeat(10_000))})
            .to_string(),
        json!({"query": format!("{{olmbundles({}){{name}}}}", "limit:1,".repeat(10_000))})
            .to_string(),
        json!({"query": "é".repeat(40_000)}).to_string(),
        format!(
            "{{\"query\":\"{{a}}\",\"variables\":{{\"a\":{}}}}}",
            nested("[", "]")
        ),
        format!(
            "{{\"query\":\"{{a}}\",\"variables\":{}",
            "{\"a\":".repeat(100_000)
        ),
        "[".repeat(1 << 20),
    ];
    for body in bodies {
        let begin = Instant::now();
        let reply = served.post(PATH, &body);
        let shown = &body[..80];
        assert!(
            matches!(reply.status, 200 | 400),
            "{shown}: {}",
            reply.status
        );
        if reply.status == 200 {
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(answer["data"].is_null(), "{shown}: {answer}");
        }
        assert!(reply.body.len() < 1 << 20, "{shown}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{shown}");
    }
    // A body that never comes, and a client that goes away.
    for _ in 0..20 {
        let mut connection = TcpStream::connect(served.http).unwrap();
        let head = format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{");
        connection.write_all(head.as_bytes()).unwrap();
    }
    assert_eq!(
        served.data("{ summary { totalSchemas } }")["summary"]["totalSchemas"],
        4
    );
}

#[test]
fn the_schema_follows_the_catalog_and_outlives_a_restart() {
    let folders = Folders::of("fruit", &Catalog::one("apple"));
    let arguments = folders
        .sources()
        .into_iter()
        .chain(["--poll".into(), "1s".into()]);
    let served = Served::start(arguments);
    assert!(served.error("{ extras { name } }").contains("extras"));
    let more = Catalog::one("apple").blob(json!({"schema": "extra", "name": "new"}));
    folders.replace("fruit", &more);
    let begin = Instant::now();
    let wanted = json!({"data": {"extras": [{"name": "new"}]}});
    while served.answer(&json!({"query": "{ extras { name } }"})) != wanted {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "the new content does not come"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let served = served.restart();
    assert_eq!(
        served.answer(&json!({"query": "{ extras { name } }"})),
        wanted
    );
}

/// Any JSON value, with keys that are hard to name.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..5)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cA-C_.0-2-]{0,5}",
        "\\PC{0,4}",
        Just("summary".to_owned()),
        Just("__typename".to_owned()),
    ]
}

fn schema() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-bA-B.0-1-]{1,4}",
        "\\PC{1,4}",
        Just("query".to_owned()),
        Just("catalog.summary".to_owned()),
        Just("int".to_owned()),
    ]
}

#[test]
fn any_catalog_gives_a_schema_that_can_be_learnt_and_asked() {
    let blobs = prop::collection::vec(
        (schema(), prop::collection::btree_map(key(), value(), 0..6)),
        1..8,
    );
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(12)
    };
    proptest!(config, |(blobs in blobs)| {
        let mut catalog = Catalog::one("apple");
        for (schema, object) in blobs {
            let mut blob = serde_json::Map::new();
            let mut folded = vec!["schema".to_owned(), "package".to_owned(), "name".to_owned()];
            for (key, value) in object {
                // Keys that differ in case alone, and heads that are no text, are refused.
                if !folded.contains(&key.to_lowercase()) {
                    folded.push(key.to_lowercase());
                    blob.insert(key, value);
                }
            }
            blob.insert("schema".to_owned(), schema.into());
            catalog = catalog.blob(blob.into());
        }
        let served = Served::catalogs(&Folders::of("fruit", &catalog));
        prop_assert_eq!(&served.status("fruit")["state"], "serving", "{}", served.status("fruit"));
        let data = served.data(INTROSPECTION);
        check_introspection(&data);
        ask_all(&served, &data["__schema"]);
    });
}

/// Asks for every field of every schema, as many at once as one may.
fn ask_all(served: &Served, schema: &Value) {
    let leafs = |ty: &Value| -> Vec<String> {
        let fields = ty["fields"].as_array().unwrap().iter();
        fields
            .map(|field| {
                let mut of = &field["type"];
                while !of["ofType"].is_null() {
                    of = &of["ofType"];
                }
                let name = field["name"].as_str().unwrap();
                if of["kind"] != "OBJECT" {
                    return name.to_owned();
                }
                let inner = type_of(schema, of["name"].as_str().unwrap());
                let inner: Vec<&str> = inner["fields"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|field| field["name"].as_str().unwrap())
                    .collect();
                format!("{name} {{ {} }}", inner.join(" "))
            })
            .collect()
    };
    for field in type_of(schema, "Query")["fields"].as_array().unwrap() {
        let mut of = &field["type"];
        while !of["ofType"].is_null() {
            of = &of["ofType"];
        }
        let ty = type_of(schema, of["name"].as_str().unwrap());
        let name = field["name"].as_str().unwrap();
        let data = served.data(&format!("{{ {name} {{ {} }} }}", leafs(ty).join(" ")));
        assert!(!data[name].is_null());
    }
}
