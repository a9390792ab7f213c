//! Output of the JSON reader, and the positions of its errors.

use crate::text::json::*;

fn canonical(input: &str) -> Result<String, JsonError> {
    let mut out = Vec::new();
    let mut reader = Canonicaliser::default();
    let end = reader.read(input.as_bytes(), 0, &mut out)?;
    assert_eq!(end, Some(input.len()), "{input:?}");
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn objects_come_out_sorted_at_every_level_and_the_last_of_equal_keys_wins() {
    for (input, wanted) in [
        ("{}", "{}"),
        (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
        (r#"{ "b" : 2 , "a" : [ ] }"#, r#"{"a":[],"b":2}"#),
        (
            r#"{"b":{"z":1,"y":{"d":1,"c":2}},"a":1}"#,
            r#"{"a":1,"b":{"y":{"c":2,"d":1},"z":1}}"#,
        ),
        (r#"{"a":1,"a":2,"a":3}"#, r#"{"a":3}"#),
        (
            r#"{"b":1,"a":2,"b":3,"c":0,"a":9}"#,
            r#"{"a":9,"b":3,"c":0}"#,
        ),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
        // '"' (0x22) sorts before '#' although its escape does not.
        (r##"{"#":1,"\"":2}"##, r##"{"\"":2,"#":1}"##),
    ] {
        assert_eq!(canonical(input).as_deref(), Ok(wanted));
    }
}

#[test]
fn numbers_come_out_as_a_float64_round_trip_prints_them() {
    for (input, wanted) in [
        ("0", "0"),
        ("-0", "-0"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1.50", "1.5"),
        ("1e21", "1e+21"),
        ("123456789012345", "123456789012345"),
        // No float64 holds these: kept exactly.
        ("9007199254740993", "9007199254740993"),
        ("12345678901234567890", "12345678901234567890"),
        ("1e-7", "1e-7"),
    ] {
        assert_eq!(canonical(input).as_deref(), Ok(wanted));
    }
    assert!(canonical("1e999").is_err());
    assert!(canonical("01").is_err());
    assert!(canonical("1.").is_err());
}

#[test]
fn strings_keep_only_the_escapes_they_need() {
    for (input, wanted) in [
        (r#""\u003c\/\u0041""#, "\"</A\""),
        (r#""\u0000\u001f\n\b""#, r#""\u0000\u001f\n\b""#),
        (
            "\"\u{2028}\u{2029}\u{2027}é\"",
            "\"\\u2028\\u2029\u{2027}é\"",
        ),
        (r#""\ud83d\ude00""#, "\"😀\""),
        (r#""\ud83dx""#, "\"\u{fffd}x\""),
        (
            r#""a long text with a quote \" far behind""#,
            r#""a long text with a quote \" far behind""#,
        ),
    ] {
        assert_eq!(canonical(input).as_deref(), Ok(wanted));
    }
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    for (input, wanted) in [
        (&b"\"a\xff\xfeb\""[..], "\"a\u{fffd}\u{fffd}b\""),
        // A character cut short, one of three bytes that are a surrogate,
        // and one too long.
        (b"\"\xe2\x80\"", "\"\u{fffd}\u{fffd}\""),
        (b"\"\xed\xa0\x80\"", "\"\u{fffd}\u{fffd}\u{fffd}\""),
        (b"\"\xc0\x80\"", "\"\u{fffd}\u{fffd}\""),
        (
            "\"é\u{10000}\u{10ffff}\"".as_bytes(),
            "\"é\u{10000}\u{10ffff}\"",
        ),
    ] {
        let mut out = Vec::new();
        let end = Canonicaliser::default().read(input, 0, &mut out);
        assert_eq!(end, Ok(Some(input.len())));
        assert_eq!(String::from_utf8_lossy(&out), wanted);
    }
    let outside = Canonicaliser::default().read(b"{\xff", 0, &mut Vec::new());
    assert_eq!(outside.map_err(|error| error.offset), Err(1));
}

#[test]
fn an_error_names_the_place() {
    for (input, offset) in [
        ("{\"a\" 1}", 5),
        ("[1 2]", 3),
        ("{\"a\":tru}", 5),
        ("\"ab", 3),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
    ] {
        let error = Canonicaliser::default()
            .read(input.as_bytes(), 0, &mut Vec::new())
            .unwrap_err();
        assert_eq!(error.offset, offset, "{input}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = "[".repeat(100_000);
    let error = Canonicaliser::default()
        .read(deep.as_bytes(), 0, &mut Vec::new())
        .unwrap_err();
    assert!(error.message.contains("deeper"), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_value_means_the_same_afterwards_and_canonical_text_stays(bytes in ".{0,200}", json in json_value(4)) {
        let _ = Canonicaliser::default().read(bytes.as_bytes(), 0, &mut Vec::new());
        let text = serde_json::to_string_pretty(&json).unwrap();
        let once = canonical(&text).unwrap();
        proptest::prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&once).unwrap(), &json);
        proptest::prop_assert_eq!(canonical(&once).unwrap(), once);
    }
}

fn json_value(depth: u32) -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        // Beyond these, a float64 round trip prints other digits.
        (-(1_i64 << 53)..1 << 53).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(depth, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}
