use proptest::prelude::*;

use super::*;
use crate::fbc::blob::{
    BundleBlob, ChannelBlob, Defect, DeprecationBlob, DeprecationsBlob, EntryBlob, Located,
    PackageBlob,
};
use crate::fbc::message::{BundleMessage, Manifests, Span};
use crate::fbc::problem::Severity;

fn at<T>(blob: T, meta: usize) -> Located<T> {
    Located {
        blob,
        meta: meta as u32,
        file: 0,
        document: meta as u32 + 1,
        line: meta as u32 * 10 + 1,
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
        message: BundleMessage {
            manifests: made(),
            ..BundleMessage::default()
        },
        ..BundleBlob::default()
    }
}

fn made() -> Manifests {
    Manifests::Made {
        parts: Box::default(),
        described: false,
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
        assert!(problem.place.is_some(), "{problem}");
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
    assert_eq!(problem.place.as_ref().unwrap().document, document);
    assert_eq!(graph.packages.len(), 1);
}

#[track_caller]
fn refused_with(blobs: &Blobs, code: Code, message: &str) {
    assert_eq!(refused(blobs, &[code])[0].message, message);
}

#[test]
fn a_package_in_order_is_in_the_graph() {
    let mut blobs = foo(&["b replaces a range <0.2.0", "a"]);
    blobs
        .channels
        .push(at(channel("foo", "alpha", &["a replaces old"]), 9));
    let blob = deprecations(
        "foo",
        &["olm.package - p", "olm.channel beta c", "olm.bundle a b"],
    );
    blobs.deprecations.push(at(blob, 10));
    let graph = accepted(&blobs);
    let entry = |name: &str, bundle, replaces: &str, skip_range: &str| Entry {
        name: name.to_owned(),
        bundle,
        replaces: replaces.to_owned(),
        skips: Vec::new(),
        skip_range: skip_range.to_owned(),
    };
    let foo = Package {
        name: String::from("foo"),
        meta: 0,
        blob: 0,
        default_channel: 1,
        channels: vec![
            Channel {
                name: String::from("alpha"),
                head: 0,
                entries: vec![entry("a", 1, "old", "")],
                deprecation: None,
            },
            Channel {
                name: String::from("beta"),
                head: 1,
                entries: vec![entry("a", 1, "", ""), entry("b", 0, "a", "<0.2.0")],
                deprecation: Some(String::from("c")),
            },
        ],
        deprecation: Some(String::from("p")),
        deprecated_bundles: BTreeMap::from([(1, String::from("b"))]),
    };
    assert_eq!(graph.packages, [foo]);
}

#[test]
fn no_blobs_make_an_empty_graph() {
    assert_eq!(accepted(&Blobs::default()), Graph::default());
}

#[test]
fn a_bad_package_does_not_touch_the_others() {
    let mut blobs = foo(&["a", "b"]);
    blobs.packages.push(at(package("bar", "x"), 8));
    blobs.channels.push(at(channel("bar", "x", &["a"]), 9));
    blobs.bundles.push(at(bundle("bar", "a", "0.0.0"), 10));
    let (graph, problems) = build(&blobs, &files());
    assert_eq!(problems.len(), 1);
    assert_eq!(graph.packages.len(), 1);
    assert_eq!(graph.packages[0].name, "bar");
    assert_eq!(graph.quarantined, ["foo"]);
}

#[test]
fn every_problem_is_reported_in_one_run() {
    let mut blobs = foo(&["a", "b", "c range ~1"]);
    blobs.packages[0].blob.default_channel.clear();
    blobs.bundles[0].blob.has_image = false;
    let gone = channel("foo", "gone", &["d", "e replaces d"]);
    blobs.channels.push(at(gone, 9));
    refused(
        &blobs,
        &[
            Code::DefaultChannelMissing,
            Code::SkipRangeInvalid,
            Code::ChannelMultipleHeads,
            Code::ChannelEntryWithoutBundle,
            Code::BundleImageMissing,
        ],
    );
}

#[test]
fn a_problem_says_where_and_what() {
    let (_, problems) = build(&foo(&["foo.v2", "foo.v1"]), &files());
    let [problem] = problems.as_slice() else {
        panic!("{problems:#?}");
    };
    assert_eq!(problem.subject.channel, "beta");
    assert_eq!(
        problem.to_string(),
        "foo/catalog.json:11 (document 2): error[channel-multiple-heads]: package \"foo\": \
         channel \"beta\" has several heads: \"foo.v1\", \"foo.v2\"; let one of them replace or \
         skip the others"
    );
}

#[test]
fn the_name_of_a_package_is_a_dns_label() {
    for (name, good) in [
        ("foo", true),
        ("0-a", true),
        (&"a".repeat(63) as &str, true),
        ("foo.bar", false),
        ("Foo", false),
        ("-foo", false),
        ("foo-", false),
        ("foo_bar", false),
        ("é", false),
        (&"a".repeat(64), false),
    ] {
        let mut blobs = Blobs::default();
        blobs.packages.push(at(package(name, "beta"), 0));
        blobs.channels.push(at(channel(name, "beta", &["a"]), 1));
        blobs.bundles.push(at(bundle(name, "a", "0.1.0"), 2));
        let (graph, problems) = build(&blobs, &files());
        assert_eq!(graph.packages.len(), usize::from(good), "{name}");
        if !good {
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].code, Code::PackageNameInvalid);
            assert_eq!(graph.quarantined, [name]);
        }
    }
}

