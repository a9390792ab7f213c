//! What holds for any catalog: that order does not matter where it has no
//! meaning, that canonical text stays as it is, and that nothing that is read
//! becomes much larger than it was.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fbc::document::Blobs;
use fbc::graph::{self, Graph};
use fbc::problem::{Code, Problem, Severity};
use fbc::read::{Output, Reader, pieces};
use fbc::text::yaml;
use std::convert::Infallible;

use almanac::answers::grpc::encoder::Encoder;
use almanac::ingest::{LoadOptions, Source, load};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::cases::cases;
use crate::support::catalog::{Catalog, Format};
use crate::support::runtime::block_on;

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_order_of_files_and_documents_does_not_change_the_graph(
        (one, other) in blobs().prop_flat_map(|blobs| (arranged(blobs.clone()), arranged(blobs))),
    ) {
        let (one, other) = (Read::of(&one), Read::of(&other));
        prop_assert_eq!(one.graph(), other.graph());
        prop_assert_eq!(one.messages(), other.messages());
        prop_assert_eq!(findings(&one.problems), findings(&other.problems));
    }

    #[test]
    fn a_rendered_catalog_is_read_to_the_same(files in blobs().prop_flat_map(arranged)) {
        let (first, lines) = read_files(&files);
        for format in [Format::JsonLines, Format::Yaml] {
            let rendered = rendered(&lines, format);
            let (again, same_lines) = read_files(&[("all".to_owned(), rendered)]);
            prop_assert_eq!(&same_lines, &lines, "{:?}", format);
            prop_assert_eq!(again.graph(), first.graph());
            prop_assert_eq!(again.messages(), first.messages());
            prop_assert_eq!(findings(&again.problems), findings(&first.problems));
        }
    }

    #[test]
    fn what_was_read_is_read_the_same_again(value in value()) {
        let blob = json!({"schema": "example.com.any", "name": "any", "value": value});
        let lines = [Format::JsonLines, Format::PrettyJson, Format::Yaml].map(|format| {
            let text = Catalog::new().blob(blob.clone()).text(format);
            lines(&text)
        });
        prop_assert_eq!(&lines[0], &lines[1]);
        prop_assert_eq!(&lines[0], &lines[2]);
        let again = crate::properties::lines(&lines[0]);
        prop_assert_eq!(&again, &lines[0]);
        let as_yaml = crate::properties::lines(&format!("---\n{again}"));
        prop_assert_eq!(&as_yaml, &lines[0]);
    }

    #[test]
    fn hostile_yaml_stays_in_proportion(
        pattern in prop::sample::select(HOSTILE),
        (width, count) in (1_usize..40, 1_usize..4_000),
    ) {
        let text = hostile(pattern, width, count);
        let allowed = (8 * text.len()).max(1 << 20);
        let mut json = Vec::new();
        for document in yaml::documents(text.as_bytes()) {
            let _ = yaml::to_json(document.bytes, &yaml::Limits::default(), &mut json);
            prop_assert!(json.len() <= allowed, "{} of {}", json.len(), text.len());
            json.clear();
        }
        let read = read(text.as_bytes());
        prop_assert!(read.lines.len() <= allowed + 1);
        prop_assert!(read.problems.len() <= 1_001);
    }
}

proptest! {
    // Each writes two folders.
    #![proptest_config(cases(20))]

    #[test]
    fn a_check_finds_the_same_in_any_order(
        (one, other) in blobs().prop_flat_map(|blobs| (arranged(blobs.clone()), arranged(blobs))),
    ) {
        let [one, other] = [one, other].map(|files| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in &files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            let source = Source::File(folder.path().to_owned());
            let loaded = block_on(load(&source, &LoadOptions::default()));
            let Ok(report) = loaded.unwrap().read(|_, _, _| Ok::<_, Infallible>(()));
            (report.counts, findings(&report.problems))
        });
        prop_assert_eq!(one, other);
    }
}

/// A catalog of several files, read.
struct Read {
    blobs: Blobs,
    encoder: Encoder,
    graph: Graph,
    problems: Vec<Problem>,
}

impl Read {
    fn of(files: &[(String, String)]) -> Self {
        read_files(files).0
    }

    /// The graph, with names where it has indices of blobs.
    fn graph(&self) -> Value {
        let packages = self.graph.packages.iter().map(|package| {
            let channels = package.channels.iter().map(|channel| {
                let entries = channel.entries.iter().map(|entry| {
                    let bundle = &self.blobs.bundles[entry.bundle].blob;
                    json!([
                        entry.name,
                        entry.replaces,
                        entry.skips,
                        entry.skip_range,
                        bundle.name
                    ])
                });
                let entries: Value = entries.collect();
                json!([channel.name, channel.head, entries, channel.deprecation])
            });
            let deprecated = package.deprecated_bundles.iter();
            let deprecated: BTreeMap<&str, &str> = deprecated
                .map(|(bundle, text)| (&*self.blobs.bundles[*bundle].blob.name, &**text))
                .collect();
            let channels: Value = channels.collect();
            json!([
                package.name,
                package.default_channel,
                channels,
                package.deprecation,
                deprecated
            ])
        });
        let packages: Value = packages.collect();
        json!([packages, self.graph.quarantined])
    }

