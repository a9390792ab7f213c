//! The meaning of files, and the problems of files without one.

mod documents;

use crate::object::MAX_LIST;
use crate::read::output::MAX_PROBLEMS;
use crate::read::*;

fn read(content: &[u8], target: usize) -> Output {
    let mut out = Output::default();
    let mut reader = Reader::default();
    for step in [1, 7, content.len().max(1)] {
        let all: Vec<Piece> = pieces(content, target).collect();
        assert_eq!(
            arriving(content, target, step),
            all,
            "{step} bytes at a time"
        );
    }
    for piece in pieces(content, target) {
        reader.read(&piece, &content[piece.range.clone()], 0, &mut out, &mut ());
    }
    out
}

/// The pieces of a file of which so many bytes arrive at a time.
fn arriving(content: &[u8], target: usize, step: usize) -> Vec<Piece> {
    let (mut cutter, mut cut, mut start) = (Cutter::new(target), Vec::new(), 0);
    let mut take = |start: &mut usize, piece: Piece| {
        let range = *start + piece.range.start..*start + piece.range.end;
        *start = range.end;
        cut.push(Piece { range, ..piece });
    };
    for end in (0..=content.len()).step_by(step) {
        while let Some(piece) = cutter.next(&content[start..end]) {
            take(&mut start, piece);
        }
    }
    loop {
        let piece = cutter.last(&content[start..]);
        take(&mut start, piece);
        if start == content.len() {
            return cut;
        }
    }
}

fn findings(out: &Output) -> Vec<(Code, u32)> {
    let found = out.problems.iter();
    found
        .map(|(spot, problem)| (problem.code, spot.line))
        .collect()
}

fn schemas(out: &Output) -> Vec<&str> {
    out.metas.iter().map(Meta::schema).collect()
}

#[test]
fn a_file_that_begins_like_json_may_be_yaml() {
    for (content, wanted) in [
        ("{schema: x, name: b}", &["x"][..]),
        ("{'schema':'x'}", &["x"]),
        ("{\"schema\":\"x\",}", &["x"]),
        ("{\"schema\":\"x\", # c\n\"name\":\"y\"}", &["x"]),
        ("{\"schema\":\"x\"}\n{schema: b}", &["x", "b"]),
        (
            "{\"schema\":\"x\"}\nschema: b\n---\n{schema: c}",
            &["x", "b", "c"],
        ),
        // The indentation of the first line counts only from its begin.
        ("{\"schema\":\"x\"} schema: b\nname: z\n", &["x", "b"]),
        ("{\"schema\":\"x\"} \n  schema: b\n  name: z\n", &["x", "b"]),
        ("{\"schema\":\"x\"}\n# c\nschema: b", &["x", "b"]),
        ("{\"schema\":\"x\"}\n---\n{\"schema\":\"b\"}\n", &["x", "b"]),
        (
            "{\"schema\":\"x\"}\n{\"schema\":\"y\"}\n{\"schema\":\"z\"}",
            &["x", "y", "z"],
        ),
    ] {
        for target in [1, 1000] {
            let out = read(content.as_bytes(), target);
            assert_eq!(out.problems, [], "{content:?}");
            assert_eq!(schemas(&out), wanted, "{content:?}");
        }
    }
}

#[test]
fn a_file_of_two_json_objects_is_json_to_its_end() {
    let two = "{\"schema\":\"x\"}\n{\"schema\":\"y\"}\n";
    for (rest, column, message) in [
        ("---\nschema: z\n", 1, "`---` cannot stand"),
        (" {schema: z}\n", 3, "'s' stands where a key"),
        ("# c\n", 1, "'#' stands where a JSON value"),
    ] {
        for target in [1, 1000] {
            let out = read(format!("{two}{rest}").as_bytes(), target);
            assert_eq!(schemas(&out), ["x", "y"]);
            let [(spot, problem)] = &out.problems[..] else {
                panic!("{:?}", out.problems);
            };
            assert_eq!((problem.code, spot.line), (Code::FileUnreadable, 3));
            assert_eq!(spot.column, Some(column));
            assert!(problem.message.contains(message), "{}", problem.message);
        }
    }
}

