//! Channels, their entries and chains.

use crate::graph::tests::*;

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
         \"b\" (which replaces the absent \"gone\"); add what they replace or remove their \
         \"replaces\""
    );
}

#[test]
fn heads_and_stranded_entries_are_named_with_what_they_replace_in_vain() {
    refused_with(
        &foo(&["c replaces gone", "b replaces a", "a replaces lost"]),
        Code::ChannelMultipleHeads,
        "package \"foo\": channel \"beta\" has several heads: \"b\", \"c\" (which replaces the \
         absent \"gone\"); let one of them replace or skip the others",
    );
    refused_with(
        &foo(&[
            "d replaces c",
            "c skips b",
            "b replaces a",
            "a replaces gone",
        ]),
        Code::ChannelStranded,
        "package \"foo\": channel \"beta\" has entries that its head \"d\" does not lead to: \
         \"a\" (which replaces the absent \"gone\"); let an entry of the chain replace or skip them",
    );
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
