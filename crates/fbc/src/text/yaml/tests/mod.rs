//! Probes of what goyaml makes of YAML, and properties that hold for any
//! input.

use proptest::prelude::*;

use crate::text::yaml::*;

mod bounds;
mod documents;
mod mappings;
mod refused;
mod scalars;

/// Converts one document; `None` when there is nothing in it.
fn convert(yaml: impl AsRef<[u8]>) -> Result<Option<String>, YamlError> {
    convert_within(yaml, &Limits::default())
}

fn convert_within(yaml: impl AsRef<[u8]>, limits: &Limits) -> Result<Option<String>, YamlError> {
    plain::tests::agrees(yaml.as_ref(), limits);
    let mut out = b"before".to_vec();
    let result = to_json(yaml.as_ref(), limits, &mut out);
    let text = String::from_utf8(out).unwrap();
    let json = text.strip_prefix("before").unwrap();
    assert_eq!(result == Ok(true), !json.is_empty());
    Ok(result?.then(|| json.to_owned()))
}

fn convert_all(yaml: &str) -> Converted {
    crate::text::yaml::convert(yaml.as_bytes(), &Limits::default(), &mut Vec::new()).unwrap()
}

/// Checks a table of YAML and the JSON it becomes.
fn check(table: &[(&str, &str)]) {
    for (yaml, json) in table {
        match convert(yaml) {
            Ok(found) => assert_eq!(found.as_deref(), Some(*json), "of {yaml:?}"),
            Err(error) => panic!("{yaml:?} is refused: {error}"),
        }
    }
}

/// Checks a table of YAML and a part of the message that refuses it.
fn check_refused(table: &[(&str, &str)]) {
    for (yaml, message) in table {
        match convert(yaml) {
            Ok(found) => panic!("{yaml:?} is read as {found:?}"),
            Err(error) => assert!(error.to_string().contains(message), "{yaml:?}: {error}"),
        }
    }
}

/// JSON text as [`to_json`] writes it: compact and with sorted keys.
fn canonical_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        (-(1i64 << 53)..1i64 << 53).prop_map(serde_json::Value::from),
        "[ -~éλ😀]{0,12}".prop_map(serde_json::Value::from),
    ];
    let tree = leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[ -~éλ]{0,6}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,4}", tree, 1..5)
        .prop_map(|map| serde_json::to_string(&map).unwrap())
}

/// Text of the pieces that YAML is made of.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        ": ",
        ":",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        ",",
        "&a ",
        "*a",
        "&b ",
        "*b ",
        "<<: ",
        "<<",
        "!!str ",
        "!a",
        "!",
        "!<x>",
        "|\n",
        ">-\n",
        "|+2\n",
        "'",
        "\"",
        "\\",
        "\\x41",
        "# ",
        "#",
        "? ",
        "?",
        "---\n",
        "...\n",
        "%TAG ! x\n",
        "%",
        "\r\n",
        "\r",
        "\t",
        " ",
        "1",
        "0x1",
        "~",
        "yes",
        "é",
        "\u{2028}",
        "\u{85}",
        "\u{feff}",
        "@",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn holds_for_any_input(bytes: &[u8]) {
    for document in documents(bytes) {
        plain::tests::agrees(document.bytes, &Limits::default());
        let mut out = Vec::new();
        match to_json(document.bytes, &Limits::default(), &mut out) {
            Ok(true) => {
                let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
                assert!(!value.is_null());
                let text = String::from_utf8(out).unwrap();
                // The output is its own canonical form.
                assert_eq!(convert(&text).unwrap().as_deref(), Some(&*text));
            }
            Ok(false) => assert!(out.is_empty()),
            Err(error) => {
                assert!(out.is_empty());
                assert!(!error.message.contains("cannot cope"), "{error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_never_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        holds_for_any_input(&bytes);
    }

    #[test]
    fn text_never_breaks_the_reader(text in yaml_like()) {
        holds_for_any_input(text.as_bytes());
    }

    #[test]
    fn canonical_json_stays_as_it_is(json in canonical_json()) {
        prop_assert_eq!(convert(&json).unwrap(), Some(json));
    }

    #[test]
    fn documents_and_separators_make_up_the_file(text in yaml_like()) {
        let mut end = 0;
        for document in documents(text.as_bytes()) {
            let between = &text[end..document.offset];
            prop_assert!(between.is_empty() || between.starts_with("---"));
            prop_assert_eq!(text[..document.offset].matches('\n').count() + 1, document.line);
            end = document.offset + document.bytes.len();
        }
    }
}