#[test]
fn a_package_stands_once() {
    let mut blobs = foo(&["a"]);
    blobs.packages.push(at(package("foo", "beta"), 9));
    refused_with(
        &blobs,
        Code::PackageDuplicate,
        "package \"foo\" has more than one olm.package blob; keep one of them",
    );
}

#[test]
fn a_default_channel_is_set_and_there() {
    let mut blobs = foo(&["a"]);
    blobs.packages[0].blob.default_channel.clear();
    refused(&blobs, &[Code::DefaultChannelMissing]);
    blobs.packages[0].blob = package("foo", "gone");
    refused_with(
        &blobs,
        Code::DefaultChannelUnknown,
        "package \"foo\" does not have the channel \"gone\" that is its default; add it or name \
         another",
    );
}

#[test]
fn a_package_has_channels() {
    let mut blobs = foo(&["a"]);
    blobs.channels.clear();
    refused(
        &blobs,
        &[
            Code::PackageWithoutChannels,
            Code::DefaultChannelUnknown,
            Code::BundleNotInChannel,
        ],
    );
}

#[test]
fn blobs_of_an_unknown_package_are_an_error_of_that_package() {
    let mut blobs = foo(&["a"]);
    blobs.channels.push(at(channel("bar", "x", &["b"]), 9));
    blobs.bundles.push(at(bundle("bar", "b", "1.0.0"), 7));
    blobs.bundles.push(at(bundle("bar", "c", "1.0.1"), 8));
    let blob = deprecations("bar", &["olm.package - m"]);
    blobs.deprecations.push(at(blob, 10));
    let (graph, problems) = build(&blobs, &files());
    assert_eq!(graph.packages.len(), 1);
    assert_eq!(graph.quarantined, ["bar"]);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, Code::PackageUnknown);
    assert_eq!(problems[0].severity, Severity::Error);
    assert_eq!(problems[0].subject.package, "bar");
    assert_eq!(problems[0].subject.channel, "x");
    assert_eq!(
        problems[0].place.as_ref().map(|place| place.document),
        Some(10)
    );
    assert_eq!(
        problems[0].message,
        "package \"bar\": channel \"x\" and 3 more blobs name a package that has no olm.package \
         blob; add the blob or correct their \"package\""
    );
}

#[test]
fn the_first_blob_of_an_unknown_package_is_named() {
    let unknown = |fill: &dyn Fn(&mut Blobs)| {
        let mut blobs = Blobs::default();
        fill(&mut blobs);
        let (_, problems) = build(&blobs, &files());
        let [problem] = problems.as_slice() else {
            panic!("{problems:#?}");
        };
        assert_eq!(problem.code, Code::PackageUnknown);
        assert!(problem.place.is_some());
        (problem.subject.clone(), problem.message.clone())
    };
    let (subject, message) = unknown(&|blobs| {
        blobs.bundles.push(at(bundle("bar", "bar.v1", "1.0.0"), 1));
    });
    assert_eq!(subject.bundle, "bar.v1");
    assert_eq!(subject.channel, "");
    assert_eq!(
        message,
        "package \"bar\": bundle \"bar.v1\" names a package that has no olm.package blob; add the \
         blob or correct its \"package\""
    );
    let (subject, message) = unknown(&|blobs| {
        let blob = deprecations("bar", &["olm.package - m"]);
        blobs.deprecations.push(at(blob, 1));
    });
    assert_eq!(subject.schema, "olm.deprecations");
    assert_eq!(
        message,
        "package \"bar\": the deprecations name a package that has no olm.package blob; add the \
         blob or correct their \"package\""
    );
    let (subject, message) = unknown(&|blobs| {
        blobs.bundles.push(at(bundle("bar", "b", "1.0.0"), 1));
        blobs.channels.push(at(channel("bar", "x", &["b"]), 2));
    });
    assert_eq!(subject.channel, "x");
    assert!(message.contains("channel \"x\" and 1 more blob name a package"));
}

