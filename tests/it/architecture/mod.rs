//! The drawing of the modules, held against the code: which module may use
//! which, which crate may be named where, that no files use each other in a
//! circle, and that every file is compiled.
//!
//! Cargo holds the direction between the crates of the workspace. What a file
//! names is read from its tokens by `support::source`, so that comments and
//! strings do not count. A rule that fails says what to do.

mod circles;
mod forbidden;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::source::{self, Source};

/// The crates of the workspace.
const CRATES: [&str; 3] = ["almanac", "fbc", "images"];

/// Modules of one level of almanac, and the modules that each of them may use
/// besides itself. Modules of one row do not use each other.
const LEVELS: &[(&[&str], &[&str])] = &[
    (&["build_info", "error_chain", "map", "name", "proto"], &[]),
    (
        &["answers", "fetch", "objects"],
        &["build_info", "error_chain", "map", "name", "proto"],
    ),
    (
        &["store"],
        &["error_chain", "map", "name", "proto", "answers"],
    ),
    (
        &["snapshot"],
        &["error_chain", "map", "name", "proto", "answers", "store"],
    ),
    (
        &["fleet"],
        &[
            "error_chain",
            "name",
            "answers",
            "objects",
            "store",
            "snapshot",
        ],
    ),
    (
        &["queries"],
        &["error_chain", "name", "answers", "store", "snapshot"],
    ),
    (&["webhooks"], &["error_chain", "name", "answers"]),
    (&["kubernetes"], &["error_chain", "name", "snapshot"]),
    (
        &["ingest", "serve"],
        &[
            "build_info",
            "error_chain",
            "map",
            "name",
            "proto",
            "answers",
            "store",
            "snapshot",
            "queries",
            "fleet",
            "webhooks",
        ],
    ),
];

/// The composition root: it joins the others and may use them all.
const COMPOSITION_ROOT: &[&str] = &["config", "app", "cli", "main"];

/// What comes from outside and belongs to some modules only, and why. A unit
/// test may name it anywhere.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "sqlx",
        &["store", "fleet"],
        "only store asks the database of the data folder, and only fleet that of a fleet",
    ),
    (
        "reqwest",
        &["fetch", "objects", "webhooks"],
        "only the crate images speaks to registries, only fetch asks a URL that a user typed, only \
         objects speaks to an object store, and only webhooks sends events",
    ),
    (
        "kube",
        &["kubernetes"],
        "only kubernetes speaks to an API server",
    ),
    (
        "axum",
        &["serve", "app", "cli"],
        "only serve chooses a status",
    ),
    (
        "tonic",
        &["serve", "app", "cli"],
        "only serve chooses a status",
    ),
    (
        "std::env",
        &["config", "cli", "main"],
        "settings are values that are handed down",
    ),
];

/// Parts of what is reserved that are no matter of the rule: constants of the
/// build, not the environment.
const NOT_RESERVED: &[&str] = &["std::env::consts"];

/// The files that may hold `unsafe` code: maps, the handler of the signal for a
/// mapped file that was cut, and a call of the allocator's.
const UNSAFE_HOMES: [&str; 4] = [
    "src/map.rs",
    "src/store/files/mapped.rs",
    "src/app/bus_error.rs",
    "src/app/memory.rs",
];

#[test]
fn no_module_uses_what_its_level_never_sees() {
    held(&layers(&tree()));
}

#[test]
fn what_is_reserved_is_named_where_it_belongs() {
    held(&reserved(&tree()));
}

#[test]
fn unsafe_code_has_its_homes() {
    held(&unsafe_code(&tree()));
}

#[test]
fn every_file_is_reached_by_a_mod_line() {
    held(&orphans(&tree()));
}

/// A name that is not synced may be lost with the power. The names of blobs are
/// synced together, before the rows that need them.
#[test]
fn what_gets_another_name_is_synced_in_its_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut renaming = 0;
    for file in tree().keys() {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if !code.contains("fs::rename(") && !code.contains("file.persist(") {
            continue;
        }
        renaming += 1;
        let is_synced = code.contains("sync_folder(") || file == "src/store/content/writer.rs";
        assert!(
            is_synced,
            "{file} renames files and does not sync their folder"
        );
    }
    assert!(renaming > 4, "only {renaming} files rename anything");
}

