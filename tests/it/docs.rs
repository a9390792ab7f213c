//! What the pages say is so: commands that can be typed, names and links that
//! exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use almanac::cli;
use almanac::config::{Config, Environment, Settings};
use clap::{CommandFactory as _, Parser as _};
use fbc::problem::Code;

/// Flags of other programs that the pages name.
const FOREIGN_FLAGS: [&str; 44] = [
    "set",
    "cascade",
    "test",
    "replicas",
    "external-address",
    "create-namespace",
    "kustomize",
    "take-ownership",
    "values",
    "insecure-ignore-tlog",
    "type",
    "patch",
    "selector",
    "ignore-not-found",
    "minutes",
    "seed",
    "timings",
    "workspace",
    "scoped",
    "json",
    "release",
    "tag",
    "target",
    "file",
    "build-arg",
    "publish",
    "volume",
    "compressed",
    "bench",
    "runs",
    "rounds",
    "seconds",
    "publications",
    "takeovers",
    "idle",
    "starts",
    "cacert",
    "catalogd-cas-dir",
    "tls-verify",
    "locked",
    "path",
    "profile",
    "input",
    "logs",
];

/// Commands in the place of other programs, which have a page of their own.
const STAND_INS: [&str; 2] = ["opm", "grpc-health-probe"];

/// The page that leads to all others.
const INDEX: &str = "docs/README.md";

/// The pages that have to be complete.
const COMMANDS: &str = "docs/reference/commands.md";
const CONFIGURATION: &str = "docs/reference/configuration.md";
const OPERATIONS: &str = "docs/reference/operations.md";

/// Beginnings of paths of the project on pages.
const FOLDERS: [&str; 9] = [
    ".ci/",
    "benches/",
    "crates/",
    "deploy/",
    "docs/",
    "migrations/",
    "proto/",
    "src/",
    "tests/",
];

#[test]
fn the_commands_in_the_pages_can_be_typed() {
    let mut count = 0;
    for (page, line) in commands() {
        let line = line.replace("cargo run --release --", "almanac");
        let Some(typed) = line.strip_prefix("almanac ") else {
            continue;
        };
        let words = ["almanac"].into_iter().chain(typed.split_whitespace());
        if let Err(error) = cli::Arguments::try_parse_from(words) {
            panic!("{page}: `{line}`: {error}");
        }
        count += 1;
    }
    assert!(count > 5, "only {count} commands were found");
}

#[test]
fn every_flag_in_the_pages_exists() {
    let known = flags_of(&cli::Arguments::command());
    for (page, text) in pages() {
        for flag in flags_in(&text) {
            assert!(
                known.contains(&flag) || FOREIGN_FLAGS.contains(&flag.as_str()),
                "{page}: no command has --{flag}"
            );
        }
    }
}

/// Flags of `serve` are settings. Those of another command stand in its
/// section, or where the flags of several commands do.
#[test]
fn every_flag_is_explained_where_its_command_is() {
    let settings = read(CONFIGURATION);
    let commands = read(COMMANDS);
    let mut common = flags_in(section(&commands, "Common flags"));
    common.extend(flags_in(section(&settings, "`[registries]`")));
    common.extend(flags_in(section(&settings, "`[log]`")));
    for command in cli::Arguments::command().get_subcommands() {
        let name = command.get_name();
        if STAND_INS.contains(&name) {
            continue;
        }
        let (page, explained) = if name == "serve" {
            (CONFIGURATION, flags_in(&settings))
        } else {
            let mut own = flags_in(section(&commands, &format!("almanac {name}")));
            own.extend(common.iter().cloned());
            (COMMANDS, own)
        };
        let flags = flags_of(command);
        let left_out: Vec<_> = flags.difference(&explained).collect();
        assert!(
            left_out.is_empty(),
            "{page} lacks {left_out:?} of almanac {name}"
        );
    }
}

/// The long flags of a command and of those below it, aliases included.
fn flags_of(command: &clap::Command) -> BTreeSet<String> {
    let flags = command.get_arguments().flat_map(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long().into_iter().chain(aliases)
    });
    let below = command.get_subcommands().flat_map(flags_of);
    flags.map(str::to_owned).chain(below).collect()
}

/// The long flags that a text names.
fn flags_in(text: &str) -> BTreeSet<String> {
    names_after(text, "--", |sign| sign == '-')
}

#[test]
fn every_variable_in_the_pages_exists() {
    for (page, text) in pages() {
        let names = text
            .split(|sign: char| !sign.is_ascii_uppercase() && sign != '_')
            .filter(|word| word.starts_with("ALMANAC_") && word.len() > "ALMANAC_".len())
            // These are for the tests.
            .filter(|word| {
                !["ALMANAC_TEST_", "ALMANAC_CI_"]
                    .iter()
                    .any(|own| word.starts_with(own))
            });
        let environment: Environment = names.map(|name| (name, "x")).collect();
        let unknown = environment.unknown();
        assert!(unknown.is_empty(), "{page}: nobody reads {unknown:?}");
    }
}

