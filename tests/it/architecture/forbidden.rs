//! Code that hides defects and that no lint of the compiler refuses: memory that is
//! never freed, places calculated from addresses, casts without a reason.

use std::path::Path;

use super::{UNSAFE_HOMES, held, tree};

/// Calls, and the reason against them.
const FORBIDDEN: [(&str, &str); 6] = [
    ("Box::leak(", "memory grows with what clients send"),
    (".leak()", "memory grows with what clients send"),
    ("mem::forget(", "what is forgotten is never freed"),
    (
        ".as_ptr()",
        "a place in a text is counted by its reader, not calculated from addresses",
    ),
    (
        ".offset_from(",
        "a place in a text is counted by its reader, not calculated from addresses",
    ),
    (
        ".subslice_range(",
        "a place in a text is counted by its reader, not calculated from addresses",
    ),
];

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

#[test]
fn nothing_is_leaked_and_no_place_calculated_from_addresses() {
    let mut found = Vec::new();
    for file in tree()
        .keys()
        .filter(|file| !UNSAFE_HOMES.contains(&file.as_str()))
    {
        let text = read(file);
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or_default();
            for (call, reason) in FORBIDDEN {
                if code.contains(call) {
                    found.push(format!("{file}:{number}: no `{call}`: {reason}"));
                }
            }
        }
    }
    held(&found);
}

/// Others use the libraries, too: neither their code nor their comments name the program.
#[test]
fn the_libraries_do_not_name_the_program() {
    let mut found = Vec::new();
    for file in tree().keys().filter(|file| file.starts_with("crates/")) {
        for (number, line) in (1..).zip(read(file).lines()) {
            if line.to_lowercase().contains("almanac") {
                found.push(format!("{file}:{number}: say it without the program"));
            }
        }
    }
    held(&found);
}

/// A cast that cuts a number is allowed where it stands, with the bound of the number.
/// The lint is on for all crates of the workspace.
#[test]
fn a_cast_that_may_cut_a_number_has_its_own_reason() {
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let lints = workspace["workspace"]["lints"]["clippy"]
        .as_table()
        .unwrap();
    assert_eq!(lints["pedantic"]["level"].as_str(), Some("warn"));
    let casts: Vec<_> = lints.keys().filter(|lint| lint.contains("cast")).collect();
    assert_eq!(casts, ["cast_precision_loss"], "of shown sizes and metrics");
    for manifest in [
        "Cargo.toml",
        "crates/fbc/Cargo.toml",
        "crates/images/Cargo.toml",
    ] {
        let manifest: toml::Table = read(manifest).parse().unwrap();
        assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true));
    }
    let (mut found, mut casts) = (Vec::new(), 0);
    for file in tree().keys() {
        let text = read(file);
        for (at, lint) in text.match_indices("clippy::cast_") {
            casts += 1;
            let attribute = text[..at].rfind('#').map_or("", |from| &text[from..]);
            let attribute = attribute.split(")]").next().unwrap_or_default();
            if !attribute.starts_with("#[expect(") || !attribute.contains("reason = ") {
                found.push(format!(
                    "{file}: `{lint}` is allowed without a reason, or for a file"
                ));
            }
        }
    }
    assert!(casts > 5, "only {casts} casts have a reason");
    held(&found);
}

#[test]
fn the_manifest_and_the_architecture_name_each_file_with_unsafe_code() {
    let manifest = read("Cargo.toml");
    let lint = manifest.find("unsafe_code").unwrap();
    let comment = manifest[..lint].rsplit("\n\n").next().unwrap_or_default();
    let architecture = read("docs/ARCHITECTURE.md");
    for home in UNSAFE_HOMES {
        assert!(comment.contains(home), "Cargo.toml does not name {home}");
        assert!(architecture.contains(home), "the page does not name {home}");
    }
}
