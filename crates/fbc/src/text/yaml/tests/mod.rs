//! Probes of what goyaml makes of YAML, and properties that hold for any
//! input.

use proptest::prelude::*;

use crate::text::yaml::*;

mod bounds;
mod refused;

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

#[test]
fn words_have_types() {
    check(&[
        ("[y, Y, yes, Yes, YES]", "[true,true,true,true,true]"),
        ("[true, True, TRUE]", "[true,true,true]"),
        ("[on, On, ON]", "[true,true,true]"),
        ("[n, N, no, No, NO]", "[false,false,false,false,false]"),
        ("[false, False, FALSE]", "[false,false,false]"),
        ("[off, Off, OFF]", "[false,false,false]"),
        (
            "[yEs, tRUE, oN, oFF, nO]",
            r#"["yEs","tRUE","oN","oFF","nO"]"#,
        ),
        ("[~, null, Null, NULL]", "[null,null,null,null]"),
        ("[nULL, nil, none]", r#"["nULL","nil","none"]"#),
        ("a:\nb: \nc: ~\n", r#"{"a":null,"b":null,"c":null}"#),
        (
            "['yes', \"no\", '~', 'null', '']",
            r#"["yes","no","~","null",""]"#,
        ),
        ("a: |\n  yes\n", r#"{"a":"yes\n"}"#),
        ("- yes sir\n- no\n", r#"["yes sir",false]"#),
        ("[=, <<, '<<']", r#"["=","<<","<<"]"#),
    ]);
}

#[test]
fn numbers_have_types() {
    check(&[
        ("[0, 1, -1, +1]", "[0,1,-1,1]"),
        ("[-0, +0, 00, -00]", "[0,0,0,0]"),
        ("[010, 012, -010, 0o17, 0O17]", "[8,10,-8,15,15]"),
        ("[08, 09, 018]", "[8,9,18]"),
        ("[0x1F, 0XFF, -0xff, +0x10]", "[31,255,-255,16]"),
        ("[0b101, -0b11, +0b1, 0B10]", "[5,-3,1,2]"),
        ("[0b-11, 0b+11, -0b-1]", r#"[-3,3,"-0b-1"]"#),
        (
            "[0x, 0b, 0o, 0x1G, 0b2, 0o8, 0xg]",
            r#"["0x","0b","0o","0x1G","0b2","0o8","0xg"]"#,
        ),
        ("[1_000, 1__0, 1_, 0x_1F, 1_0.5_0]", "[1000,10,1,31,10.5]"),
        ("[_1, _]", r#"["_1","_"]"#),
        (
            "[1.0, 1.5, -1.50, 1., .5, -.5, +.5]",
            "[1,1.5,-1.5,1,0.5,-0.5,0.5]",
        ),
        (
            "[1e3, 1E3, 1e+3, 1.5e-3, 1.e2, .5e1]",
            "[1000,1000,1000,0.0015,100,5]",
        ),
        (
            "[1e20, 1e21, 1.5e300, 1e-6, 1e-7]",
            "[100000000000000000000,1e+21,1.5e+300,0.000001,1e-7]",
        ),
        ("[-0.0, 0.0, 1e-400]", "[-0,0,0]"),
        ("[1e400, -1e400, .1e999]", r#"["1e400","-1e400",".1e999"]"#),
        (
            "[1e, e1, 1e+, 1.2.3, ., .., '...', 1a, +, -x]",
            r#"["1e","e1","1e+","1.2.3",".","..","...","1a","+","-x"]"#,
        ),
        (
            "[--1, +-1, -+1, 0x-1, 0x+1, 0+1]",
            r#"["--1","+-1","-+1","0x-1","0x+1","0+1"]"#,
        ),
        ("[._5, .5_0]", r#"["._5",".5_0"]"#),
        (
            "[0x1p4, 1p4, infinity, nan, inf, Inf, .inf2]",
            r#"["0x1p4","1p4","infinity","nan","inf","Inf",".inf2"]"#,
        ),
        ("[190:20:30, 1:2, 12:30]", r#"["190:20:30","1:2","12:30"]"#),
        ("[1,2, 1 2]", r#"[1,2,"1 2"]"#),
        (
            "[9007199254740991, 9007199254740992, 9007199254740994]",
            "[9007199254740991,9007199254740992,9007199254740994]",
        ),
        // Beyond the integers that floats hold, the digits stay.
        (
            "[9007199254740993, -9007199254740993]",
            "[9007199254740993,-9007199254740993]",
        ),
        (
            "[9223372036854775807, -9223372036854775807]",
            "[9223372036854775807,-9223372036854775807]",
        ),
        (
            "[12345678901234567890, 18446744073709551615]",
            "[12345678901234567890,18446744073709551615]",
        ),
        (
            "[123456789012345678901234567890, -123456789012345678901234567890]",
            "[123456789012345678901234567890,-123456789012345678901234567890]",
        ),
        (
            "[+123456789012345678901234567890, 000123456789012345678901234567899]",
            "[123456789012345678901234567890,123456789012345678901234567899]",
        ),
        // Where a float holds the integer, the peers' digits.
        (
            "[9223372036854775808, -9223372036854775808]",
            "[9223372036854776000,-9223372036854776000]",
        ),
        ("[10000000000000000000000]", "[1e+22]"),
        (
            "[0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFFF]",
            r#"[18446744073709551615,"0xFFFFFFFFFFFFFFFFF"]"#,
        ),
        (
            "[0.1.0, v1, 1.2.3-rc1, 4.20, 4.2]",
            r#"["0.1.0","v1","1.2.3-rc1",4.2,4.2]"#,
        ),
    ]);
}

#[test]
fn timestamps_stay_strings() {
    check(&[
        (
            "[2026-01-02, 2001-12-14t21:59:43.10-05:00]",
            r#"["2026-01-02","2001-12-14t21:59:43.10-05:00"]"#,
        ),
        (
            "[2001-12-14 21:59:43.10 -5, 2001-13-99]",
            r#"["2001-12-14 21:59:43.10 -5","2001-13-99"]"#,
        ),
        ("2026-01-02: x", r#"{"2026-01-02":"x"}"#),
        ("!!timestamp 2026-01-02", r#""2026-01-02""#),
    ]);
    check_refused(&[
        ("!!timestamp tomorrow", "!!timestamp"),
        ("!!timestamp 12", "!!timestamp"),
    ]);
}

#[test]
fn tags_set_or_check_the_type() {
    check(&[
        (
            "[!!str 1, !!str yes, !!str ~, !!str , ! 12, ! '12']",
            r#"["1","yes","~","",12,12]"#,
        ),
        ("[!!int 12, !!int '0x10', !!int 1_0]", "[12,16,10]"),
        (
            "[!!float 1, !!float 1.5, !!float '2', !!float 1e3]",
            "[1,1.5,2,1000]",
        ),
        ("[!!bool yes, !!bool 'no']", "[true,false]"),
        ("[!!null ~, !!null '', !!null ]", "[null,null,null]"),
        ("!<tag:yaml.org,2002:str> 12", r#""12""#),
        ("%TAG !y! tag:yaml.org,2002:\n---\n!y!str 12", r#""12""#),
        ("[!custom 1, !!set x, !!merge x]", r#"["1","x","x"]"#),
        (
            "a: !custom {b: 1}\nc: !!omap [d]",
            r#"{"a":{"b":1},"c":["d"]}"#,
        ),
        ("!!binary aGVsbG8=", r#""hello""#),
        ("!!binary |\n  aGVs\n  bG8=\n", r#""hello""#),
        (
            "[!!binary gIGC, !!binary w6T/, !!binary '']",
            "[\"\u{fffd}\u{fffd}\u{fffd}\",\"ä\u{fffd}\",\"\"]",
        ),
        ("!!binary aGk=: 1", r#"{"hi":1}"#),
        ("!!str 1: a", r#"{"1":"a"}"#),
    ]);
    check_refused(&[
        ("!!int abc", "!!int"),
        ("!!int 1.5", "!!int"),
        ("!!int ''", "!!int"),
        ("!!float x", "!!float"),
        ("!!float 12345678901234567890", "!!float"),
        ("!!bool 1", "!!bool"),
        ("!!null x", "!!null"),
        ("!!binary a", "base64"),
        ("!!binary aGk", "base64"),
        ("!!binary 'aG k='", "base64"),
        ("!unknown!x 1", "tag handle"),
        ("[!a, b]", "while scanning a tag"),
    ]);
}

#[test]
fn infinities_and_nan_have_no_json() {
    check_refused(&[
        ("a: .inf", "infinity"),
        ("a: -.INF", "infinity"),
        ("a: +.Inf", "infinity"),
        ("a: .nan", "not-a-number"),
        ("a: .NaN", "not-a-number"),
        ("a: !!float .inf", "infinity"),
    ]);
}

#[test]
fn keys_become_strings() {
    check(&[
        ("{y: 1, no: 2, on : 3}", r#"{"false":2,"true":3}"#),
        (
            "{1: a, -1: b, 010: c, 0x10: d}",
            r#"{"-1":"b","1":"a","16":"d","8":"c"}"#,
        ),
        (
            "{1.5: a, 1.0: b, 1e3: c, 0.1: d}",
            r#"{"0.1":"d","1":"b","1.5":"a","1000":"c"}"#,
        ),
        (
            "{1e6: a, 123456.0: b, 0.0001: c, 0.00001: d}",
            r#"{"0.0001":"c","123456":"b","1e+06":"a","1e-05":"d"}"#,
        ),
        (
            "{1234567.0: a, 123456789.0: b, 1e300: c, -.5: d}",
            r#"{"-0.5":"d",".inf":"c","1.2345679e+08":"b","1.234567e+06":"a"}"#,
        ),
        (
            "{.inf: a, -.inf: b, .nan: c}",
            r#"{"-.inf":"b",".inf":"a",".nan":"c"}"#,
        ),
        (
            "{'1': a, \"yes\": b, 'null': c, '': d}",
            r#"{"":"d","1":"a","null":"c","yes":"b"}"#,
        ),
        (
            "{9223372036854775807: a, 123456789012345678901234567890: b}",
            r#"{"1.2345679e+29":"b","9223372036854775807":"a"}"#,
        ),
        ("? a\n: b\n? c\n", r#"{"a":"b","c":null}"#),
        ("{a, b: , c}", r#"{"a":null,"b":null,"c":null}"#),
        ("[a: 1, b]", r#"[{"a":1},"b"]"#),
        ("a b: c d", r#"{"a b":"c d"}"#),
        ("? |\n  block\n: 1\n", r#"{"block\n":1}"#),
    ]);
    check_refused(&[
        ("{null: 1}", "null cannot be a key"),
        ("~: 1", "null cannot be a key"),
        ("{? : 1}", "null cannot be a key"),
        ("{12345678901234567890: 1}", "too large for a key"),
        ("{[a]: 1}", "cannot be a key"),
        ("? {a: b}\n: 1", "cannot be a key"),
        ("? - a\n: 1", "cannot be a key"),
    ]);
}

#[test]
fn keys_are_sorted_and_the_last_of_equal_ones_counts() {
    check(&[
        (
            "b: 1\na: 2\nc: {z: 1, w: 2}\n",
            r#"{"a":2,"b":1,"c":{"w":2,"z":1}}"#,
        ),
        ("a: 1\na: 2\n", r#"{"a":2}"#),
        ("a: {x: 1}\nb: 0\na: {z: 2}\n", r#"{"a":{"z":2},"b":0}"#),
        ("{yes: 1, true: 2, 'true': 3}", r#"{"true":3}"#),
        ("{1: a, '1': b, 0x1: c}", r#"{"1":"c"}"#),
        (
            "{B: 1, a: 2, A: 3, _: 4, é: 5, '': 6}",
            r#"{"":6,"A":3,"B":1,"_":4,"a":2,"é":5}"#,
        ),
        (
            r#"{"\"": 1, "!": 2, "\\": 3, "[": 4, "\n": 5, "]": 6}"#,
            r#"{"\n":5,"!":2,"\"":1,"[":4,"\\":3,"]":6}"#,
        ),
        ("{ab: 1, a: 2, 'a b': 3}", r#"{"a":2,"a b":3,"ab":1}"#),
        ("{}", "{}"),
        ("[]", "[]"),
        ("[{}, [], [[]], {a: {}}]", r#"[{},[],[[]],{"a":{}}]"#),
    ]);
}

#[test]
fn aliases_repeat_what_was_anchored() {
    check(&[
        ("a: &x 1\nb: *x\n", r#"{"a":1,"b":1}"#),
        (
            "a: &x [1, {b: c}]\nb: *x\n",
            r#"{"a":[1,{"b":"c"}],"b":[1,{"b":"c"}]}"#,
        ),
        (
            "b: &x {d: 1, c: 2}\na: *x\n",
            r#"{"a":{"c":2,"d":1},"b":{"c":2,"d":1}}"#,
        ),
        ("[&a x, *a, &a z, *a]", r#"["x","x","z","z"]"#),
        ("[&a [&a 1, *a], *a]", "[[1,1],1]"),
        ("&a x: *a", r#"{"x":"x"}"#),
        ("a: &k key\n*k : v\n", r#"{"a":"key","key":"v"}"#),
        ("a: &k yes\n*k : v\n", r#"{"a":true,"true":"v"}"#),
        ("a: &k 1.0\n*k : v\n", r#"{"1":"v","a":1}"#),
        ("a: &n\nb: *n\n", r#"{"a":null,"b":null}"#),
        ("[&a !!str 1, *a]", r#"["1","1"]"#),
        ("&root {a: 1}", r#"{"a":1}"#),
        ("[&a '*b', *a]", r#"["*b","*b"]"#),
        ("[&x {a: &y [1]}, *y, *x]", r#"[{"a":[1]},[1],{"a":[1]}]"#),
    ]);
    check_refused(&[
        ("a: *x", "no anchor &x"),
        ("a: *x\nb: &x 1", "no anchor &x"),
        ("&a [*a]", "contains itself"),
        ("&a {b: *a}", "contains itself"),
        ("a: &x {b: {<<: *x}}", "contains itself"),
        ("a: &x [1]\n*x : v\n", "cannot be a key"),
        ("a: &x ~\n*x : v\n", "null cannot be a key"),
    ]);
}

#[test]
fn merge_keys_merge_where_they_stand() {
    check(&[
        (
            "a: &v {a: 1, b: 2}\nc: {<<: *v, b: 3}\n",
            r#"{"a":{"a":1,"b":2},"c":{"a":1,"b":3}}"#,
        ),
        // goyaml v2 lets a later merge win over an earlier key.
        (
            "a: &v {a: 1, b: 2}\nc: {b: 3, <<: *v}\n",
            r#"{"a":{"a":1,"b":2},"c":{"a":1,"b":2}}"#,
        ),
        ("{<<: {a: 1, b: 2}, b: 3}", r#"{"a":1,"b":3}"#),
        (
            "{c: 0, <<: {b: 2, a: {z: 1, v: 2}}}",
            r#"{"a":{"v":2,"z":1},"b":2,"c":0}"#,
        ),
        (
            "- &a {x: 1, v: 1}\n- &b {x: 2, z: 2}\n- <<: [*a, *b]\n  w: 0\n",
            r#"[{"v":1,"x":1},{"x":2,"z":2},{"v":1,"w":0,"x":1,"z":2}]"#,
        ),
        (
            "{<<: [{a: 1}, {a: 2, b: 2}, {a: 3, b: 3, c: 3}]}",
            r#"{"a":1,"b":2,"c":3}"#,
        ),
        ("{<<: [], a: 1}", r#"{"a":1}"#),
        ("{<<: {}, a: 1}", r#"{"a":1}"#),
        (
            "{<<: {<<: {a: 1, b: 1}, b: 2}, c: 3}",
            r#"{"a":1,"b":2,"c":3}"#,
        ),
        ("{<<: {a: 1}, <<: {a: 2, b: 2}}", r#"{"a":2,"b":2}"#),
        (
            "a: {<<: &m {x: 1, w: 2}}\nb: *m\n",
            r#"{"a":{"w":2,"x":1},"b":{"w":2,"x":1}}"#,
        ),
        (
            "a: {<<: &m [{x: 1}, {v: 2}], z: 3}\nb: *m\n",
            r#"{"a":{"v":2,"x":1,"z":3},"b":[{"x":1},{"v":2}]}"#,
        ),
        (
            "a: &a {x: 1}\nb: &b {<<: *a, v: 2}\nc: {<<: *b, z: 3}\n",
            r#"{"a":{"x":1},"b":{"v":2,"x":1},"c":{"v":2,"x":1,"z":3}}"#,
        ),
        (
            "{a: {<<: {b: 1}}, <<: {d: {c: 1, b: 2}}}",
            r#"{"a":{"b":1},"d":{"b":2,"c":1}}"#,
        ),
        ("{'<<': {a: 1}}", r#"{"<<":{"a":1}}"#),
        ("{!!str <<: {a: 1}}", r#"{"<<":{"a":1}}"#),
        ("{!!merge x: 1}", r#"{"x":1}"#),
        ("{!!merge '<<': {a: 1}}", r#"{"a":1}"#),
        ("{<<: {1: a, '\"': b}, !!str 1: c}", r#"{"\"":"b","1":"c"}"#),
    ]);
    check_refused(&[
        ("{<<: 1}", "takes a mapping"),
        ("{<<: }", "takes a mapping"),
        ("{<<: [1]}", "takes a mapping"),
        ("{<<: [[{a: 1}]]}", "takes a mapping"),
        ("a: &s x\nb: {<<: *s}", "takes a mapping"),
        ("a: &s [{x: 1}]\nb: {<<: *s}", "takes a mapping"),
        ("a: &s [{x: 1}]\nb: {<<: [*s]}", "takes a mapping"),
    ]);
}

#[test]
fn block_and_flow_scalars_are_folded() {
    check(&[
        ("a: |\n  x\n  y\n", r#"{"a":"x\ny\n"}"#),
        ("a: |-\n  x\n  y\n\n", r#"{"a":"x\ny"}"#),
        ("a: |+\n  x\n\n\n", r#"{"a":"x\n\n\n"}"#),
        ("a: >\n  x\n  y\n\n  z\n", r#"{"a":"x y\nz\n"}"#),
        ("a: >-\n  x\n   y\n  z\n", r#"{"a":"x\n y\nz"}"#),
        ("a: |2\n    x\n   y\n", r#"{"a":"  x\n y\n"}"#),
        ("a: |\n  x", r#"{"a":"x\n"}"#),
        ("a: |-\n  x", r#"{"a":"x"}"#),
        ("a: >\n  x", r#"{"a":"x\n"}"#),
        ("a: |", r#"{"a":""}"#),
        ("a: >\n", r#"{"a":""}"#),
        ("a: | # comment\n  x # text\n", r#"{"a":"x # text\n"}"#),
        ("a: x\n  y\n\n  z\n", r#"{"a":"x y\nz"}"#),
        ("a: 'it''s\n  so'\n", r#"{"a":"it's so"}"#),
        (
            "a: \"x\\ty\\n\\x41\\u00e9\\U0001F600\\0\\e\\_\\N\\L\\P\"",
            "{\"a\":\"x\\ty\\nAé😀\\u0000\\u001b\u{a0}\u{85}\\u2028\\u2029\"}",
        ),
        ("a: \"x\\\n  y\"\n", r#"{"a":"xy"}"#),
        ("a: x #y\nb: x#y\n", r#"{"a":"x","b":"x#y"}"#),
        ("a: http://x/y?z=1:2\n", r#"{"a":"http://x/y?z=1:2"}"#),
        ("a: <>&\n", r#"{"a":"<>&"}"#),
        (
            "- - a\n  - b\n- c: d\n  e: f\n",
            r#"[["a","b"],{"c":"d","e":"f"}]"#,
        ),
        ("a:\n- b\n- c\nd: e\n", r#"{"a":["b","c"],"d":"e"}"#),
        ("[a, b, ]", r#"["a","b"]"#),
        ("{\"a\":1,\"b\":[true,null]}", r#"{"a":1,"b":[true,null]}"#),
        ("just text", r#""just text""#),
        ("# hello\nsome text\n", r#""some text""#),
        ("42", "42"),
    ]);
}

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
        let converted = convert_all(yaml);
        assert_eq!(converted, Converted { found, rest }, "{yaml:?}");
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
                // What comes out is its own canonical form.
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