/// Fails with all that was found.
fn held(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// All Rust files of the workspace's libraries and program, by their path from the root, with `/`.
type Tree = BTreeMap<String, Source>;

fn tree() -> Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = ["src", "crates/fbc/src", "crates/images/src"]
        .map(|folder| root.join(folder))
        .to_vec();
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "there is no Rust file under src");
    files
        .into_iter()
        .map(|file| {
            let name = file
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let source = source::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, source)
        })
        .collect()
}

/// The table of levels.
fn layers(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (file, source) in tree.iter().filter(|(file, _)| crate_of(file) == "almanac") {
        let module = module_of(file);
        let Some(own) = module.first() else { continue };
        let Some(may_use) = may_use(own) else {
            found.push(format!(
                "{file}: the module `{own}` has no level: give it a row in LEVELS (or COMPOSITION_ROOT) of \
                 tests/it/architecture.rs and in docs/ARCHITECTURE.md"
            ));
            continue;
        };
        for path in &source.paths {
            let Some(used) = used_of_ours(&module, path) else {
                continue;
            };
            let line = path.line;
            if used == *own || may_use.contains(&used.as_str()) {
                continue;
            }
            found.push(if may_use_all(own) {
                format!(
                    "{file}:{line}: `{used}` is no module: what is shared gets a module with a \
                     level, not a place in lib.rs"
                )
            } else {
                format!(
                    "{file}:{line}: `{own}` must not see `{used}` (it may use: {}): move the \
                     call to a module above both, or the shared part to one below both",
                    may_use.join(", ")
                )
            });
        }
    }
    found
}

/// The modules that `user` may use, or nothing when it has no level.
fn may_use(user: &str) -> Option<Vec<&'static str>> {
    if may_use_all(user) {
        let all = LEVELS
            .iter()
            .flat_map(|(modules, _)| *modules)
            .chain(COMPOSITION_ROOT);
        return Some(all.copied().collect());
    }
    LEVELS
        .iter()
        .find(|(modules, _)| modules.contains(&user))
        .map(|(_, may_use)| may_use.to_vec())
}

fn may_use_all(user: &str) -> bool {
    COMPOSITION_ROOT.contains(&user)
}

/// The top-level name that a path leads to inside this crate, if it does.
/// `super` may climb out of a module and into another.
fn used_of_ours(module: &[String], path: &source::NamedPath) -> Option<String> {
    let mut place: Vec<&str> = module
        .iter()
        .chain(&path.inside)
        .map(String::as_str)
        .collect();
    let mut names = path.names.iter().map(String::as_str).peekable();
    match *names.peek()? {
        "crate" => {
            place.clear();
            names.next();
        }
        // The binary sees the library by its name.
        "almanac" if module == ["main"] => {
            place.clear();
            names.next();
        }
        "super" => {
            while names.next_if_eq(&"super").is_some() {
                place.pop();
            }
        }
        _ => return None,
    }
    place.extend(names);
    place.first().map(|&name| name.to_owned())
}

/// Names from outside.
fn reserved(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (file, source) in tree.iter().filter(|(file, _)| crate_of(file) == "almanac") {
        let module = module_of(file);
        let top = module.first().map_or("lib", String::as_str);
        for path in source.paths.iter().filter(|path| !path.in_test) {
            let named = path.names.join("::");
            if NOT_RESERVED.iter().any(|part| is_or_is_in(&named, part)) {
                continue;
            }
            for (what, homes, why) in RESERVED {
                if is_or_is_in(&named, what) && !homes.contains(&top) {
                    found.push(format!(
                        "{file}:{}: `{what}` is for {} only ({why}): ask that module for what is \
                         needed, or take it as a parameter",
                        path.line,
                        homes.join(", ")
                    ));
                }
            }
        }
    }
    found
}

