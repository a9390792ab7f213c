//! The graph of a catalog, read from lines that are short to write and to
//! change, one a blob:
//!
//! - `p PACKAGE DEFAULT`: a package and its default channel,
//! - `c PACKAGE CHANNEL ENTRY...`: a channel; an entry is `NAME`, then each of
//!   `<REPLACES`, `!SKIPS` and `~RANGE` as often as it likes,
//! - `b PACKAGE BUNDLE VERSION [IMAGE]`: a bundle,
//! - `d PACKAGE KIND:NAME...`: deprecations,
//! - anything else: a document as it is.

use super::memory::{assert_in_proportion, most_memory};
use fbc::document::Blobs;
use fbc::graph::{Graph, MAX_PROBLEMS, MAX_PROBLEMS_PER_PACKAGE, build};
use fbc::problem::{Code, Problem};
use fbc::read::{Output, Reader, pieces};
use serde_json::{Value, json};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut documents: Vec<String> = text.lines().map(document).collect();
    let forward = documents.concat();
    let (out, most) = most_memory(|| read(forward.as_bytes()));
    // A short document of YAML may become a megabyte through its aliases.
    let json = forward.starts_with('{') && !forward.contains("---");
    let small = if json { 1 << 16 } else { 8 << 20 };
    assert_in_proportion(forward.len(), most, 64, small);
    let ((graph, problems), most) = most_memory(|| build_of(&out));
    assert_in_proportion(forward.len(), most, 64, 1 << 16);
    assert_eq!((&graph, &problems), (&build_of(&out).0, &build_of(&out).1));
    check(&graph, &problems, &out.blobs);

    documents.reverse();
    let backward = read(documents.concat().as_bytes());
    if out.problems.is_empty() && backward.problems.is_empty() {
        let (other, other_problems) = build_of(&backward);
        assert_eq!(other.quarantined, graph.quarantined);
        assert_eq!(named(&other, &backward.blobs), named(&graph, &out.blobs));
        // Of what stands twice the first counts, and the rest is judged by it.
        let code_of_order = |problem: &Problem| {
            problem.code == Code::ProblemsOmitted || problem.code.as_str().ends_with("-duplicate")
        };
        if !problems.iter().any(code_of_order) {
            assert_eq!(codes(&other_problems), codes(&problems));
        }
    }
}

fn read(bytes: &[u8]) -> Output {
    let mut out = Output::default();
    let mut reader = Reader::default();
    for piece in pieces(bytes, usize::MAX) {
        reader.read(&piece, &bytes[piece.range.clone()], 0, &mut out, &mut ());
    }
    out
}

fn build_of(out: &Output) -> (Graph, Vec<Problem>) {
    build(&out.blobs, &["catalog.json".to_owned()])
}

/// The indices lead to what they should, and no more is said than is allowed.
fn check(graph: &Graph, problems: &[Problem], blobs: &Blobs) {
    assert!(problems.len() <= MAX_PROBLEMS + 1);
    for problem in problems {
        assert!(problem.message.len() < 1 << 13, "{}", problem.message.len());
        let of_package = |other: &&Problem| other.subject.package == problem.subject.package;
        if problem.code == Code::ProblemsOmitted && !problem.subject.package.is_empty() {
            let count = problems.iter().filter(of_package).count();
            assert!(count > MAX_PROBLEMS_PER_PACKAGE);
        }
    }
    assert!(graph.packages.is_sorted_by(|a, b| a.name < b.name));
    assert!(graph.quarantined.is_sorted_by(|a, b| a < b));
    for package in &graph.packages {
        assert!(!graph.quarantined.contains(&package.name));
        assert_eq!(blobs.packages[package.blob].blob.name, package.name);
        assert!(package.default_channel < package.channels.len());
        assert!(package.channels.is_sorted_by(|a, b| a.name < b.name));
        for channel in &package.channels {
            assert!(channel.head < channel.entries.len());
            assert!(channel.entries.is_sorted_by(|a, b| a.name < b.name));
            let head = &channel.entries[channel.head].name;
            for entry in &channel.entries {
                assert!(entry.replaces != *head && !entry.skips.contains(head));
                let bundle = &blobs.bundles[entry.bundle].blob;
                assert_eq!(
                    (&bundle.name, &bundle.package),
                    (&entry.name, &package.name)
                );
            }
        }
    }
}

/// The graph with names instead of indices of blobs.
fn named(graph: &Graph, blobs: &Blobs) -> Value {
    let packages = graph.packages.iter().map(|package| {
        let channels = package.channels.iter().map(|channel| {
            let entries = channel.entries.iter().map(|entry| {
                let bundle = &blobs.bundles[entry.bundle].blob;
                json!([
                    entry.name,
                    entry.replaces,
                    entry.skips,
                    entry.skip_range,
                    bundle.version
                ])
            });
            let entries: Vec<_> = entries.collect();
            json!([channel.name, channel.head, entries, channel.deprecation])
        });
        let channels: Vec<_> = channels.collect();
        let deprecated = package.deprecated_bundles.iter();
        let mut deprecated: Vec<_> = deprecated
            .map(|(bundle, text)| (&blobs.bundles[*bundle].blob.name, text))
            .collect();
        deprecated.sort();
        json!([
            package.name,
            package.default_channel,
            channels,
            package.deprecation,
            deprecated
        ])
    });
    packages.collect()
}

fn codes(problems: &[Problem]) -> Vec<(&str, Code)> {
    let mut codes: Vec<_> = problems
        .iter()
        .map(|problem| (problem.subject.package.as_str(), problem.code))
        .collect();
    codes.sort_unstable();
    codes
}

/// The document that a line stands for.
fn document(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let blob = match words[..] {
        ["p", name, default] => {
            json!({"schema": "olm.package", "name": name, "defaultChannel": default})
        }
        ["c", package, name, ref entries @ ..] => {
            let entries: Vec<Value> = entries.iter().map(|words| entry(words)).collect();
            json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
        }
        ["b", package, name, version, ref image @ ..] => {
            let value = json!({"packageName": package, "version": version});
            let property = json!({"type": "olm.package", "value": value});
            let image = image.first().unwrap_or(&"example.com/a/b:c");
            json!({
                "schema": "olm.bundle", "package": package, "name": name, "image": image,
                "properties": [property],
            })
        }
        ["d", package, ref named @ ..] => {
            let entries = named.iter().map(|one| {
                let (kind, name) = one.split_once(':').unwrap_or((one, ""));
                let mut reference = json!({"schema": format!("olm.{kind}")});
                if !name.is_empty() {
                    reference["name"] = name.into();
                }
                json!({"reference": reference, "message": "Gone."})
            });
            let entries: Vec<Value> = entries.collect();
            json!({"schema": "olm.deprecations", "package": package, "entries": entries})
        }
        _ => return format!("{line}\n"),
    };
    format!("{blob}\n")
}

/// An entry of a channel: its name, and what signs begin.
fn entry(words: &str) -> Value {
    let signs = ['<', '!', '~'];
    let (name, mut rest) = words.split_at(words.find(signs).unwrap_or(words.len()));
    let mut entry = json!({"name": name});
    let mut skips = Vec::new();
    while let Some(sign) = rest.chars().next() {
        rest = &rest[1..];
        let (value, behind) = rest.split_at(rest.find(signs).unwrap_or(rest.len()));
        rest = behind;
        match sign {
            '<' => entry["replaces"] = value.into(),
            '!' => skips.push(value),
            _ => entry["skipRange"] = value.replace('_', " ").into(),
        }
    }
    if !skips.is_empty() {
        entry["skips"] = skips.into();
    }
    entry
}
