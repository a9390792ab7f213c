//! The formats that commands have in common: table, json, yaml, jsonl and name.

use serde_json::Value;

use super::{printed, run};
use crate::support::yaml::documents;

const SAMPLE: &str = "file:deploy/catalog";

/// Checks that YAML, lines of JSON and names have the items of the JSON document.
/// `items` is their place in it, empty for the document itself; `name` is a member.
fn agree(command: &str, items: &str, name: &str) {
    let of = |format: &str| run(&format!("{command} --output {format}")).stdout;
    let document: Value = serde_json::from_str(&of("json")).unwrap();
    let yaml = documents(&of("yaml"));
    assert_eq!(yaml, std::slice::from_ref(&document), "{command}");
    let lines = of("jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let items = document.pointer(items).unwrap();
    assert_eq!(&Value::from(lines), items, "{command}");
    let items = items.as_array().unwrap().iter();
    let mut expected: Vec<&str> = items.map(|item| item[name].as_str().unwrap()).collect();
    // A package stands once, whatever the number of its changes.
    if command.starts_with("diff") {
        expected.dedup();
    }
    let names = of("name");
    assert_eq!(names.lines().collect::<Vec<_>>(), expected, "{command}");
    assert!(!expected.is_empty(), "{command}");
}

#[test]
fn every_list_has_every_format() {
    agree(&format!("list packages {SAMPLE}"), "", "name");
    agree(&format!("list bundles {SAMPLE}"), "", "name");
    agree(&format!("search {SAMPLE} operator"), "", "name");
    agree(&format!("providers {SAMPLE} Crossing"), "", "package");
    agree(
        &format!("updates {SAMPLE} ferry-operator"),
        "/candidates",
        "name",
    );
    agree(&format!("images {SAMPLE}"), "/images", "image");
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("catalog.yaml");
    std::fs::write(&empty, "schema: olm.package\nname: a\n").unwrap();
    agree(
        &format!("diff {} {SAMPLE}", empty.display()),
        "/changes",
        "package",
    );
}

#[test]
fn several_catalogs_are_rendered_in_the_order_of_the_arguments() {
    let [ferry, lantern] = ["ferry", "lantern"].map(|name| format!("{SAMPLE}/{name}-operator"));
    let render = |sources: &str| printed(&format!("render {sources}"));
    for (one, other) in [(&ferry, &lantern), (&lantern, &ferry)] {
        let both = render(&format!("{one} {other}"));
        assert_eq!(both, render(one) + &render(other));
    }
    let array = render(&format!("{ferry} {lantern} --output json"));
    let array: Vec<Value> = serde_json::from_str(&array).unwrap();
    let lines = render(&ferry) + &render(&lantern);
    assert_eq!(array.len(), lines.lines().count());
}

#[test]
fn equal_catalogs_have_no_changes() {
    let diff = format!("diff {SAMPLE} {SAMPLE}");
    for (format, written) in [("text", ""), ("jsonl", ""), ("name", "")] {
        let finished = run(&format!("{diff} -o {format}"));
        assert_eq!(finished.status.code(), Some(0), "{finished:#?}");
        assert_eq!(finished.stdout, written);
        assert_eq!(finished.stderr, "almanac: no changes\n");
    }
    let document: Value = serde_json::from_str(&printed(&format!("{diff} -o json"))).unwrap();
    assert_eq!(document["changes"], Value::Array(Vec::new()));
    let quiet = run(&format!("{diff} --quiet"));
    assert_eq!((&*quiet.stdout, &*quiet.stderr), ("", ""));
}

#[test]
fn manifests_are_documents_a_list_or_names() {
    let command = format!("manifests community={SAMPLE}");
    let list: Value = serde_json::from_str(&printed(&format!("{command} -o json"))).unwrap();
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().unwrap();
    assert_eq!(&documents(&printed(&command)), items);
    let names = printed(&format!("{command} -o name"));
    assert_eq!(names.lines().count(), items.len());
    assert!(names.contains("catalogsource/community\n"), "{names}");
}