/// Whether `path` is `what` or leads into it.
fn is_or_is_in(path: &str, what: &str) -> bool {
    path.strip_prefix(what)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The word `unsafe` as code.
fn unsafe_code(tree: &Tree) -> Vec<String> {
    let elsewhere = tree
        .iter()
        .filter(|(file, _)| !UNSAFE_HOMES.contains(&file.as_str()));
    elsewhere
        .flat_map(|(file, source)| source.unsafe_lines.iter().map(move |line| (file, line)))
        .map(|(file, line)| {
            format!(
                "{file}:{line}: `unsafe` stands only in {}: do without, or put the safe \
                 wrapper there",
                UNSAFE_HOMES.join(" and ")
            )
        })
        .collect()
}

/// Files that nothing compiles, and that therefore rot unseen. A file without
/// any code has nothing to rot.
fn orphans(tree: &Tree) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut to_read = vec![
        "src/lib.rs".to_owned(),
        "src/main.rs".to_owned(),
        "crates/fbc/src/lib.rs".to_owned(),
        "crates/images/src/lib.rs".to_owned(),
    ];
    while let Some(file) = to_read.pop() {
        let Some(source) = tree.get(&file) else {
            continue;
        };
        if !reached.insert(file.clone()) {
            continue;
        }
        let folder = folder_of_modules(&file);
        for module in &source.modules {
            let stem = format!("{folder}/{}", module.join("/"));
            to_read.push(format!("{stem}.rs"));
            to_read.push(format!("{stem}/mod.rs"));
        }
    }
    tree.iter()
        .filter(|(file, source)| !source.is_empty && !reached.contains(*file))
        .map(|(file, _)| {
            format!(
                "{file}: no `mod` line leads here, so it is never compiled: declare it in its \
                 parent module, or remove it"
            )
        })
        .collect()
}

/// The folder in which a file's `mod name;` lines are looked up.
fn folder_of_modules(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => file.trim_end_matches(".rs").to_owned(),
    }
}

/// The crate that a file belongs to.
fn crate_of(file: &str) -> &str {
    let in_crates = file.strip_prefix("crates/");
    in_crates
        .and_then(|rest| rest.split('/').next())
        .unwrap_or("almanac")
}