#[test]
fn a_bundle_is_told_of_once_with_the_first_channel_it_is_in() {
    let mut blobs = foo(&["b replaces a", "a"]);
    blobs.channels.push(at(channel("foo", "zeta", &["a"]), 8));
    blobs.channels.push(at(channel("foo", "alpha", &["b"]), 9));
    for located in &mut blobs.bundles {
        located.blob.has_image = false;
    }
    let image = Code::BundleImageMissing;
    let problems = refused(&blobs, &[image, image]);
    for (problem, channel, bundle) in [(&problems[0], "alpha", "b"), (&problems[1], "beta", "a")] {
        assert_eq!(problem.subject.channel, channel);
        assert_eq!(problem.subject.bundle, bundle);
        assert_eq!(
            problem.message,
            format!(
                "package \"foo\": channel {channel:?}: bundle {bundle:?} has neither an image nor \
                 objects; set its \"image\""
            )
        );
    }
}

#[test]
fn blobs_without_a_package_are_errors() {
    let mut blobs = foo(&["a"]);
    blobs.packages.push(at(package("", "x"), 6));
    blobs.channels.push(at(channel("", "x", &["b"]), 7));
    blobs.bundles.push(at(bundle("", "b", "1.0.0"), 8));
    blobs.deprecations.push(at(deprecations("", &[]), 9));
    let (graph, problems) = build(&blobs, &files());
    assert_eq!(graph.packages.len(), 1);
    assert_eq!(graph.quarantined, [""; 0]);
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "foo/catalog.json:61 (document 7): error[package-name-missing]: an olm.package blob \
             has no name; give it one",
            "foo/catalog.json:71 (document 8): error[package-unknown]: channel \"x\" names no \
             package; set its \"package\"",
            "foo/catalog.json:81 (document 9): error[bundle-package-missing]: bundle \"b\" names \
             no package; set its \"package\"",
            "foo/catalog.json:91 (document 10): error[deprecation-invalid]: the deprecations name \
             no package; set their \"package\"",
        ]
    );
}

#[test]
fn the_defects_of_a_blob_become_problems_of_its_package() {
    let mut blobs = foo(&["a"]);
    blobs.bundles[0].blob.defects.push(Defect {
        code: Code::VersionInvalid,
        message: "has no version".into(),
    });
    let problems = refused(&blobs, &[Code::VersionInvalid]);
    assert_eq!(
        problems[0].message,
        "package \"foo\": channel \"beta\": bundle \"a\" has no version"
    );
    assert_eq!(problems[0].subject.bundle, "a");
    assert_eq!(problems[0].place.as_ref().map(|place| place.line), Some(21));
}

#[test]
fn a_channel_has_a_name_of_its_own() {
    let mut blobs = foo(&["a"]);
    blobs.channels.push(at(channel("foo", "", &["a"]), 9));
    refused_with(
        &blobs,
        Code::ChannelNameMissing,
        "package \"foo\": a channel has no name; give it one",
    );
    blobs.channels[1].blob = channel("foo", "beta", &["a"]);
    refused(&blobs, &[Code::ChannelDuplicate]);
    blobs.channels[1].blob = channel("foo", "a/b", &["a"]);
    accepted(&blobs);
}

#[test]
fn a_channel_has_entries_of_different_names() {
    let mut blobs = foo(&["a"]);
    blobs.channels.push(at(channel("foo", "empty", &[]), 9));
    refused(&blobs, &[Code::ChannelEmpty]);
    blobs.channels[1].blob = channel("foo", "twice", &["a", "a", "a"]);
    refused_with(
        &blobs,
        Code::ChannelEntryDuplicate,
        "package \"foo\": channel \"twice\": entry \"a\" stands more than once; keep one of them",
    );
}