#[test]
fn what_is_neither_json_nor_yaml_is_told_of_as_json() {
    for (content, line, column, message) in [
        (
            "{\"schema\":\"x\"",
            1,
            14,
            "JSON: the text ends where ',' or '}'",
        ),
        (
            "{\"schema\":\n \"x\n\n\n",
            2,
            4,
            "JSON: a control character",
        ),
        (
            "{\"schema\":\n",
            1,
            11,
            "JSON: the text ends where a JSON value",
        ),
        ("{\"é\":\"1\" \"x\"}", 1, 10, "JSON: '\"' stands where ','"),
        (
            "{\"schema\":\"x\"}\n\n x\n",
            3,
            2,
            "JSON: 'x' stands where a JSON value",
        ),
        // Behind a separator it is YAML.
        (
            "{\"schema\":\"x\"}\n---\na: 1\nb: 'c\n",
            4,
            4,
            "YAML: found unexpected end",
        ),
        (
            "{\"schema\":\"x\"}\ny: z: 1\n---\na: b: c\n",
            2,
            1,
            "JSON: 'y' stands",
        ),
    ] {
        let out = read(content.as_bytes(), 1000);
        let (spot, problem) = &out.problems[0];
        assert_eq!(
            (spot.line, spot.column),
            (line, Some(column)),
            "{content:?}"
        );
        let message = format!("this is not {message}");
        assert!(problem.message.starts_with(&message), "{}", problem.message);
    }
}

#[test]
fn the_place_of_a_document_is_where_its_text_begins() {
    for (content, line) in [
        ("---\nname: b", 2),
        ("# c\n\nname: b", 3),
        ("{\"schema\":\"x\"}\n---\n# c\n\nname: b", 5),
        ("{\"schema\":\"x\"}\n\n\nname: b", 4),
        ("schema: x\n--- # d\nname: b", 3),
    ] {
        let out = read(content.as_bytes(), 1000);
        assert_eq!(findings(&out), [(Code::SchemaMissing, line)], "{content:?}");
    }
    let out = read(b"schema: x\n---\n# c\n--- # d\nname: b", 1000);
    assert_eq!(
        findings(&out),
        [(Code::DocumentEmpty, 3), (Code::SchemaMissing, 5)]
    );
    let out = read(b"---\n# c\n\na: b\nc: \"d\n", 1000);
    assert_eq!(findings(&out), [(Code::FileUnreadable, 5)]);
}

#[test]
fn what_stands_behind_the_end_of_a_document_is_warned_of() {
    for (content, line) in [
        ("---\n{\"schema\":\"x\"}\n{\"schema\":\"y\"}", 3),
        ("schema: x\n...\nschema: z", 3),
        ("---\nschema: x\n...\n\n{a: b}\n---\nschema: x\n", 5),
        ("{schema: x}\n{\"schema\":\"y\"}", 2),
    ] {
        let out = read(content.as_bytes(), 1000);
        assert_eq!(
            findings(&out),
            [(Code::DocumentIgnored, line)],
            "{content:?}"
        );
        assert_eq!(out.problems[0].1.severity, Severity::Warning);
        assert_eq!(schemas(&out)[0], "x");
    }
}

#[test]
fn a_document_without_content_is_an_error_wherever_it_stands() {
    for (content, lines) in [
        ("# c\n---\nschema: x\n", &[1][..]),
        ("---\n# c\n---\nschema: x\n", &[1]),
        ("schema: x\n---\n# c\n--- # d\nschema: x\n", &[3]),
        ("schema: x\n---\n# c\n", &[3]),
        ("schema: x\n---\n\n", &[3]),
        ("schema: x\n---\n---\n", &[3]),
        ("schema: x\n---\n\n---\n# c\n---\nschema: x\n", &[3, 5]),
        ("{\"schema\":\"x\"}\n# c\n", &[2]),
        ("{\"schema\":\"x\"}\n---\n", &[2]),
        ("---\n---\nschema: x\n", &[1]),
        ("schema: x\n---\n---\n---\nschema: x\n", &[3]),
        ("# c\n", &[1]),
        ("\n", &[1]),
        // Of these opm makes no document.
        ("", &[]),
        ("schema: x\n---\n", &[]),
        ("schema: x\n---\n---\nschema: x\n", &[]),
        ("# c\nschema: x\n", &[]),
        ("--- # c\n# d\n\nschema: x\n# e\n", &[]),
        ("schema: x\n--- # c\n", &[]),
        ("{\"schema\":\"x\"}\n\n", &[]),
    ] {
        for target in [1, 1000] {
            let out = read(content.as_bytes(), target);
            let wanted: Vec<_> = lines
                .iter()
                .map(|line| (Code::DocumentEmpty, *line))
                .collect();
            assert_eq!(findings(&out), wanted, "{content:?}");
            let severities = out.problems.iter().map(|(_, problem)| problem.severity);
            assert!(severities.into_iter().all(|one| one == Severity::Error));
            assert!(!out.blobs.incomplete, "{content:?}");
            assert_eq!(schemas(&out).len(), content.matches("schema").count());
        }
    }
    let out = read(b"# c\n---\nschema: x\n---\nname: x\n", 1000);
    let numbers: Vec<_> = out.problems.iter().map(|(spot, _)| spot.document).collect();
    assert_eq!(numbers, [0, 2], "it counts as a document of its file");
}

