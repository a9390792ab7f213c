//! What queries answer.

use serde_json::{Value, json};

use super::{Ask, fruit_served, image};
use crate::support::catalog::Catalog;
use crate::support::served::{Folders, Served};

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