#[test]
fn entries_have_bundles_in_every_channel() {
    let mut blobs = foo(&["b replaces a", "a"]);
    blobs.bundles.pop();
    // Also when it is not the last channel that lacks one.
    blobs.channels.push(at(channel("foo", "x", &["b"]), 9));
    refused_with(
        &blobs,
        Code::ChannelEntryWithoutBundle,
        "package \"foo\": channel \"beta\" has entries without an olm.bundle blob: \"a\"; add \
         the blobs or remove the entries",
    );
}

#[test]
fn a_skip_has_a_name_that_need_not_be_there() {
    accepted(&foo(&["b replaces a skips gone", "a"]));
    refused(
        &foo(&["b replaces a skips c,", "a"]),
        &[Code::BlobMalformed],
    );
}

#[test]
fn a_skip_range_is_a_range() {
    for good in ["!0.1.1", "==0.1.0", "<0.1.0 || >=0.1.5", ">=0.0.1 <0.2.0"] {
        accepted(&foo(&[&format!("a range {good}")]));
    }
    for bad in [">=0.1", "~0.1", "<v0.2.0", ">=0.1.0, <0.2.0"] {
        let entry = format!("a range {bad}");
        let problems = refused(&foo(&[&entry]), &[Code::SkipRangeInvalid]);
        assert_eq!(problems[0].subject.channel, "beta");
        assert_eq!(problems[0].subject.bundle, "a");
    }
}

#[test]
fn a_channel_has_one_head() {
    accepted(&foo(&["a"]));
    accepted(&foo(&["b skips a", "a"]));
    accepted(&foo(&["b replaces a skips a", "a"]));
    refused(&foo(&["b", "a"]), &[Code::ChannelMultipleHeads]);
    for headless in [&["a replaces a"] as &[&str], &["a replaces b", "b skips a"]] {
        refused(&foo(headless), &[Code::ChannelNoHead]);
    }
}

#[test]
fn replaces_do_not_turn_in_circles() {
    refused_with(
        &foo(&["c replaces b", "b replaces a", "a replaces b"]),
        Code::ChannelCycle,
        "package \"foo\": channel \"beta\" has a cycle of replaces: \"b\" -> \"a\" -> \"b\"; let \
         one of them replace an older entry or none",
    );
    // A circle behind a skipped entry is never walked.
    accepted(&foo(&[
        "c replaces b skips b,a",
        "b replaces a",
        "a replaces b",
    ]));
}

#[test]
fn every_entry_is_on_the_chain_or_skipped() {
    accepted(&foo(&["c replaces a skips b", "b replaces a", "a"]));
    accepted(&foo(&["c replaces a skips b,a", "b replaces a", "a"]));
    refused_with(
        &foo(&["d replaces c", "c skips b", "b replaces a", "a"]),
        Code::ChannelStranded,
        "package \"foo\": channel \"beta\" has entries that its head \"d\" does not lead to: \
         \"a\"; let an entry of the chain replace or skip them",
    );
}

#[test]
fn only_the_tail_replaces_what_is_absent_without_a_warning() {
    accepted(&foo(&["b replaces a", "a replaces gone"]));
    let blobs = foo(&["c replaces a skips b", "b replaces gone", "a replaces gone"]);
    let (graph, problems) = build(&blobs, &files());
    assert_eq!(graph.packages.len(), 1);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, Code::ReplacesAbsent);
    assert_eq!(problems[0].severity, Severity::Warning);
    assert_eq!(
        problems[0].message,
        "package \"foo\": channel \"beta\" has entries that replace one which it does not have: \
         \"b\"; add what they replace or remove their \"replaces\""
    );
}

#[test]
fn a_bundle_has_a_name_of_its_own_and_a_channel() {
    let mut blobs = foo(&["a"]);
    blobs.bundles.push(at(bundle("foo", "", "1.0.0"), 9));
    refused(&blobs, &[Code::BundleNameMissing]);
    blobs.bundles[1].blob = bundle("foo", "b", "1.0.0");
    refused(&blobs, &[Code::BundleNotInChannel]);
    blobs.bundles[1].blob = bundle("foo", "a", "1.0.0");
    refused(&blobs, &[Code::BundleDuplicate]);
    blobs.channels[0].blob = channel("foo", "beta", &["a", "b v1 replaces a"]);
    blobs.bundles[1].blob = bundle("foo", "b v1", "1.0.0");
    accepted(&blobs);
}

#[test]
fn a_bundle_has_an_image_or_objects() {
    let mut blobs = foo(&["a"]);
    blobs.bundles[0].blob.has_image = false;
    refused(&blobs, &[Code::BundleImageMissing]);
    blobs.bundles[0].blob.has_objects = true;
    accepted(&blobs);
}