#[test]
fn a_file_without_content_is_one_problem_that_says_to_remove_the_file() {
    for (content, is_file) in [
        ("# Copyright 2024\n# SPDX: x\n", true),
        ("\n", true),
        ("# c\n---\n# d\n---\n\n", true),
        ("# c\n---\nschema: x\n", false),
        ("schema: x\n---\n# c\n", false),
        ("{\"schema\":\"x\"}\n# c\n", false),
        // Something stands in it that is not read.
        ("---\n...\nschema: x\n", false),
    ] {
        let out = read(content.as_bytes(), 1000);
        let empty = out.problems.iter();
        let empty: Vec<_> = empty
            .filter(|(_, problem)| problem.code == Code::DocumentEmpty)
            .collect();
        assert_eq!(empty.len(), 1, "{content:?}: {empty:?}");
        if is_file {
            assert_eq!(
                (empty[0].0.document, empty[0].0.line),
                (0, 1),
                "{content:?}"
            );
        }
        let message = &empty[0].1.message;
        let said = [".indexignore", "neighbour"].map(|word| message.contains(word));
        assert_eq!(said, [is_file, !is_file], "{content:?}: {message}");
    }
}

#[test]
fn a_key_that_stands_twice_is_warned_of_and_the_last_one_counts() {
    let yaml =
        "---\nschema: olm.channel\npackage: a\nname: b\nentries:\n- name: c\nentries:\n- name: d\n";
    let json = "{\"schema\":\"olm.channel\",\"package\":\"a\",\n\"entries\":[{\"name\":\"c\"}],\n\
                \"name\":\"b\", \"entries\":[{\"name\":\"d\"}]}\n";
    let before = "{\"schema\":\"x\"}\n{\"schema\":\"x\"}\n";
    for (content, place, above) in [
        (yaml.to_owned(), (0, 7, Some(1)), 2),
        (format!("schema: x\n{yaml}"), (1, 8, Some(1)), 2),
        (json.to_owned(), (0, 3, Some(13)), 1),
        (format!("{before}{json}"), (2, 5, Some(13)), 1),
    ] {
        for target in [1, 1000] {
            let out = read(content.as_bytes(), target);
            let [(spot, problem)] = &out.problems[..] else {
                panic!("{content}: {:?}", out.problems);
            };
            let found = (problem.code, problem.severity);
            assert_eq!(found, (Code::DocumentRepeatedKey, Severity::Warning));
            assert_eq!((spot.document, spot.line, spot.column), place, "{content}");
            let first = format!("\"entries\" stands in line {}", spot.line - above);
            assert!(problem.message.contains(&first), "{}", problem.message);
            let entries = &out.blobs.channels[0].blob.entries;
            assert_eq!((entries.len(), entries[0].name.as_str()), (1, "d"));
        }
    }
    // Each in its own object, or merged from elsewhere.
    for good in [
        "schema: x\na: {b: 1}\nc: {b: 2}\n",
        "schema: x\na: &a {b: 1}\nc:\n  <<: *a\n  b: 2\n",
        "{\"schema\":\"x\",\"a\":{\"b\":1},\"c\":[{\"b\":1},{\"b\":1}]}",
    ] {
        assert_eq!(read(good.as_bytes(), 1000).problems, [], "{good}");
    }
    let many = format!("schema: x\n{}", "a: 1\n".repeat(100));
    assert_eq!(read(many.as_bytes(), 1000).problems.len(), MAX_REPEATED);
}

