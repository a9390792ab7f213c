//! The facts of `tests/it/web_pages/CASES.md`, on real catalogs where they need one.

mod find;
mod graph;
mod real;
mod upkeep;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use real::real;

/// Each row of the table names a test, and each number stands there once.
#[test]
fn the_cases_of_pages_name_their_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("tests/it/web_pages/CASES.md")).unwrap();
    let mut sources = String::new();
    let mut folders = vec![root.join("tests/it/web_pages"), root.join("src/answers")];
    for file in ["check.mjs", "jobs.mjs"] {
        sources.push_str(&fs::read_to_string(root.join("tests/browser").join(file)).unwrap());
    }
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            if file.is_dir() {
                folders.push(file);
            } else {
                sources.push_str(&fs::read_to_string(file).unwrap());
            }
        }
    }
    let mut numbers = BTreeSet::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, _, tests, _] = cells[..] else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else {
            continue;
        };
        assert!(numbers.insert(number), "{number} stands there twice");
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{line}");
        for name in names {
            let is_there = [format!("fn {name}("), format!("const {name} = ")];
            assert!(
                is_there.iter().any(|text| sources.contains(text)),
                "{number}: there is no test {name}"
            );
        }
    }
    assert_eq!(numbers, (1..=30).collect());
}