#[test]
fn a_malformed_bundle_is_not_blamed_for_what_it_lost() {
    let mut blobs = foo(&["a"]);
    blobs.bundles[0].blob.has_image = false;
    blobs.bundles[0].blob.defects.push(Defect {
        code: Code::BlobMalformed,
        message: "is malformed".into(),
    });
    refused(&blobs, &[Code::BlobMalformed]);
}

#[test]
fn a_version_stands_once_in_a_package() {
    let mut blobs = foo(&["bb replaces a", "a"]);
    for bundle in &mut blobs.bundles {
        bundle.blob.version = String::from("0.1.0");
    }
    refused_with(
        &blobs,
        Code::VersionDuplicate,
        "package \"foo\" has version \"0.1.0\" more than once, in the bundles \"a\", \"bb\"; give \
         each its own",
    );
    blobs.bundles[0].blob.version = String::from("0.1.0+1");
    accepted(&blobs);
}

#[test]
fn a_release_is_in_the_name_of_its_bundle() {
    let mut blobs = foo(&["foo-v0.0.0-1 replaces foo-v0.0.0-2", "foo-v0.0.0-2"]);
    for (bundle, release) in blobs.bundles.iter_mut().zip(["1", "2"]) {
        bundle.blob.version = String::from("0.0.0");
        bundle.blob.release = release.to_owned();
    }
    accepted(&blobs);
    blobs.bundles[1].blob.release = String::from("3");
    refused_with(
        &blobs,
        Code::ReleaseNameMismatch,
        "package \"foo\": channel \"beta\": bundle \"foo-v0.0.0-2\" does not have the name that its \
         version and release ask for; name it \"foo-v0.0.0-3\"",
    );
}

#[test]
fn a_release_can_be_read_and_excludes_a_build() {
    let mut blobs = foo(&["foo-v0.0.0+b-1"]);
    blobs.bundles[0].blob.version = String::from("0.0.0+b");
    blobs.bundles[0].blob.release = String::from("1");
    refused(&blobs, &[Code::VersionInvalid]);
    blobs.bundles[0].blob.version = String::from("0.0.0");
    blobs.bundles[0].blob.release = String::from("01");
    refused(&blobs, &[Code::VersionInvalid]);
}

#[test]
fn deprecations_say_what_and_why_once() {
    for (entries, code, message) in [
        (
            &["- - m"] as &[&str],
            Code::DeprecationInvalid,
            "in entries[0] do not say what they deprecate; set the reference's \"schema\"",
        ),
        (
            &["x.y n m"],
            Code::DeprecationInvalid,
            "in entries[0] have a reference with schema \"x.y\", which cannot be deprecated; use \
             olm.package, olm.channel or olm.bundle",
        ),
        (
            &["olm.package foo m"],
            Code::DeprecationInvalid,
            "in entries[0] name the package as \"foo\"; leave the name of an olm.package away",
        ),
        (
            &["olm.package - -"],
            Code::DeprecationInvalid,
            "have no message in entries[0]; say why",
        ),
        (
            &["olm.channel gone m"],
            Code::DeprecationUnknown,
            "in entries[0] name the channel \"gone\", which the package does not have; correct \
             the name or remove them",
        ),
        (
            &["olm.bundle gone m"],
            Code::DeprecationUnknown,
            "in entries[0] name the bundle \"gone\", which the package does not have; correct \
             the name or remove them",
        ),
        (
            &["olm.bundle a m", "olm.bundle a n"],
            Code::DeprecationDuplicate,
            "name olm.bundle \"a\" more than once; keep one of them",
        ),
    ] {
        let mut blobs = foo(&["a"]);
        blobs.deprecations.push(at(deprecations("foo", entries), 9));
        let problems = refused(&blobs, &[code]);
        assert_eq!(
            problems[0].message,
            format!("package \"foo\": the deprecations {message}")
        );
        assert_eq!(problems[0].subject.schema, "olm.deprecations");
    }
}

#[test]
fn deprecations_stand_in_one_blob() {
    let mut blobs = foo(&["a"]);
    for entry in ["olm.package - m", "olm.bundle a m"] {
        blobs
            .deprecations
            .push(at(deprecations("foo", &[entry]), 9));
    }
    refused(&blobs, &[Code::DeprecationDuplicate]);
}

