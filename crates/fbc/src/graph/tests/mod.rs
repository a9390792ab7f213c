mod bundles;
mod channels;
mod deprecations;
mod packages;

use proptest::prelude::*;

use crate::document::{
    Blobs, BundleBlob, ChannelBlob, CsvSource, Defect, DeprecationBlob, DeprecationsBlob,
    EntryBlob, Located, PackageBlob,
};
use crate::graph::*;
use crate::problem::{Code, Problem, Severity};

fn at<T>(blob: T, meta: usize) -> Located<T> {
    let meta = u32::try_from(meta).unwrap();
    Located {
        blob,
        meta,
        file: 0,
        document: meta + 1,
        line: meta * 10 + 1,
    }
}

fn package(name: &str, default_channel: &str) -> PackageBlob {
    PackageBlob {
        name: name.to_owned(),
        default_channel: default_channel.to_owned(),
        defects: Vec::new(),
    }
}

/// A channel from entries in the form `a replaces b skips c,d range >1.0.0`.
fn channel(package: &str, name: &str, entries: &[&str]) -> ChannelBlob {
    let entry = |text: &&str| {
        let (text, skip_range) = text.split_once(" range ").unwrap_or((text, ""));
        let (text, skips) = text.split_once(" skips ").unwrap_or((text, ""));
        let (name, replaces) = text.split_once(" replaces ").unwrap_or((text, ""));
        EntryBlob {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            skips: match skips {
                "" => Vec::new(),
                skips => skips.split(',').map(ToOwned::to_owned).collect(),
            },
            skip_range: skip_range.to_owned(),
        }
    };
    ChannelBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        entries: entries.iter().map(entry).collect(),
        defects: Vec::new(),
    }
}

fn bundle(package: &str, name: &str, version: &str) -> BundleBlob {
    BundleBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        version: version.to_owned(),
        has_image: true,
        has_csv_metadata: true,
        csv: CsvSource::Metadata,
        ..BundleBlob::default()
    }
}

/// Deprecations from `schema name message`, with `-` for nothing.
fn deprecations(package: &str, entries: &[&str]) -> DeprecationsBlob {
    let entry = |text: &&str| {
        let mut words = text.split(' ').map(|word| word.replace('-', ""));
        let mut word = || words.next().unwrap();
        DeprecationBlob {
            schema: word(),
            name: word(),
            message: word(),
        }
    };
    DeprecationsBlob {
        package: package.to_owned(),
        entries: entries.iter().map(entry).collect(),
        defects: Vec::new(),
    }
}

/// The blobs of package `foo`: one channel `beta` with these entries, and a
/// bundle for each of them.
fn foo(entries: &[&str]) -> Blobs {
    let beta = channel("foo", "beta", entries);
    let mut blobs = Blobs::default();
    blobs.packages.push(at(package("foo", "beta"), 0));
    for (number, entry) in beta.entries.iter().enumerate() {
        let version = format!("0.{number}.0");
        let blob = bundle("foo", &entry.name, &version);
        blobs.bundles.push(at(blob, number + 2));
    }
    blobs.channels.push(at(beta, 1));
    blobs
}

fn files() -> Vec<String> {
    vec![String::from("foo/catalog.json")]
}

/// Builds and expects no problem at all.
#[track_caller]
fn accepted(blobs: &Blobs) -> Graph {
    let (graph, problems) = build(blobs, &files());
    assert_eq!(problems, [], "{problems:#?}");
    assert_eq!(graph.quarantined, [""; 0]);
    graph
}

/// Builds and expects these codes, and package `foo` to be left out.
#[track_caller]
fn refused(blobs: &Blobs, codes: &[Code]) -> Vec<Problem> {
    let (graph, problems) = build(blobs, &files());
    let found: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(found, codes, "{problems:#?}");
    assert!(graph.packages.is_empty());
    assert_eq!(graph.quarantined, ["foo"]);
    for problem in &problems {
        assert_eq!(problem.severity, Severity::Error);
        assert_eq!(problem.subject.package, "foo");
        assert!(problem.message.contains("\"foo\""), "{problem}");
        assert!(problem.position.is_some(), "{problem}");
    }
    problems
}

