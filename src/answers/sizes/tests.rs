use super::*;
use crate::answers::grpc::bundle_message::{CsvParts, Manifests};
use crate::answers::grpc::csv::FIXED;
use crate::answers::span::Span;
use fbc::document::{BundleBlob, ChannelBlob, CsvSource, EntryBlob, Located, PackageBlob};
use fbc::graph;
use fbc::graph::Entry;

const MIB: u32 = 1 << 20;

fn at<T>(blob: T, meta: u32) -> Located<T> {
    Located {
        blob,
        meta,
        file: 0,
        document: meta + 1,
        line: 1,
    }
}

fn span(length: u32) -> Span {
    Span { start: 0, length }
}

fn bundle(common: u32, manifests: Manifests, has_image: bool) -> (BundleBlob, BundleMessage) {
    let blob = BundleBlob {
        has_image,
        has_objects: !has_image,
        has_csv_metadata: true,
        csv: match manifests {
            Manifests::None => CsvSource::None,
            Manifests::Made { .. } => CsvSource::Metadata,
            Manifests::Objects { .. } => CsvSource::Object,
        },
        ..BundleBlob::default()
    };
    let common = span(common);
    (blob, BundleMessage { common, manifests })
}

fn objects(objects: u32, csv: u32) -> Manifests {
    Manifests::Objects {
        objects: span(objects),
        csv: Some(span(csv)),
    }
}

fn made(length: u32) -> Manifests {
    Manifests::Made {
        parts: CsvParts::put(
            &[],
            FIXED[0].len() as u64 + u64::from(length),
            &mut Vec::new(),
        ),
        described: false,
    }
}

/// The problems of a package whose bundles, the head first, are these.
fn found(bundles: Vec<(BundleBlob, BundleMessage)>, icon: u32) -> Vec<(Code, String)> {
    let mut blobs = Blobs::default();
    blobs.packages.push(at(
        PackageBlob {
            name: "foo".into(),
            default_channel: "beta".into(),
            ..PackageBlob::default()
        },
        0,
    ));
    let mut channel = ChannelBlob {
        name: "beta".into(),
        package: "foo".into(),
        ..ChannelBlob::default()
    };
    let count = bundles.len();
    let mut messages = Vec::new();
    for (meta, (number, (mut blob, message))) in (2..).zip(bundles.into_iter().enumerate()) {
        let name = |number: usize| format!("foo.v{}", count - number);
        blob.name = name(number);
        blob.package = "foo".into();
        blob.version = format!("{}.0.0", count - number);
        channel.entries.push(EntryBlob {
            name: blob.name.clone(),
            replaces: name(number + 1),
            ..EntryBlob::default()
        });
        blobs.bundles.push(at(blob, meta));
        messages.push(message);
    }
    blobs.channels.push(at(channel, 1));
    let paths = ["foo.json".to_owned()];
    let (graph, problems) = graph::build(&blobs, &paths);
    assert_eq!(problems, []);
    let ends = CsvEnds {
        plain: Span::default(),
        described: span(icon),
    };
    let problems = super::problems(&blobs, &graph, &messages, &[ends], &paths);
    for problem in &problems {
        assert_eq!(problem.severity, Severity::Warning);
        assert_eq!(problem.subject.package, "foo");
        assert_eq!(problem.subject.channel, "beta");
        assert!(problem.message.contains(&problem.subject.bundle));
        assert!(problem.position.is_some());
    }
    let told = |problem: Problem| (problem.code, problem.message);
    problems.into_iter().map(told).collect()
}

#[test]
fn messages_that_are_far_from_the_limit_are_no_problem() {
    assert_eq!(found(vec![bundle(1_000, made(1_000), true)], 1_000), []);
    let large = bundle(3 * MIB, objects(MIB / 8, MIB / 8), false);
    assert_eq!(found(vec![large], 0), []);
    // Nobody asks for fields that only `GetBundle` answers.
    let head = bundle(
        1_000,
        Manifests::Objects {
            objects: span(1),
            csv: Some(span(1)),
        },
        true,
    );
    assert_eq!(found(vec![head, bundle(1_000, made(4 * MIB), true)], 0), []);
}

#[test]
fn a_message_near_the_limit_is_told_of_once_a_package() {
    let near = || bundle(1_000, objects(2 * MIB, 7 * MIB / 4), false);
    let nearer = bundle(1_000, objects(2 * MIB, 15 * MIB / 8), false);
    assert_eq!(
        found(vec![near(), nearer, near()], 0),
        [(
            Code::BundleNearLimit,
            "package \"foo\": channel \"beta\": bundle \"foo.v2\" makes a ListBundles message of \
             3.87 MiB, and clients refuse 4 MiB; make its properties and manifests or the \
             package's icon smaller before they grow; so do 2 more bundles of the package"
                .to_owned()
        )]
    );
    // The text and the icon are there twice.
    let made = bundle(1_000, made(MIB), true);
    let problems = found(vec![made], MIB * 7 / 8);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, Code::BundleNearLimit);
    assert!(
        problems[0]
            .1
            .contains("makes a GetBundleForChannel message of 3.75 MiB")
    );
}

#[test]
fn a_head_that_clients_refuse_is_told_of_though_it_is_listed() {
    assert_eq!(
        found(vec![bundle(1_000, made(MIB), true)], MIB),
        [(
            Code::BundleTooLarge,
            "package \"foo\": channel \"beta\": bundle \"foo.v1\" makes a GetBundleForChannel \
             message of 4.00 MiB, and clients refuse 4 MiB: OLM's packageserver leaves out the \
             channel of which it is the head; make its manifests or the package's icon smaller"
                .to_owned()
        )]
    );
}

#[test]
fn what_list_bundles_cannot_show_is_told_of_each_bundle() {
    let old = |common, manifests| bundle(common, manifests, false);
    let problems = found(
        vec![
            bundle(1_000, made(1), true),
            old(1_000, objects(2 * MIB, 2 * MIB)),
            old(4 * MIB, objects(1, 1)),
        ],
        0,
    );
    let ends = ["leaves out its manifests", "leaves it out"];
    assert_eq!(problems.len(), ends.len());
    for ((code, message), end) in problems.iter().zip(ends) {
        assert_eq!(*code, Code::BundleTooLarge);
        assert!(message.contains(end), "{message}");
    }
}

#[test]
fn what_an_entry_adds_counts() {
    let (_, foo) = bundle(1_000, made(1), true);
    let entry = |length: usize| Entry {
        name: "foo.v1".into(),
        bundle: 0,
        replaces: String::new(),
        skips: vec!["x".repeat(length)],
        skip_range: String::new(),
    };
    let channel = Channel {
        name: "beta".into(),
        head: 0,
        entries: Vec::new(),
        deprecation: None,
    };
    let package = Package {
        name: "foo".into(),
        meta: 0,
        blob: 0,
        default_channel: 0,
        channels: Vec::new(),
        deprecation: None,
        deprecated_bundles: BTreeMap::new(),
    };
    let listing = |length| Listing::measured(true, &foo, &package, &channel, &entry(length)).0;
    assert_eq!(listing(1_000), Listing::Whole);
    assert_eq!(listing(4 << 20), Listing::Not);
}
