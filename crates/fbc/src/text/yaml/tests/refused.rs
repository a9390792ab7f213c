//! Texts that are no YAML, and the places that their messages name.

use crate::text::yaml::tests::*;

#[test]
fn what_is_not_ended_is_refused_where_it_begins() {
    let quoted = "found unexpected end of stream while scanning a quoted scalar";
    let key = "could not find expected ':' while scanning a simple key";
    let list = "did not find expected ',' or ']' while parsing a flow sequence";
    let map = "did not find expected ',' or '}' while parsing a flow mapping";
    for (yaml, place, message) in [
        ("a: \"x\n", (1, 4), quoted),
        ("a: 'x", (1, 4), quoted),
        ("a: 1\nb: \"x\nc: 2\n\nd: 3\n", (2, 4), quoted),
        ("schema: \"olm.package", (1, 9), quoted),
        ("a: 1\nb\n", (2, 1), key),
        ("a: 1\nb c\nd: 2\n", (2, 1), key),
        ("a: 1\nb: [x\n", (2, 4), list),
        ("a: 1\nb: [x\n\n# c\n", (2, 4), list),
        ("a: [1, 2\nb: 3\n", (1, 4), list),
        ("a:\n- b: {c\n- d: 1\n", (2, 6), map),
        ("{\"a\": 1,\n\"b\": 2\n", (1, 1), map),
        // These are ended, so what is wrong is within.
        ("a: [\n  b\n  c: d\n  ]\n", (3, 4), list),
        ("{\n\"a\": 1\n\"b\": 2\n}\n", (3, 4), map),
    ] {
        let error = convert(yaml).unwrap_err();
        let found = (error.line.unwrap(), error.column.unwrap());
        assert_eq!((found, &*error.message), (place, message), "{yaml:?}");
    }
}

#[test]
fn what_is_missing_at_the_end_is_missing_behind_the_last_text() {
    for (line, column, place) in [(0, 2, (1, 3)), (1, 9, (2, 10)), (2, 0, (2, 6))] {
        let error = YamlError::new("").at(line, column);
        let error = error.within("a: 1\n b: ü \r\n\n".as_bytes());
        assert_eq!((error.line, error.column), (Some(place.0), Some(place.1)));
    }
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    check_refused(&[
        (
            "a: 1\n b: 2\n",
            "line 2, column 3: mapping values are not allowed in this context",
        ),
        ("a: 1\n\tb: 2\n", "line 2, column 1: found a tab character"),
        ("a: b: c\n", "line 1, column 5: mapping values"),
        ("a: @x\n", "line 1, column 4: found character that cannot"),
        ("a: `x\n", "line 1, column 4: found character that cannot"),
        ("a: %x\n", "line 1, column 4: found character that cannot"),
        ("- a\nb: c\n", "line 2, column 1: did not find expected '-'"),
        (
            "a: \"\\q\"",
            "line 1, column 5: found unknown escape character",
        ),
        (
            "a: \"\\xZZ\"",
            "line 1, column 7: did not find expected hexdecimal",
        ),
        ("a: \"\\uD800\"", "line 1, column 7: found invalid Unicode"),
        ("}", "line 1, column 1: did not find expected node content"),
        ("[1}", "line 1, column 3: did not find expected ',' or ']'"),
        (
            "a: |0\n x\n",
            "line 1, column 5: found an indentation indicator",
        ),
        (
            "%YAML 3.0\n---\na: 1",
            "line 1, column 1: found incompatible YAML document",
        ),
        (
            "%FOO\n---\na: 1",
            "line 1, column 5: found unknown directive",
        ),
        (
            "a: x\u{1}y\n",
            "line 1, column 5: the control character U+0001",
        ),
        (
            "a: 1\nb: \u{7f}\n",
            "line 2, column 4: the control character U+007F",
        ),
        ("a: \0\n", "control character U+0000"),
        ("a: \u{ffff}\n", "control character U+FFFF"),
    ]);
    for (bytes, message) in [
        (
            &b"a: 1\nb: \xff\n"[..],
            "line 2, column 4: the text is not valid UTF-8",
        ),
        (b"\xff\xfea\0", "UTF-16"),
        (b"\xfe\xff\0a", "UTF-16"),
    ] {
        assert!(convert(bytes).unwrap_err().to_string().contains(message));
    }
}