/// Builds and expects this one warning, at this place, and package `foo` to be
/// in the graph.
#[track_caller]
fn warned(blobs: &Blobs, code: Code, document: u32, message: &str) {
    let (graph, problems) = build(blobs, &files());
    let [problem] = problems.as_slice() else {
        panic!("{problems:#?}");
    };
    assert_eq!(problem.code, code);
    assert_eq!(problem.severity, Severity::Warning);
    assert_eq!(problem.subject.package, "foo");
    assert_eq!(problem.message, message);
    assert_eq!(problem.position.as_ref().unwrap().document, document);
    assert_eq!(graph.packages.len(), 1);
}

#[track_caller]
fn refused_with(blobs: &Blobs, code: Code, message: &str) {
    assert_eq!(refused(blobs, &[code])[0].message, message);
}

fn without_metadata(bundle: &mut BundleBlob) {
    bundle.has_csv_metadata = false;
    bundle.csv = CsvSource::None;
}

fn with_objects(bundle: &mut BundleBlob, csv: CsvSource) {
    bundle.has_csv_metadata = false;
    bundle.has_objects = true;
    bundle.csv = csv;
}

#[test]
fn the_number_of_problems_is_bounded() {
    let mut blobs = Blobs::default();
    for number in 0..12 {
        let name = format!("p{number:02}");
        blobs.packages.push(at(package(&name, ""), 0));
        for channel in 0..1_500 {
            let channel = self::channel(&name, &format!("c{channel}"), &[]);
            blobs.channels.push(at(channel, 0));
        }
    }
    let (graph, problems) = build(&blobs, &files());
    assert_eq!(graph.quarantined.len(), 12);
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    let of_first = (problems.iter()).filter(|problem| problem.subject.package == "p00");
    assert_eq!(of_first.count(), MAX_PROBLEMS_PER_PACKAGE + 1);
    assert_eq!(
        problems[MAX_PROBLEMS_PER_PACKAGE].to_string(),
        "error[problems-omitted]: package \"p00\" has 501 further problems that are not listed; \
         correct the listed ones first"
    );
    let last = problems.last().unwrap();
    assert_eq!(last.code, Code::ProblemsOmitted);
    assert_eq!(
        last.message,
        "the catalog has 2012 further problems that are not listed; correct the listed ones first"
    );
}

#[test]
fn the_length_of_a_problem_is_bounded() {
    let long = "ä".repeat(100_000);
    let entries: Vec<String> = (0..30).map(|number| format!("{long}{number}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let (_, problems) = build(&foo(&entries), &files());
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.len() < 2_100);
}

/// A graph with names in place of indices, and the problems without places.
fn told(blobs: &Blobs) -> (Graph, Vec<Vec<String>>, Vec<String>) {
    let (mut graph, problems) = build(blobs, &files());
    let mut bundles = Vec::new();
    for package in &mut graph.packages {
        package.blob = 0;
        for entry in package.channels.iter_mut().flat_map(|c| &mut c.entries) {
            let bundle = std::mem::take(&mut entry.bundle);
            bundles.push(vec![
                entry.name.clone(),
                blobs.bundles[bundle].blob.name.clone(),
            ]);
        }
    }
    let problems = problems
        .into_iter()
        .map(|problem| problem.message)
        .collect();
    (graph, bundles, problems)
}

fn entries() -> impl Strategy<Value = Vec<(Option<usize>, Vec<usize>)>> {
    let entry = (
        proptest::option::weighted(0.8, 0..6_usize),
        proptest::collection::vec(0..6_usize, 0..2),
    );
    proptest::collection::vec(entry, 1..6)
}

proptest! {
    #[test]
    fn the_order_of_blobs_does_not_change_the_graph(
        entries in entries(),
        bundles in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
        order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let name = |number: usize| format!("e{number}");
        let entries: Vec<EntryBlob> = entries.iter().enumerate().map(|(number, (replaces, skips))| {
            EntryBlob {
                name: name(number),
                replaces: replaces.map(name).unwrap_or_default(),
                skips: skips.iter().map(|number| name(*number)).collect(),
                skip_range: String::new(),
            }
        }).collect();
        let make = |bundles: &[usize], order: &[usize]| {
            let mut blobs = foo(&[]);
            blobs.channels[0].blob.entries =
                order.iter().filter_map(|number| entries.get(*number).cloned()).collect();
            for number in bundles.iter().filter(|number| **number < entries.len()) {
                let version = format!("{number}.0.0");
                blobs.bundles.push(at(bundle("foo", &name(*number), &version), 0));
            }
            blobs
        };
        let sorted: Vec<usize> = (0..6).collect();
        prop_assert_eq!(told(&make(&sorted, &sorted)), told(&make(&bundles, &order)));
    }
}
