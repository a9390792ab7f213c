//! Packages, and how problems are told of them.

use std::collections::BTreeMap;

use crate::graph::tests::*;

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
        problems[0]
            .position
            .as_ref()
            .map(|position| position.document),
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
        assert!(problem.position.is_some());
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
    assert_eq!(
        problems[0].position.as_ref().map(|position| position.line),
        Some(21)
    );
}
