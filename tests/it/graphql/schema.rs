//! The schema of a catalog, as tools learn it.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Ask, INTROSPECTION, fruit_served, named};
use crate::support::cases::cases;
use crate::support::catalog::Catalog;
use crate::support::served::{Folders, Served};

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
    proptest!(cases(12), |(blobs in blobs)| {
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