/// A key stands first in a row of the table below its section's heading. A
/// heading may name several tables of the file, which then have the same keys.
#[test]
fn the_keys_in_the_pages_are_those_of_the_sample() {
    let mut sample = BTreeSet::new();
    let mut table = String::new();
    for line in read("deploy/almanac.toml").lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        if line.starts_with('[') {
            line.clone_into(&mut table);
        }
        match line.split_once(" = ") {
            Some((key, _)) if !key.contains(' ') => {
                sample.insert((table.clone(), key.to_owned()));
            }
            _ => {}
        }
    }
    let mut documented = BTreeSet::new();
    let mut tables = Vec::new();
    for line in read(CONFIGURATION).lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let named = heading.split('`').skip(1).step_by(2);
            tables = named.map(str::to_owned).collect();
            if tables.is_empty() {
                tables.push(String::new());
            }
        } else if let Some(row) = line.strip_prefix("| `") {
            let key = row.split('`').next().unwrap_or_default();
            for table in &tables {
                documented.insert((table.clone(), key.to_owned()));
            }
        }
    }
    assert_eq!(documented, sample);
}

#[test]
fn configurations_in_the_pages_can_be_read() {
    for (page, text) in pages() {
        for block in blocks(&text, "toml") {
            configuration(&block).unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
        }
    }
}

#[test]
fn every_metric_is_explained_and_no_other() {
    let names = |text: &str| names_after(text, "almanac_", |sign| sign == '_');
    // In the code a metric is a literal; in a page other names begin like one.
    let used: BTreeSet<_> = sources()
        .iter()
        .flat_map(|(_, text)| names_after(text, "\"almanac_", |sign| sign == '_'))
        .collect();
    assert!(used.len() > 5, "{used:?}");
    assert_eq!(names(&read(OPERATIONS)), used);
}

#[test]
fn every_problem_is_explained_and_no_other() {
    let text = read(OPERATIONS);
    let sources = sources();
    // A code that nothing finds needs no explanation.
    let found: BTreeSet<_> = Code::ALL
        .iter()
        .filter(|code| {
            let name = format!("Code::{code:?}");
            sources.iter().any(|(_, text)| text.contains(&name))
        })
        .map(|code| code.as_str())
        .collect();
    let (_, section) = text.split_once("| codes | problem |").unwrap();
    let (table, _) = section.split_once("\n\n").unwrap();
    let explained: BTreeSet<_> = table
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert_eq!(explained, found);
}

/// The kinds of errors of the HTTP API, as problems name them.
#[test]
fn every_kind_of_error_is_explained() {
    let sources = sources();
    let of_http = sources
        .iter()
        .filter(|(path, _)| path.to_string_lossy().contains("/serve/http/"));
    let mut kinds = BTreeSet::new();
    for (_, text) in of_http {
        for (begin, prefix) in [
            ("Problem::unknown(", "unknown-"),
            ("Problem::new(", ""),
            ("Self::new(", ""),
        ] {
            for call in text.split(begin).skip(1) {
                // The first literal of the call, before any other argument of it has one.
                let call = &call[..call.find(';').unwrap_or(call.len())];
                let literal = call.split('"').nth(1).unwrap_or_default();
                let is_kind = |sign: char| sign.is_ascii_lowercase() || sign == '-';
                if !literal.is_empty() && literal.chars().all(is_kind) {
                    kinds.insert(format!("{prefix}{literal}"));
                }
            }
        }
    }
    assert!(
        kinds.contains("unknown-group") && kinds.contains("busy"),
        "{kinds:?}"
    );
    let page = read("docs/reference/queries.md");
    let table = section(&page, "Errors");
    let missing: Vec<_> = kinds
        .iter()
        .filter(|kind| !table.contains(&format!("`{kind}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Each row names the tests that hold it.
#[test]
fn every_fault_is_held_by_tests_that_exist() {
    let page = read("tests/it/FAULTS.md");
    let rows = section(&page, "Faults")
        .lines()
        .filter(|line| line.starts_with('|'));
    let mut sources = Vec::new();
    for folder in ["src", "crates", "tests"] {
        rust_files(&root().join(folder), &mut sources);
    }
    let mut count = 0;
    for row in rows.skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
        let tests: Vec<&str> = cells[4].split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test holds: {row}");
        for test in tests {
            let begin = format!("fn {test}()");
            let is_test = |text: &str| {
                let Some((above, _)) = text.split_once(&begin) else {
                    return false;
                };
                let above = above.trim_end().trim_end_matches("async").trim_end();
                let above = above.lines().rev().map(str::trim);
                let mut attributes = above.take_while(|line| line.starts_with("#["));
                attributes.any(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
            };
            assert!(
                sources.iter().any(|(_, text)| is_test(text)),
                "there is no test {test}"
            );
        }
        count += 1;
    }
    assert!(count > 25, "only {count} faults were found");
}

#[test]
fn every_path_in_the_pages_exists() {
    for (page, text) in pages() {
        let named = text
            .split(|sign: char| sign.is_whitespace() || "`()[],;:*#\"".contains(sign))
            .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
            .map(|word| root().join(word.trim_end_matches('.')));
        for path in named {
            assert!(path.exists(), "{page}: there is no {}", path.display());
        }
    }
}

#[test]
fn every_link_in_the_pages_leads_somewhere() {
    let mut anchors_checked = 0;
    for (page, text) in pages() {
        for (path, anchor) in links(&page, &text) {
            let shown = path.display();
            assert!(path.exists(), "{page}: there is no {shown}");
            let Some(anchor) = anchor else { continue };
            let target = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{page}: #{anchor} of {shown}: {error}"));
            assert!(
                anchors(&target).contains(&anchor),
                "{page}: no heading of {shown} is #{anchor}"
            );
            anchors_checked += 1;
        }
    }
    assert!(
        anchors_checked > 5,
        "only {anchors_checked} anchors were found"
    );
}

#[test]
fn the_index_links_every_page() {
    let linked: BTreeSet<_> = links(INDEX, &read(INDEX))
        .into_iter()
        .filter_map(|(path, _)| path.canonicalize().ok())
        .collect();
    for (page, _) in pages() {
        if page.starts_with("docs/") && page != INDEX {
            let path = root().join(&page).canonicalize().unwrap();
            assert!(linked.contains(&path), "{INDEX} does not link {page}");
        }
    }
}

#[test]
fn anchors_are_made_of_headings_as_web_pages_make_them() {
    let text = "# A page\n## `[a_b]` and `c`\n```sh\n# none\n```\n- x\n\n  ```\n  # none\n  ```\n\
                ### Twice: it is\n## Twice, it is\n#none\n";
    let expected = ["a-page", "a_b-and-c", "twice-it-is", "twice-it-is-1"];
    assert_eq!(anchors(text), expected.map(str::to_owned).into());
}

#[test]
fn every_module_has_its_place_in_the_architecture() {
    let text = read("docs/ARCHITECTURE.md");
    for folder in ["src", "crates"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                name == "lib.rs" || text.contains(&format!("`{folder}/{name}`")),
                "docs/ARCHITECTURE.md does not name {folder}/{name}"
            );
        }
    }
}

pub(crate) fn configuration(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    fs::write(&path, text).unwrap();
    Config::load(Settings::default(), Some(&path), &Environment::default())
        .map_err(|error| error.to_string())
}

/// The lines of all shell blocks in the pages, up to the first pipe or the file that
/// gets their output.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for (page, text) in pages() {
        for block in blocks(&text, "sh") {
            for line in block.lines() {
                let command = line.split(" | ").next().unwrap_or_default();
                let command = command.split(" > ").next().unwrap_or_default();
                commands.push((page.clone(), command.to_owned()));
            }
        }
    }
    commands
}