/// The module of its crate that a file is: empty for a `lib.rs`.
fn module_of(file: &str) -> Vec<String> {
    let inside = file.split_once("src/").map_or(file, |(_, inside)| inside);
    let mut names: Vec<String> = inside
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if names == ["lib"] || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// The checks, held against code that breaks them.
mod checks {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Tree {
        files
            .iter()
            .map(|&(file, text)| (file.to_owned(), source::read(text).unwrap()))
            .collect()
    }

    #[test]
    fn a_module_that_sees_too_much_is_found() {
        for (file, code) in [
            ("src/answers/mod.rs", "use crate::store::Store;"),
            ("src/fetch.rs", "fn f() { crate::answers::read(); }"),
            (
                "src/answers/read.rs",
                "use crate::{name::CatalogName, store::{Store}};",
            ),
            ("src/ingest/mod.rs", "use crate::serve;"),
            ("src/serve/pages/mod.rs", "use super::super::ingest::Pass;"),
            (
                "src/serve.rs",
                "mod a { mod b { use super::super::super::ingest; } }",
            ),
            ("src/store/mod.rs", "fn f(_: &crate::snapshot::Snapshot) {}"),
            (
                "src/snapshot/mod.rs",
                "fn f() { info!(x = crate::serve::x()) }",
            ),
            ("src/map.rs", "use crate::name::CatalogName;"),
            (
                "src/answers/mod.rs",
                "#[cfg(test)] mod tests { use crate::ingest; }",
            ),
            ("src/snapshot/mod.rs", "use crate::app;"),
        ] {
            let found = layers(&of(&[(file, code)]));
            assert_eq!(found.len(), 1, "{file}: {code}: {found:?}");
            assert!(found[0].starts_with(&format!("{file}:1: ")), "{found:?}");
        }
    }

    #[test]
    fn a_module_that_keeps_to_its_level_is_let_be() {
        for (file, code) in [
            (
                "src/store/client.rs",
                "use crate::store::{Store, index}; use crate::name::CatalogName;",
            ),
            (
                "src/store/index/mod.rs",
                "use super::error; use super::super::store::token; use self::x;",
            ),
            (
                "src/answers/mod.rs",
                "//! See [`crate::serve`].\n/* crate::serve */ const A: &str = \"crate::serve\";",
            ),
            (
                "src/answers/read.rs",
                "mod tests { use super::*; use super::super::grpc; }",
            ),
            (
                "src/store/mod.rs",
                "use crate::{answers::{self, Index}, name};",
            ),
            (
                "src/ingest/mod.rs",
                "use crate::{answers, store, snapshot, map, proto}; use images::Registries;",
            ),
            ("src/app.rs", "use crate::{ingest, serve, config};"),
            ("src/main.rs", "use almanac::{app, cli};"),
            (
                "src/lib.rs",
                "pub mod anything; pub use crate::store::Store;",
            ),
        ] {
            let found = layers(&of(&[(file, code)]));
            assert!(found.is_empty(), "{file}: {code}: {found:?}");
        }
    }

    #[test]
    fn a_module_without_a_level_is_found() {
        let found = layers(&of(&[("src/helpers.rs", "pub fn f() {}")]));
        assert!(found[0].contains("`helpers` has no level"), "{found:?}");
        let found = layers(&of(&[("src/app.rs", "use crate::VERSION;")]));
        assert!(found[0].contains("`VERSION` is no module"), "{found:?}");
    }

    #[test]
    fn a_reserved_name_is_found_outside_its_home() {
        for (file, code, found_count) in [
            ("src/serve/mod.rs", "use sqlx::SqlitePool;", 1),
            (
                "src/store/mod.rs",
                "use sqlx::SqlitePool; use axum::Router;",
                1,
            ),
            ("src/ingest/mod.rs", "fn f() { std::env::var(\"A\"); }", 1),
            (
                "src/ingest/mod.rs",
                "use std::{env::{self, VarError}, fmt};",
                2,
            ),
            ("src/ingest/mod.rs", "fn f() { ::std::env::var(\"A\"); }", 1),
            (
                "src/ingest/mod.rs",
                "const A: &str = std::env::consts::ARCH;",
                0,
            ),
            (
                "src/ingest/mod.rs",
                "use std::environment; use my::sqlx; use sqlx_like::a;",
                0,
            ),
            ("src/config.rs", "use std::env;", 0),
            (
                "src/ingest/mod.rs",
                "#[cfg(test)] mod tests { use axum::Router; }",
                0,
            ),
            (
                "src/ingest/mod.rs",
                "#[cfg(test)] use axum::Router; use axum::Json;",
                1,
            ),
            (
                "src/ingest/mod.rs",
                "#[cfg(not(test))] use axum::Router;",
                1,
            ),
        ] {
            let found = reserved(&of(&[(file, code)]));
            assert_eq!(found.len(), found_count, "{file}: {code}: {found:?}");
        }
    }

    #[test]
    fn unsafe_code_is_found_and_the_word_is_not() {
        let code = "fn f() { unsafe { g() } }";
        assert_eq!(unsafe_code(&of(&[("src/ingest/mod.rs", code)])).len(), 1);
        assert_eq!(unsafe_code(&of(&[("src/map.rs", code)])).len(), 0);
        let word = "// unsafe\n#![deny(unsafe_code)] const A: &str = \"unsafe\";";
        assert_eq!(unsafe_code(&of(&[("src/ingest/mod.rs", word)])).len(), 0);
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let found = orphans(&of(&[
            (
                "src/lib.rs",
                "pub mod ingest; pub mod digest; mod inline { mod deep; }",
            ),
            ("src/main.rs", "fn main() {}"),
            ("src/digest.rs", "mod hash;"),
            ("src/digest/hash.rs", "fn f() {}"),
            ("src/inline/deep.rs", "fn f() {}"),
            ("src/ingest/mod.rs", "mod client; #[cfg(test)] mod tests;"),
            ("src/ingest/client.rs", "fn f() {}"),
            ("src/ingest/tests.rs", "fn f() {}"),
            ("src/ingest/old.rs", "fn f() {}"),
            ("src/later/mod.rs", "//! Nothing yet."),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("src/ingest/old.rs: "), "{found:?}");
    }
}