#[test]
fn a_file_means_the_same_in_one_piece_or_many() {
    let json = "{\"schema\":\"a\",\n \"name\":\"}\\n{\"}\n{\"schema\":\"b\"}\n\n{\"schema\":\"c\"} {\"schema\":\"d\"}\n{\"schema\":\"e\"}\n";
    let yaml =
        "---\nschema: a\n---\nschema: b\nname: |\n  }\n  {\n---\n# nothing\n---\nschema: c\n";
    for (content, wanted) in [(json, vec![]), (yaml, vec![(Code::DocumentEmpty, 9)])] {
        let whole = read(content.as_bytes(), usize::MAX / 2);
        assert_eq!(findings(&whole), wanted);
        for target in 1..content.len() {
            let parts = read(content.as_bytes(), target);
            assert_eq!(parts.problems, whole.problems);
            assert_eq!(parts.lines, whole.lines);
            assert_eq!(parts.metas, whole.metas);
        }
    }
    assert!(pieces(json.as_bytes(), 1).count() > 2);
    assert!(pieces(yaml.as_bytes(), 1).count() > 2);
}

#[test]
fn a_file_is_not_cut_like_json_where_it_is_yaml() {
    for content in [
        "{\"schema\":\"a\"}\n---\nschema: b\nname: \"x }\n{ y\"\n",
        "{schema: a, name: \"x }\n{ y\"}\n---\nschema: b\n",
        "{\"schema\":\"a\"}\n{schema: b}\n---\n{schema: c,\n name: \"}\n{\"}\n",
    ] {
        let whole = read(content.as_bytes(), usize::MAX / 2);
        assert_eq!(whole.problems, []);
        for target in 1..content.len() {
            let parts = read(content.as_bytes(), target);
            assert_eq!(parts.problems, whole.problems);
            assert_eq!(parts.lines, whole.lines);
        }
    }
}

#[test]
fn a_problem_names_its_line_in_the_file() {
    for (content, code, line) in [
        (
            "{\"schema\":\"a\"}\n{\"schema\":\n\"b\"x}\n",
            Code::FileUnreadable,
            3,
        ),
        (
            "{\"schema\":\"a\"}\n\n{\"name\":\"b\"}\n",
            Code::SchemaMissing,
            3,
        ),
        ("schema: a\n---\nname: b\n", Code::SchemaMissing, 3),
        ("schema: a\n---\nname: [b\n", Code::FileUnreadable, 3),
        ("schema: a\n---\n- b\n", Code::DocumentNotObject, 3),
        ("{\"schema\":1}", Code::DocumentKeyNotString, 1),
        (
            "{\"schema\":\"a\",\"Schema\":\"b\"}",
            Code::DocumentDuplicateKey,
            1,
        ),
    ] {
        for target in [1, 1000] {
            let out = read(content.as_bytes(), target);
            assert_eq!(
                findings(&out),
                [(code, line)],
                "{content:?}: {:?}",
                out.problems
            );
        }
    }
}

#[test]
fn a_flood_of_findings_keeps_its_worst() {
    let warned = "{\"schema\":\"olm.x\"}\n".repeat(MAX_PROBLEMS + 5);
    for (content, severity) in [
        (warned.clone(), Severity::Warning),
        (warned + "{}\n{\"schema\":\"olm.x\"}", Severity::Fatal),
    ] {
        let out = read(content.as_bytes(), usize::MAX / 2);
        assert_eq!(out.problems.len(), MAX_PROBLEMS + 1);
        let (spot, last) = out.problems.last().unwrap();
        assert_eq!(
            (last.code, last.severity, spot.line),
            (Code::ProblemsOmitted, severity, 1001)
        );
    }
}

#[test]
fn lists_that_say_nothing_take_no_memory() {
    let list = |count: usize| vec!["{}"; count].join(",");
    for (schema, count, defects) in [
        ("olm.channel", 5, 0),
        ("olm.channel", MAX_LIST, 0),
        ("olm.channel", MAX_LIST + 1, 1),
        ("olm.deprecations", MAX_LIST + 5, 1),
    ] {
        let entries = list(count);
        let content = format!("{{\"schema\":\"{schema}\",\"entries\":[{entries}]}}");
        let blobs = read(content.as_bytes(), usize::MAX / 2).blobs;
        let found = match (&blobs.channels[..], &blobs.deprecations[..]) {
            ([one], []) => (one.blob.entries.len(), one.blob.defects.len()),
            ([], [one]) => (one.blob.entries.len(), one.blob.defects.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, (1, defects), "{schema} {count}");
    }
}