    /// Each served bundle, by package and name.
    fn messages(&self) -> BTreeMap<(&str, &str), &[u8]> {
        let packages = self.graph.packages.iter();
        let entries = packages.flat_map(|package| {
            let entries = package.channels.iter().flat_map(|one| &one.entries);
            entries.map(move |entry| (package, entry))
        });
        entries
            .map(|(package, entry)| {
                let common = self.encoder.bundles[entry.bundle].common;
                let message = common.of(&self.encoder.messages).unwrap();
                ((&*package.name, &*entry.name), message)
            })
            .collect()
    }
}

/// Reads a catalog of files, and its canonical lines.
fn read_files(files: &[(String, String)]) -> (Read, String) {
    let (mut out, mut encoder) = (Output::default(), Encoder::default());
    let mut reader = Reader::default();
    for (number, (_, text)) in (0_u32..).zip(files) {
        for piece in pieces(text.as_bytes(), 100) {
            let bytes = &text.as_bytes()[piece.range.clone()];
            reader.read(&piece, bytes, number, &mut out, &mut encoder);
        }
    }
    let lines = String::from_utf8(std::mem::take(&mut out.lines)).unwrap();
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let (graph, mut problems) = graph::build(&out.blobs, &names);
    problems.extend(out.problems.into_iter().map(|(_, problem)| problem));
    let read = Read {
        blobs: out.blobs,
        encoder,
        graph,
        problems,
    };
    (read, lines)
}

