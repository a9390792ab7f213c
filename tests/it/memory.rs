//! How much memory `almanac check` takes for files that were made to make it
//! take much: at most eight times their size, beside what the program and the
//! pieces that it works on take in any case.
//!
//! `ALMANAC_MEMORY_MIB` tells how large the files are, if not small ones; then
//! what each took is worth a look (`--nocapture`).

use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::program::Start;

/// How many times a file's size may be taken.
const TIMES: u64 = 8;
/// The allowed memory beside that, in bytes.
const BASE: u64 = 32 << 20;
/// How long a check may take: it is the whole machine that is tested on.
const PATIENCE: Duration = Duration::from_mins(3);

/// A file of a head, a piece again and again (`@` stands for its number, in
/// hexadecimal) and a tail.
type Pattern = (&'static str, &'static str, &'static str, &'static str);

const BUNDLE: &str = r#"{"schema":"olm.bundle","package":"p","name":"b","properties":[{}"#;
const CHANNEL: &str = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}
{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"0"}"#;

/// Values: large numbers of small things in one blob.
const JSON_VALUES: &[Pattern] = &[
    ("numbers", r#"{"schema":"a","x":[1"#, ",1e20", "]}"),
    ("empty objects", r#"{"schema":"a","x":[{}"#, ",{}", "]}"),
    ("empty strings", r#"{"schema":"a","x":[{}"#, ",\"\"", "]}"),
    (
        "the same key",
        r#"{"schema":"a","x":{"":0"#,
        ",\"a\":0",
        "}}",
    ),
    ("escapes", r#"{"schema":"a","x":""#, "\\u0000", "\"}"),
    (
        "separators of lines",
        r#"{"schema":"a","x":""#,
        "\u{2028}",
        "\"}",
    ),
    ("digits", r#"{"schema":"a","x":"#, "1", "}"),
    (
        "deep lists",
        r#"{"schema":"a","x":["#,
        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]],",
        "0]}",
    ),
];

/// Blobs and documents of hardly anything.
const JSON_BLOBS: &[Pattern] = &[
    ("schemas", "", "{\"schema\":\"@\"}\n", ""),
    ("blobs", "", "{\"schema\":\"a\"}\n", ""),
    ("no blobs", "", "{}\n", ""),
    ("unknown schemas", "", "{\"schema\":\"olm.x\"}\n", ""),
    ("fields", "", "{\"schema\":\"a\",\"@\":0}\n", ""),
    (
        "packages without a name",
        "",
        "{\"schema\":\"olm.package\"}\n",
        "",
    ),
    (
        "channels without a package",
        "",
        "{\"schema\":\"olm.channel\"}\n",
        "",
    ),
    (
        "bundles without a package",
        "",
        "{\"schema\":\"olm.bundle\"}\n",
        "",
    ),
    (
        "deprecations",
        "",
        "{\"schema\":\"olm.deprecations\"}\n",
        "",
    ),
    (
        "channels",
        "",
        "{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"@\"}\n",
        "",
    ),
];

/// Fields of `olm` blobs that are lists.
const JSON_LISTS: &[Pattern] = &[
    ("entries", CHANNEL, r#",{"name":"@","replaces":"0"}"#, "]}"),
    ("empty entries", CHANNEL, ",{}", "]}"),
    ("properties", BUNDLE, ",{}", "]}"),
    ("no properties", BUNDLE, ",1", "]}"),
    ("null properties", BUNDLE, ",null", "]}"),
    (
        "bad properties",
        BUNDLE,
        r#",{"type":"olm.gvk","value":@}"#,
        "]}",
    ),
    ("APIs", BUNDLE, r#",{"type":"olm.gvk","value":{}}"#, "]}"),
    (
        "metadata",
        BUNDLE,
        r#",{"type":"olm.csv.metadata","value":{}}"#,
        "]}",
    ),
    (
        "objects",
        BUNDLE,
        r#",{"type":"olm.bundle.object","value":{"data":"e30="}}"#,
        "]}",
    ),
    (
        "images",
        r#"{"schema":"olm.bundle","relatedImages":[{}"#,
        r#",{"image":"A"}"#,
        "]}",
    ),
];

const YAML: &[Pattern] = &[
    ("documents", "", "---\nschema: a\n", ""),
    ("wrong documents", "", "---\n[\n", ""),
    ("separators", "", "---\n", ""),
    ("empty items", "schema: a\nx:\n", "-\n", ""),
    ("flow nulls", "schema: a\nx: [", "~,", "]"),
    ("flow objects", "schema: a\nx: [", "{},", "]"),
    ("the same key", "schema: a\nx:\n", " a:\n", ""),
    ("aliases", "schema: a\nb: &a x\nx: [", "*a,", "]"),
    ("merges", "schema: a\nb: &a {a: 1}\nx:\n", "- <<: *a\n", ""),
    ("escapes", "schema: a\nx: \"", "\\0", "\""),
    ("numbers", "schema: a\nx:\n", "- 1e20\n", ""),
    ("quotes", "schema: a\nx: |\n", "  \"\n", ""),
    ("deep lists", "schema: a\nx: ", "[", ""),
    (
        "properties",
        "schema: olm.bundle\nname: c\nproperties:\n",
        "-\n",
        "",
    ),
];

#[test]
fn values_of_json_take_memory_in_proportion() {
    in_proportion("json", JSON_VALUES);
}

#[test]
fn small_blobs_take_memory_in_proportion() {
    in_proportion("json", JSON_BLOBS);
}

#[test]
fn long_lists_take_memory_in_proportion() {
    in_proportion("json", JSON_LISTS);
}

#[test]
fn yaml_takes_memory_in_proportion() {
    in_proportion("yaml", YAML);
}

fn in_proportion(ending: &str, patterns: &[Pattern]) {
    let mib = std::env::var("ALMANAC_MEMORY_MIB").map_or(8, |mib| mib.parse().unwrap());
    let mut too_much = Vec::new();
    for pattern in patterns {
        let text = text(*pattern, mib << 20);
        let limit = TIMES * text.len() as u64 + BASE;
        // On a busy machine one thread may run far ahead of another; that is
        // not always so where the text is the cause.
        let mut most = most_memory(&text, ending);
        for _ in 0..2 {
            if most > limit {
                most = most.min(most_memory(&text, ending));
            }
        }
        let times = most as f64 / text.len() as f64;
        eprintln!(
            "{times:5.1} times, {:4} MiB: {ending}, {}",
            most >> 20,
            pattern.0
        );
        if most > limit {
            too_much.push((pattern.0, most >> 20));
        }
    }
    assert!(too_much.is_empty(), "of {mib} MiB: {too_much:?}");
}

fn text((_, head, piece, tail): Pattern, length: usize) -> String {
    let mut text = head.to_owned();
    for number in 0_usize.. {
        if text.len() >= length {
            break;
        }
        text.push_str(&piece.replace('@', &format!("{number:x}")));
    }
    text + tail
}

/// The most memory of its own that a check of this file was seen to hold.
fn most_memory(text: &str, ending: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("catalog.{ending}"));
    fs::write(&file, text).unwrap();
    let mut program = Start::new(["check", file.to_str().unwrap()]).start();
    let started = Instant::now();
    let mut most = 0;
    let status = loop {
        most = most.max(memory(program.pid()));
        if let Some(status) = program.ended() {
            break status;
        }
        assert!(started.elapsed() < PATIENCE, "it takes too long");
        thread::sleep(Duration::from_millis(1));
    };
    // It ends by itself, whatever it thinks of the file.
    let code = status.code();
    assert!(
        code.is_some_and(|code| [0, 1, 3].contains(&code)),
        "{status}"
    );
    most
}

/// The memory of its own that a process holds, in bytes; none when it has ended.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = held.and_then(|held| held.split_whitespace().next());
    kilobytes.map_or(0, |number| number.parse::<u64>().unwrap() << 10)
}