#[test]
fn deprecations_deprecate_something() {
    let mut blobs = foo(&["a"]);
    blobs.deprecations.push(at(deprecations("foo", &[]), 9));
    warned(
        &blobs,
        Code::DeprecationWithoutEffect,
        10,
        "package \"foo\": the deprecations have no entries, so they deprecate nothing; add entries \
         or remove the blob",
    );
    blobs.deprecations[0].blob = deprecations("foo", &["olm.package - m"]);
    accepted(&blobs);
}

fn without_metadata(bundle: &mut BundleBlob) {
    bundle.has_csv_metadata = false;
    bundle.message.manifests = Manifests::None;
}

fn with_objects(bundle: &mut BundleBlob, csv: Option<Span>) {
    bundle.has_csv_metadata = false;
    bundle.has_objects = true;
    bundle.message.manifests = Manifests::Objects {
        objects: Span::default(),
        csv,
    };
}

#[test]
fn a_package_without_csv_metadata_is_not_seen() {
    let code = Code::BundleWithoutCsvMetadata;
    let mut blobs = foo(&["b replaces a", "a"]);
    // An old bundle without is nothing to warn of.
    without_metadata(&mut blobs.bundles[1].blob);
    accepted(&blobs);
    with_objects(&mut blobs.bundles[0].blob, Some(Span::default()));
    warned(
        &blobs,
        code,
        1,
        "package \"foo\" has no olm.csv.metadata property in any of its 2 bundles, such as \"a\", \
         so the OpenShift console does not show it with OLM v1; add the property, to the newest \
         bundle at least",
    );
    let mut blobs = foo(&["a"]);
    with_objects(&mut blobs.bundles[0].blob, None);
    warned(
        &blobs,
        code,
        1,
        "package \"foo\" has no olm.csv.metadata property in its bundle \"a\", so the OpenShift \
         console does not show it with OLM v1, and OLM's packageserver leaves out channels whose \
         heads have no ClusterServiceVersion either: \"beta\"; add the property, to the newest \
         bundle at least",
    );
}

#[test]
fn a_head_without_a_csv_hides_its_channel() {
    let mut blobs = foo(&["b replaces a", "a"]);
    blobs.channels.push(at(channel("foo", "alpha", &["a"]), 9));
    without_metadata(&mut blobs.bundles[1].blob);
    warned(
        &blobs,
        Code::BundleWithoutCsvMetadata,
        1,
        "package \"foo\" has channels that OLM's packageserver leaves out, since their heads have \
         neither one olm.csv.metadata property nor a ClusterServiceVersion among their objects: \
         \"alpha\"; add the property to these heads",
    );
}

#[test]
fn a_damaged_bundle_is_not_blamed_for_its_manifests() {
    let mut blobs = foo(&["a"]);
    without_metadata(&mut blobs.bundles[0].blob);
    blobs.bundles[0].blob.defects.push(Defect {
        code: Code::PropertyInvalid,
        message: "is damaged".into(),
    });
    refused(&blobs, &[Code::PropertyInvalid]);
}

#[test]
fn a_csv_that_crashes_packageserver_is_told_of_once_a_package() {
    let code = Code::CsvCrashesPackageserver;
    let mut blobs = foo(&["c replaces b", "b replaces a", "a"]);
    blobs.bundles[1].blob.crashes_packageserver = true;
    warned(
        &blobs,
        code,
        4,
        "package \"foo\": channel \"beta\": bundle \"b\" has a ClusterServiceVersion that crashes \
         OLM's packageserver when it is the head of a channel, for it has related images without \
         the install strategy \"deployment\"; set spec.install.strategy",
    );
    blobs.bundles[0].blob.crashes_packageserver = true;
    blobs.bundles[2].blob.crashes_packageserver = true;
    warned(
        &blobs,
        code,
        3,
        "package \"foo\": channel \"beta\": bundle \"c\" has a ClusterServiceVersion that crashes \
         OLM's packageserver, for it has related images without the install strategy \
         \"deployment\"; set spec.install.strategy, and in 2 more bundles of the package",
    );
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

#[test]
fn long_chains_take_linear_time() {
    let entries: Vec<String> = (0..50_000)
        .map(|number| format!("e{} replaces e{number}", number + 1))
        .collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let begin = std::time::Instant::now();
    let graph = accepted(&foo(&entries));
    assert_eq!(graph.packages[0].channels[0].entries.len(), 50_000);
    assert!(begin.elapsed() < std::time::Duration::from_secs(10));
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