/// Output of `almanac render` for a catalog of these lines.
fn rendered(lines: &str, format: Format) -> String {
    if format != Format::Yaml {
        return lines.to_owned();
    }
    let mut out = Vec::new();
    for line in lines.lines() {
        out.extend_from_slice(b"---\n");
        yaml::from_json(line.as_bytes(), &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Problems without what depends on places.
fn findings(problems: &[Problem]) -> Vec<(Code, Severity, &'static str, String)> {
    let mut findings: Vec<_> = problems
        .iter()
        .map(|one| {
            (
                one.code,
                one.severity,
                one.code.as_str(),
                one.subject.package.clone(),
            )
        })
        .collect();
    findings.sort_unstable();
    findings
}

fn read(bytes: &[u8]) -> Output {
    let mut out = Output::default();
    let mut reader = Reader::default();
    for piece in pieces(bytes, usize::MAX / 2) {
        reader.read(&piece, &bytes[piece.range.clone()], 0, &mut out, &mut ());
    }
    out
}

/// The canonical lines of a text in which nothing is wrong.
fn lines(text: &str) -> String {
    let out = read(text.as_bytes());
    assert!(out.problems.is_empty(), "{:?}: {text}", out.problems);
    String::from_utf8(out.lines).unwrap()
}

/// The blobs of one to three packages, some of them in order and some not.
fn blobs() -> impl Strategy<Value = Vec<Value>> {
    let names = ["lamp", "desk", "chair"];
    let packages = names.map(|name| prop::option::weighted(0.7, package(name)));
    packages.prop_map(|packages| packages.into_iter().flatten().flatten().collect())
}

/// A package of a chain of versions, with what proptest changes about it.
fn package(name: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let entry = (
        prop::option::weighted(0.9, Just(())),
        prop::collection::vec(0_usize..5, 0..2),
        prop::option::of(prop::sample::select(vec![
            "<1.0.0",
            ">=0.1.0 <2.0.0",
            "1.x",
            "~1",
        ])),
    );
    let channel = prop::collection::vec(entry, 1..5);
    let channels = prop::collection::vec(channel, 1..3);
    let strays = prop::collection::vec(0_usize..7, 0..2);
    (channels, strays, 0_usize..4).prop_map(move |(channels, strays, deprecated)| {
        let bundle = |number: usize| format!("{name}.v{number}.0.0");
        let mut blobs =
            vec![json!({"schema": "olm.package", "name": name, "defaultChannel": "c0"})];
        let mut longest = 0;
        for (at, channel) in channels.iter().enumerate() {
            longest = longest.max(channel.len());
            let entries = channel
                .iter()
                .enumerate()
                .map(|(number, (chained, skips, range))| {
                    let mut entry = json!({"name": bundle(number)});
                    if chained.is_some() && number > 0 {
                        entry["replaces"] = bundle(number - 1).into();
                    }
                    let skips: Vec<String> = skips
                        .iter()
                        .filter(|skip| **skip < number)
                        .map(|skip| bundle(*skip))
                        .collect();
                    entry["skips"] = skips.into();
                    if let Some(range) = range {
                        entry["skipRange"] = (*range).into();
                    }
                    entry
                });
            let entries: Value = entries.collect();
            blobs.push(json!({
                "schema": "olm.channel", "package": name, "name": format!("c{at}"),
                "entries": entries,
            }));
        }
        for number in 0..longest {
            let value = json!({"packageName": name, "version": format!("{number}.0.0")});
            blobs.push(json!({
                "schema": "olm.bundle", "package": name, "name": bundle(number),
                "image": format!("example.com/{name}:{number}"),
                "properties": [{"type": "olm.package", "value": value}],
            }));
        }
        if deprecated > 0 {
            let reference = [
                json!({"schema": "olm.package"}),
                json!({"schema": "olm.channel", "name": "c0"}),
                json!({"schema": "olm.bundle", "name": bundle(1)}),
            ][deprecated - 1]
                .clone();
            blobs.push(json!({
                "schema": "olm.deprecations", "package": name,
                "entries": [{"reference": reference, "message": "Gone."}],
            }));
        }
        // Blobs that stand twice.
        for stray in strays {
            if let Some(blob) = blobs.get(stray).filter(|_| stray > 0) {
                blobs.push(blob.clone());
            }
        }
        blobs
    })
}

/// The blobs in any order, in up to three files of any format.
fn arranged(blobs: Vec<Value>) -> impl Strategy<Value = Vec<(String, String)>> {
    let format = prop::sample::select(vec![Format::JsonLines, Format::PrettyJson, Format::Yaml]);
    let formats = prop::collection::vec(format, 3);
    let file_of = prop::collection::vec(0_usize..3, blobs.len());
    (Just(blobs).prop_shuffle(), file_of, formats).prop_map(|(blobs, file_of, formats)| {
        let files = formats.into_iter().enumerate().map(|(number, format)| {
            let own = blobs
                .iter()
                .zip(&file_of)
                .filter(|(_, file)| **file == number);
            let catalog = own.fold(Catalog::new(), |catalog, (blob, _)| {
                catalog.blob(blob.clone())
            });
            let ending = if format == Format::Yaml {
                "yaml"
            } else {
                "json"
            };
            (format!("{number}.{ending}"), catalog.text(format))
        });
        files.collect()
    })
}

/// Any JSON value that can be written as YAML in the same words.
fn value() -> impl Strategy<Value = Value> {
    // Not the signs that YAML takes for line ends or does not take at all.
    let text = "[ -~\\n\\t\u{a1}-\u{2fff}\u{10000}-\u{1ffff}]{0,12}"
        .prop_map(|text| text.replace(['\u{2028}', '\u{2029}'], "|"));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // YAML has no negative zero without a point.
        any::<f64>().prop_map(|number| Value::from(if number == 0.0 { 0.0 } else { number })),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let members = prop::collection::vec((text.clone(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

/// Constructs of YAML that grow while they are read.
const HOSTILE: &[&str] = &[
    "aliases",
    "merges",
    "anchors",
    "deep lists",
    "deep mappings",
    "long keys",
    "nulls",
    "documents",
    "escapes",
    "numbers",
    "one large anchor",
];

/// YAML that wants to be large: `count` things, each of `width`.
fn hostile(pattern: &str, width: usize, count: usize) -> String {
    let mut rest = String::new();
    let many = |piece: &str| piece.repeat(count);
    match pattern {
        "aliases" => {
            rest.push_str("a0: &a0 [x]\n");
            for number in 1..count.min(60) {
                let aliases = format!("*a{}, ", number - 1).repeat(width);
                writeln!(rest, "a{number}: &a{number} [{aliases}]").unwrap();
            }
        }
        "merges" => {
            rest.push_str("a0: &a0 {x: 1}\n");
            for number in 1..count.min(60) {
                let before = number - 1;
                write!(rest, "a{number}: &a{number} {{<<: *a{before}").unwrap();
                for key in 0..width {
                    write!(rest, ", k{number}_{key}: *a{before}").unwrap();
                }
                rest.push_str("}\n");
            }
        }
        "anchors" => {
            for number in 0..count {
                writeln!(rest, "k{number}: &a{number} 1").unwrap();
            }
        }
        "nulls" => {
            rest.push_str("a: {");
            for key in 0..count {
                write!(rest, "{key:x},").unwrap();
            }
            rest.push('}');
        }
        "deep lists" => rest = format!("a: {}", many("[")),
        "deep mappings" => rest = format!("a: {}", many("{a: ")),
        "long keys" => rest = format!("? {}\n: 1\n", many(&"k".repeat(width))),
        "documents" => rest = many("---\n{}\n"),
        "escapes" => rest = format!("a: \"{}\"\n", many("\\0\\P")),
        "numbers" => rest = format!("a: [{}]\n", many("1e20,")),
        "one large anchor" => {
            let aliases = "*a,".repeat(width);
            rest = format!("a: &a [{}]\nb: [{aliases}]\n", many("x,"));
        }
        _ => panic!("{pattern} is not among HOSTILE"),
    }
    format!("schema: a\n{rest}")
}
