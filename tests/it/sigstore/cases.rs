//! The table of the cases of signatures.

use std::fs;
use std::path::Path;

/// All Rust sources below a folder, in one text.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_case_of_the_page_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    for folder in ["tests/it", "crates/images/src"] {
        sources(&root.join(folder), &mut tests);
    }
    let page = fs::read_to_string(root.join("tests/it/sigstore/CASES.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split(" | ").collect())
        .filter(|row: &Vec<&str>| row[0].parse::<u8>().is_ok())
        .collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    let expected: Vec<String> = (1..=49).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
    for row in rows {
        let last = row[row.len() - 1];
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row:?}");
        for name in named {
            let test = format!("#[test]\nfn {name}() {{");
            let in_module = format!("#[test]\n    fn {name}() {{");
            let is_there = tests.contains(&test) || tests.contains(&in_module);
            assert!(is_there, "no test {name}: {row:?}");
        }
        for fact in last.split('"').skip(1).step_by(2) {
            let is_there = tests.contains(&format!("\"{fact}\","));
            assert!(is_there, "no fact {fact}: {row:?}");
        }
    }
}