/// The fenced blocks of a language.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        if found == language {
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// What follows `prefix` and is a name: small letters and digits, and the
/// signs that `also` takes inside.
pub(crate) fn names_after(
    text: &str,
    prefix: &str,
    also: impl Fn(char) -> bool,
) -> BTreeSet<String> {
    let named = text.split(prefix).skip(1).filter_map(|rest| {
        let end = rest
            .find(|sign: char| !sign.is_ascii_lowercase() && !sign.is_ascii_digit() && !also(sign));
        let name = &rest[..end.unwrap_or(rest.len())];
        let good = name.starts_with(|sign: char| sign.is_ascii_lowercase());
        good.then(|| name.to_owned())
    });
    named.collect()
}

/// The links of a page to files of the project: the file, and the anchor in it.
fn links(page: &str, text: &str) -> Vec<(PathBuf, Option<String>)> {
    let own = root().join(page);
    let folder = own.parent().unwrap();
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"));
    targets
        .map(|target| {
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            let path = if path.is_empty() {
                own.clone()
            } else {
                folder.join(path)
            };
            (path, anchor)
        })
        .collect()
}

/// The anchors of a page: its headings in small letters, without punctuation,
/// with hyphens for blanks, and a number for those that come again.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        let heading = line.trim_start_matches('#');
        if in_block || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign))
            .map(|sign| if sign == ' ' { '-' } else { sign })
            .collect();
        let mut unique = anchor.clone();
        let mut times = 0;
        while anchors.contains(&unique) {
            times += 1;
            unique = format!("{anchor}-{times}");
        }
        anchors.insert(unique);
    }
    anchors
}

/// The text below a heading of the second level, up to the next.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = format!("\n## {heading}\n");
    let (_, rest) = text
        .split_once(&start)
        .unwrap_or_else(|| panic!("no page has the heading {heading:?}"));
    rest.split("\n## ").next().unwrap_or(rest)
}

/// The pages, by their path.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), read("README.md"))];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{folder}/{name}");
            if entry.path().is_dir() {
                folders.push(path);
            } else if entry.path().extension().is_none_or(|kind| kind != "png") {
                pages.push((path.clone(), read(&path)));
            }
        }
    }
    pages
}

/// All sources, without their unit tests' files.
pub(crate) fn sources() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for folder in ["src", "crates"] {
        rust_files(&root().join(folder), &mut sources);
    }
    sources.retain(|(path, _)| !path.ends_with("tests.rs"));
    sources
}

/// Adds the Rust files of a folder.
fn rust_files(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}
