//! catalogd's GraphQL API of the running program, as its clients use it.

mod answers;
mod bounds;
mod filters;
mod readers;
mod refusals;
mod schema;

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, entry};
use crate::support::http;
use crate::support::http::Reply;
use crate::support::served::{Folders, Served};

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

fn image(served: &Served, bundle: &str) -> Value {
    let path = format!("/catalogs/fruit/api/v1/metas?schema=olm.bundle&name={bundle}");
    let blob: Value = serde_json::from_slice(&served.get(&path).body).unwrap();
    blob["image"].clone()
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

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|item| item["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {list:#}"))
}
