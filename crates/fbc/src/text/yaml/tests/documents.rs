//! Documents and their separators.

use super::*;

#[test]
fn line_ends_and_byte_order_marks_make_no_difference() {
    check(&[
        ("a: 1\r\nb:\r\n- c\r\n", r#"{"a":1,"b":["c"]}"#),
        ("a: |\r\n  x\r\n  y\r\n", r#"{"a":"x\ny\n"}"#),
        ("a: \"x\r\n  y\"\r\n", r#"{"a":"x y"}"#),
        ("a: 1\rb: 2\r", r#"{"a":1,"b":2}"#),
        ("a: |\n  x\u{2028}  y\n", r#"{"a":"x\u2028y\n"}"#),
        ("\u{feff}a: 1\n", r#"{"a":1}"#),
        ("\u{feff}---\na: 1\n", r#"{"a":1}"#),
    ]);
}

#[test]
fn the_first_document_is_read_and_separators_belong_to_it() {
    check(&[
        ("---\na: 1\n", r#"{"a":1}"#),
        ("--- # comment\na: 1\n", r#"{"a":1}"#),
        ("%YAML 1.1\n---\na: 1\n", r#"{"a":1}"#),
        ("a: 1\n...\nb: [\n", r#"{"a":1}"#),
        ("# comment\n\na: 1\n# end", r#"{"a":1}"#),
    ]);
    check_refused(&[
        ("--- a: 1\n", "starts with `---`"),
        ("a: 1\n--- b\n", "line 2"),
        ("----\n", "starts with `---`"),
        ("---a: 1\n", "starts with `---`"),
    ]);
}

#[test]
fn empty_documents_hold_nothing() {
    for yaml in [
        "",
        "\n",
        "  \n\n",
        "# comment\n",
        "---\n",
        "---\n# comment\n",
        "~",
        "null\n",
        "---\n...\n",
        "\u{feff}",
        "!!null ''",
    ] {
        assert_eq!(convert(yaml), Ok(None), "{yaml:?}");
    }
}

#[test]
fn what_stands_behind_a_document_is_not_read_and_told() {
    for (yaml, found, rest) in [
        ("a: 1\n", true, None),
        ("a: &b 1\n# c\n...\n# d\n", true, None),
        ("a: 1\n...\nb: 2\n", true, Some(3)),
        ("{\"a\": 1}\n\n{\"b\": 2}\n", true, Some(3)),
        ("---\n{\"a\": 1} x\n", true, Some(2)),
        ("---\n...\na: 1\n", false, Some(3)),
        ("# c\n", false, None),
    ] {
        let wanted = Converted {
            found,
            rest,
            repeats: false,
        };
        assert_eq!(convert_all(yaml), wanted, "{yaml:?}");
    }
}

#[test]
fn a_dropped_value_is_told() {
    for (yaml, repeats) in [
        ("a: 1\nb: 2\n", false),
        ("a: 1\nb: {c: 2}\n", false),
        ("a: 1\nb: 2\na: 3\n", true),
        ("- b: 1\n  b: 2\n", true),
        ("{a: 1, 'a': 2}", true),
        ("1: a\n'1': b\n", true),
    ] {
        assert_eq!(convert_all(yaml).repeats, repeats, "{yaml:?}");
    }
}
