//! Filters and limits of lists.

use serde_json::{Value, json};

use super::{Ask, fruit, fruit_served, image};
use crate::support::served::{Folders, Served};

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
